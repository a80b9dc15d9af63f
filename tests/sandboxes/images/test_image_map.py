"""The mapping table: which image stands in for which."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub_sandboxes.images.image_map import FromMap, load_from_map


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("python:3.12-slim", "slim"),
        ("python:3.1-slim-bookworm", "slim"),
        ("docker.io/library/python:3.11-slim", "slim"),
        ("python:3.12", None),
        ("python:2.7-slim", None),
        ("ubuntu", "base"),
        ("ubuntu:latest", "base"),
        ("ubuntu:24.04", None),
        ("ghcr.io/ubuntu:latest", None),
        ("localhost:5000/ubuntu", "mine"),
    ],
)
def test_the_first_pattern_that_fits_says_what_stands_in(name: str, expected: str | None) -> None:
    rules = {"python:3.1*-slim*": "slim", "ubuntu:latest": "base", "localhost:5000/ubuntu:*": "mine"}
    assert FromMap(rules).find(name) == expected


def test_the_table_is_read_from_the_users_configuration_or_where_it_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "rollouthub"
    folder.mkdir()
    (folder / "images.toml").write_text('[from]\n"a:*" = "mine"\n')
    (tmp_path / "other.toml").write_text('[from]\n"a:*" = "other"\n')
    assert load_from_map({"XDG_CONFIG_HOME": str(tmp_path)}).find("a:1") == "mine"
    named = {"XDG_CONFIG_HOME": str(tmp_path), "ROLLOUTHUB_IMAGES": str(tmp_path / "other.toml")}
    assert load_from_map(named).find("a:1") == "other"


def test_without_a_file_nothing_stands_in(tmp_path: Path) -> None:
    assert load_from_map({"HOME": str(tmp_path)}).find("a:1") is None


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[from\n", "cannot be read"),
        ('[from]\n"a" = 1\n', "the name of an image"),
        ('[form]\n"a" = "b"\n', "has \\[from\\] alone"),
        ('from = "a"\n', "has \\[from\\] alone"),
    ],
)
def test_a_table_that_is_not_right_is_refused_by_its_name(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "images.toml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=problem) as caught:
        load_from_map({"ROLLOUTHUB_IMAGES": str(file)})
    assert str(file) in str(caught.value)


def test_a_table_that_is_named_and_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_from_map({"ROLLOUTHUB_IMAGES": str(tmp_path / "nothing.toml")})
