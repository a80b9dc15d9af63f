"""Which registry a namespace comes from."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub_registry.client.registries import FILE_NAME, Registries, add_registry, remove_registry

PUBLIC, LAB = "https://hub.example", "file:///srv/lab"


def written(folder: Path, text: str) -> Registries:
    """The registries that a file names."""
    (folder / FILE_NAME).write_text(text)
    return Registries.load(folder, {})


def test_the_first_registry_that_matches_is_the_one_source_of_a_namespace(tmp_path: Path) -> None:
    add_registry(tmp_path, LAB, ["lab", "team-*"])
    add_registry(tmp_path, PUBLIC)
    known = Registries.load(tmp_path, {})
    assert [known.source_of(name) for name in ("lab", "team-a", "team", "laboratory")] == [LAB, LAB, PUBLIC, PUBLIC]


def test_a_later_registry_gets_nothing_that_an_earlier_one_matches(tmp_path: Path) -> None:
    add_registry(tmp_path, PUBLIC)
    add_registry(tmp_path, LAB, ["lab"])
    assert Registries.load(tmp_path, {}).source_of("lab") == PUBLIC
    add_registry(tmp_path, LAB, ["lab"], first=True)
    assert Registries.load(tmp_path, {}).source_of("lab") == LAB
    assert Registries.load(tmp_path, {}).urls == (LAB, PUBLIC)


def test_a_namespace_without_a_registry_is_an_error_that_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no registry is named for the namespace 'lab'; .*--registry URL.*registry add"
    ):
        Registries.load(tmp_path, {}).source_of("lab")
    add_registry(tmp_path, PUBLIC, ["other"])
    with pytest.raises(ConfigError, match=r"there is https://hub\.example for others"):
        Registries.load(tmp_path, {}).source_of("lab")


def test_the_registry_of_the_environment_comes_last(tmp_path: Path) -> None:
    add_registry(tmp_path, LAB, ["lab"])
    known = Registries.load(tmp_path, {"ROLLOUTHUB_REGISTRY": "HTTPS://Hub.Example:443/"})
    assert [known.source_of(name) for name in ("lab", "other")] == [LAB, PUBLIC]


def test_adding_a_registry_again_changes_its_namespaces_in_its_place(tmp_path: Path) -> None:
    add_registry(tmp_path, LAB, ["lab"])
    add_registry(tmp_path, PUBLIC)
    add_registry(tmp_path, LAB + "/", ["lab", "team-*"])
    assert [(entry.url, entry.namespaces) for entry in Registries.load(tmp_path, {}).entries] == [
        (LAB, ("lab", "team-*")),
        (PUBLIC, ("*",)),
    ]


def test_a_registry_is_taken_out(tmp_path: Path) -> None:
    add_registry(tmp_path, LAB)
    assert remove_registry(tmp_path, LAB).url == LAB
    assert Registries.load(tmp_path, {}).entries == ()
    with pytest.raises(UnknownNameError):
        remove_registry(tmp_path, LAB)


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("a*b", "ab", "ba"),
        ("a*b*c", "a-b-c", "a-c-b"),
        ("*lab", "mylab", "labs"),
        ("lab.*", "lab.x", "labx"),
        ("a*a", "aa", "a"),
    ],
)
def test_a_star_is_any_text_and_nothing_else_is_special(
    tmp_path: Path, pattern: str, matching: str, other: str
) -> None:
    add_registry(tmp_path, LAB, [pattern])
    (entry,) = Registries.load(tmp_path, {}).entries
    assert (entry.matches(matching), entry.matches(other)) == (True, False)


@pytest.mark.parametrize("pattern", ["", "LAB", "lab/dice", "[ab]", "a?", "../x", "läb", "*" * 100, "la b", "\x1b[31m"])
def test_what_is_no_pattern_is_refused_and_nothing_is_written(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ConfigError, match="is no namespace"):
        add_registry(tmp_path, LAB, [pattern])
    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("registry = 1", "registries.toml does not hold: registry"),
        ("[[registry]]\nurl = 'https://h'\nextra = 1", "registry.0.extra"),
        ("[[registry]]\nurl = 'https://h'\nnamespaces = []", "registry.0.namespaces"),
        ("[[registry]]\nurl = 'h'", "registry 1: 'h' is no URL"),
        ("[[registry]]\nurl = 'https://h'\nnamespaces = ['A']", "registry 1: 'A' is no namespace"),
        ("[[registry]]\nurl = 'https://h'\n[[registry]]\nurl = 'https://H/'", "names the registry https://h twice"),
        ("[[registry]", "cannot be read"),
    ],
)
def test_a_file_that_does_not_hold_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        written(tmp_path, text)
    assert said in str(refused.value)


def test_a_variable_that_does_not_hold_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\$ROLLOUTHUB_REGISTRY: 'hub' is no URL"):
        Registries.load(tmp_path, {"ROLLOUTHUB_REGISTRY": "hub"})
