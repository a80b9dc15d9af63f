"""`env.toml`: what it may hold, and that every mistake is told with file, line and key."""

import re
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.limits import Limits
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.manifest import ServerSection, VerifierSection, load_manifest

WHOLE = """\
name = "me/notes"
version = "1.2.0"
description = "Notes."
submit = false

[server]
command = ["server", "--at", "{workdir}", "{task.topic}"]
env = { LEVEL = "3" }
tools = ["write"]
call_seconds = 5

[tasks]
easy = "easy.jsonl"
hard = "hard.jsonl"

[verifier]
command = ["{python}", "verify.py"]

[limits]
max_turns = 7
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "env.toml"
    file.write_text(text)
    return file


def with_requirement(folder: Path, requirement: str) -> Path:
    return written(folder, WHOLE.replace("call_seconds = 5", f'requirements = ["{requirement}"]'))


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("mcp=<2", "requirements.0 = 'mcp=<2'"),
        ("mcp @ https://example.org/mcp.whl", "leads to an address, whose bytes may change"),
        ("mcp @ git+https://example.org/mcp.git", "leads to an address, whose bytes may change"),
    ],
)
def test_a_requirement_that_no_version_pins_is_refused(requirement: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        load_manifest(with_requirement(tmp_path, requirement))


@pytest.mark.parametrize(
    ("requirement", "here"), [("mcp<2", r"here is 2\.\d+"), ("no-such-distribution", "here is none")]
)
def test_a_server_whose_requirements_are_not_the_hubs_wants_to_be_installed(
    requirement: str, here: str, tmp_path: Path
) -> None:
    file = with_requirement(tmp_path, requirement)
    with pytest.raises(
        ConfigError, match=rf"it needs '{requirement}', and {here}.*hub install {re.escape(str(tmp_path))}"
    ):
        find_environment(str(file))
    assert find_environment(str(file), python="/its/own/python").name == "me/notes"


def test_requirements_of_other_machines_or_that_are_there_stand_in_nobodys_way(tmp_path: Path) -> None:
    for requirement in ("mcp>=2", "no-such-distribution; sys_platform == 'nowhere'"):
        assert find_environment(str(with_requirement(tmp_path, requirement))).name == "me/notes"


def test_a_whole_manifest_is_read(tmp_path: Path) -> None:
    manifest = load_manifest(written(tmp_path, WHOLE))
    assert (manifest.name, manifest.version, manifest.submit) == ("me/notes", "1.2.0", False)
    assert manifest.server is not None
    assert manifest.server.command == ("server", "--at", "{workdir}", "{task.topic}")
    assert (manifest.server.env, manifest.server.tools, manifest.server.call_seconds) == ({"LEVEL": "3"}, ("write",), 5)
    assert list(manifest.tasks) == ["easy", "hard"]
    assert manifest.limits == Limits(max_turns=7)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("submit = false", "sumbit = false", ":4: there is no key 'sumbit'; did you mean 'submit'?"),
        ("submit = false", 'submit = "no"', ":4: submit = 'no': Input should be a valid boolean"),
        ('name = "me/notes"', 'name = "notes"', ":1: name = 'notes': String should match pattern"),
        ('name = "me/notes"\n', "", ":1: the key 'name' is missing"),
        ('"1.2.0"', "1.2", ":2: version = 1.2: Input should be a valid string"),
        ("call_seconds = 5", "call_seconds = 0", ":10: server.call_seconds = 0: Input should be greater than 0"),
        ("call_seconds = 5", "call_secs = 5", ":10: there is no key 'server.call_secs'; did you mean 'call_seconds'?"),
        ("call_seconds = 5", 'url = "http://x/mcp"', ":6: server: give exactly one of `command`, `image`, `url`; comm"),
        ("call_seconds = 5", 'args = ["x"]', ":6: server: `args` goes with `image` alone"),
        (
            '["server", "--at", "{workdir}", "{task.topic}"]',
            "[]",
            ":7: server.command = []: Tuple should have at least",
        ),
        (
            "{workdir}",
            "{workdri}",
            ":6: server: there is no placeholder {workdri} (in '{workdri}'); there are: {workdir}",
        ),
        ('{ LEVEL = "3" }', '{ "A B" = "3" }', ":8: server.env.A B"),
        ('[verifier]\ncommand = ["{python}", "verify.py"]\n', "", ":1: the section [verifier] is missing"),
        (
            'command = ["{python}", "verify.py"]',
            "",
            ":16: verifier: give exactly one of `command`, `url`, `judge`; none is there",
        ),
        ('command = ["{python}", "verify.py"]', 'url = "file:///x"', ":17: verifier.url = 'file:///x': String should"),
        ('easy = "easy.jsonl"\nhard = "hard.jsonl"', "", ":12: the section [tasks] is missing or empty"),
        ("max_turns = 7", "max_turn = 7", ":20: there is no key 'limits.max_turn'; did you mean 'max_turns'?"),
        ("[tasks]", "[tasks", " is not TOML: Expected ']' at the end of a table declaration (at line 12"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_key(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in WHOLE
    file = written(tmp_path, WHOLE.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load_manifest(file)
    assert f"{file}{said}" in str(caught.value)


def test_the_documentation_shows_a_manifest_that_holds_and_names_every_key_of_a_server(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "any-mcp-server.md").read_text()
    shown = text.partition("```toml\n")[2].partition("```")[0]
    load_manifest(written(tmp_path, shown))
    keys = ["name", "version", "description", "submit", *ServerSection.model_fields, *VerifierSection.model_fields]
    assert [key for key in keys if not re.search(rf"^{key} |`{key}`|\[{key}\]", text, re.MULTILINE)] == []


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    file = written(tmp_path, WHOLE.replace("submit", "sumbit").replace("max_turns = 7", "max_turns = 0"))
    with pytest.raises(ConfigError) as caught:
        load_manifest(file)
    assert [line.split(": ")[0][-3:] for line in str(caught.value).splitlines()] == ["l:4", ":20"]


def test_a_script_keeps_its_own_braces(tmp_path: Path) -> None:
    words = """["sh", "-c", "echo {x} ${HOME}", "${HOME}"]"""
    text = WHOLE.replace('["server", "--at", "{workdir}", "{task.topic}"]', words)
    server = load_manifest(written(tmp_path, text)).server
    assert server is not None
    assert server.command == ("sh", "-c", "echo {x} ${HOME}", "${HOME}")


def test_a_running_server_takes_no_files(tmp_path: Path) -> None:
    text = WHOLE.replace('command = ["server", "--at", "{workdir}", "{task.topic}"]', 'url = "http://x/mcp"')
    with pytest.raises(ConfigError, match="`files` and `artifacts` are for a server that is started here"):
        load_manifest(written(tmp_path, text))


def test_a_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_manifest(tmp_path)
    file = tmp_path / "env.toml"
    file.write_bytes(b'name = "\xff"')
    with pytest.raises(ConfigError, match="is not UTF-8: byte 8"):
        load_manifest(file)


def test_a_manifest_is_found_by_its_path_or_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, WHOLE)
    monkeypatch.chdir(tmp_path)
    for name in (str(file), str(tmp_path), ".", "./env.toml", "env.toml"):
        found = find_environment(name)
        assert (found.name, found.summary, found.is_trusted, found.environment.version) == (
            "me/notes",
            "Notes.",
            True,
            "1.2.0",
        )
        assert found.environment.splits(found.environment.config_type()) == ("easy", "hard")


def test_a_registered_name_wins_over_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "arithmetic").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_environment("arithmetic").environment.__name__ == "Arithmetic"


@pytest.mark.parametrize("name", ["missing.toml", "folder"])
def test_what_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="there is no file"):
        find_environment(name)
    with pytest.raises(UnknownNameError):
        find_environment("nothing")
