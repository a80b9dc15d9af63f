"""What a server behind a wall sees, by its manifest and its settings."""

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub.hosting.server_program import ServerProgram
from rollouthub.hosting.wall.view import view_of
from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import LockedEnvironment

CLASS = '[python]\nentry = "words:Words"\ndistribution = "words"\n'
SERVER = "[server]\n{}\n[verifier]\n{}\n[tasks]\n{}\n"


def install(folder: Path, sections: str, *, is_class: bool = False) -> Installation:
    """An environment with these sections in its env.toml."""
    content = folder / "words" / "content"
    content.mkdir(parents=True)
    (content / "env.toml").write_text(f'name = "lab/words"\n{sections}')
    locked = LockedEnvironment(name="lab/words", version="0.1.0")
    return Installation(locked, "", content / "env.toml", folder / "words" / "venv" / "bin" / "python", is_class)


@pytest.mark.parametrize(
    ("sections", "openings"),
    [
        (CLASS, ()),
        (f"network = true\n{CLASS}", ("network",)),
        (f"{CLASS}[sandbox]\n", ("engine",)),
        (SERVER.format('command = ["x"]', 'command = ["x"]', 'test = "a.jsonl"'), ()),
        (SERVER.format('url = "http://x.test/mcp"', 'command = ["x"]', 'test = "a.jsonl"'), ("network",)),
        (SERVER.format('command = ["x"]', 'url = "http://x.test"', 'test = "a.jsonl"'), ("network",)),
        (SERVER.format('command = ["x"]', 'command = ["x"]', 'test = {hf = "lab/words"}'), ("network",)),
        (SERVER.format('image = "x"', 'command = ["x"]', 'test = "a.jsonl"'), ("engine",)),
    ],
)
def test_it_reaches_what_it_declares(sections: str, openings: tuple[str, ...], tmp_path: Path) -> None:
    assert view_of(install(tmp_path, sections), {}).openings == openings


def test_it_is_shown_what_settings_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "rows").mkdir(parents=True)
    (tmp_path / "test").mkdir()
    for name in ("rows.jsonl", "more.jsonl", "unnamed.jsonl"):
        (tmp_path / name).touch()
    settings: dict[str, JsonValue] = {
        "data": "rows.jsonl",
        "files": ["./more.jsonl", {"deep": "~/rows"}],
        "split": "test",  # also a folder here, which nobody meant
        "source": "hf:lab/rows",
        "missing": "./none",
        "length": 3,
    }
    installation = install(tmp_path, CLASS, is_class=True)
    own = {installation.file.parent, installation.python.parents[1]}
    shown = set(view_of(installation, settings).readable) - own
    assert shown == {tmp_path / "rows.jsonl", tmp_path / "more.jsonl", tmp_path / "home" / "rows"}


@pytest.mark.parametrize("text", ["/", "~/", "./.."])
def test_a_setting_that_shows_your_home_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home" / "work").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "home" / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(ConfigError, match=r"holds your home.*--trust"):
        view_of(install(tmp_path, CLASS, is_class=True), {"data": text})


def test_it_gets_the_variables_that_it_declares_and_no_others(tmp_path: Path) -> None:
    installation = replace(install(tmp_path, CLASS, is_class=True), secrets=("LAB_KEY",))
    view, environ = view_of(installation, {}), {"LAB_KEY": "k", "LANG": "C", "EDITOR": "ed", "HTTPS_PROXY": "http://p"}
    declared = ServerProgram.of(installation).declared(environ)
    assert view.variables(environ, declared) == {
        "LAB_KEY": "k",
        "LANG": "C",
        "HOME": str(view.home),
        "TMPDIR": "/tmp",
        "USER": "environment",
        "LOGNAME": "environment",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    assert replace(view, openings=("network",)).variables(environ, {})["HTTPS_PROXY"] == "http://p"
