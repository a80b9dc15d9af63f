"""`hub import mcp`: somebody's MCP server becomes an environment that runs at once and means the same elsewhere."""

import subprocess
import sys
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.plugins.importers import Identity
from rollouthub.plugins.manifest import load_manifest
from rollouthub_registry.bundle.bundle import build_bundle
from rollouthub_registry.manifest import check_publishable
from rollouthub_servers.mcp_server.mcp_import.environment_folder import import_server
from rollouthub_servers.mcp_server.mcp_import.imported_server import ImportedServer, said
from tests.cli.conftest import (
    Hub,
    hub,  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a fixture
)

SERVER = Path(__file__).with_name("foreign_server.py")
SHOPPING = Path(__file__).parents[2] / "examples" / "mcp_server" / "server.py"
DIGEST = f"someone/server@sha256:{'0' * 64}"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a server in it."""
    (tmp_path / "shopping.py").write_text(SHOPPING.read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_server_becomes_an_environment_that_runs_at_once(hub: Hub, here: Path) -> None:  # noqa: F811
    made = hub(
        "import", "mcp", "--output", "new", "--name", "lab/list", "--json", "--", "python", "shopping.py", "l.json"
    )
    assert made.code == 0, made.err
    assert (made.json["name"], made.json["tools"], made.json["remarks"]) == ("lab/list", ["put", "show"], [])
    assert made.json["commands"][0] == "hub run new -a null"
    ran = hub("run", "new", "-a", "null", "--json", "-q")
    assert ran.code == 0, ran.err
    assert (ran.json["scored"], ran.json["mean_reward"]) == (1, 0.0)
    played = hub("run", "new", "-a", "oracle", "--json", "-q")
    assert played.json["mean_reward"] == 0.0  # so the pattern itself passes no check
    file = here / "new" / "env.toml"
    manifest = load_manifest(file)
    assert manifest.server is not None
    assert manifest.server.command == ("{python}", "{folder}/shopping.py", "l.json")
    assert [problem.key for problem in check_publishable(manifest, file)] == ["license"]
    assert not [path for path in (here / "new").iterdir() if str(here) in path.read_text()]


def test_with_a_licence_nothing_is_left_but_the_tasks(here: Path) -> None:
    asked = said(ImportedServer(command=(sys.executable, "shopping.py", "l.json"), requirements=("mcp>=2,<3",)))
    made = import_server(asked, here / "new", Identity(license="MIT"), sys.executable)
    assert len(made.left) == 2
    assert made.commands[:2] == (f"hub install {here}/new", "hub run local/new -a null")
    manifest = load_manifest(here / "new" / "env.toml")
    assert (manifest.name, manifest.license) == ("local/new", "MIT")
    assert check_publishable(manifest, here / "new" / "env.toml") == []
    assert build_bundle(here / "new", here).manifest == manifest


def test_tools_are_named_as_the_server_names_them_but_for_those_that_are_hidden(here: Path) -> None:
    asked = said(ImportedServer(command=("python", str(SERVER)), hidden_tools=("crash", "hang")))
    made = import_server(asked, here / "notes", Identity(), sys.executable)
    assert made.tools[:2] == ("notes.write", "look")
    server = load_manifest(here / "notes" / "env.toml").server
    assert server is not None
    assert (server.tools, server.hidden_tools) == (made.tools, ("crash", "hang"))
    assert "is a place on this machine" in made.remarks[0]


def test_a_running_server_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES_TOKEN", "open sesame")
    command = [sys.executable, str(SERVER), "--http"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            asked = said(ImportedServer(url=f"http://127.0.0.1:{port}/mcp", token_variable="NOTES_TOKEN"))
            import_server(asked, tmp_path / "new", Identity(license="MIT"), sys.executable)
        finally:
            process.kill()
    file = tmp_path / "new" / "env.toml"
    assert [problem.key for problem in check_publishable(load_manifest(file), file)] == ["server.url"]  # it is here
    assert not [path for path in file.parent.iterdir() if "open sesame" in path.read_text()]


@pytest.mark.parametrize(
    "command", [("false",), ("no-such-program-here",), ("python", "-c", "raise SystemExit('lost')")]
)
def test_a_server_that_does_not_come_up_leaves_nothing(command: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        import_server(said(ImportedServer(command=command)), tmp_path / "new", Identity(), sys.executable)
    assert ".partial" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_over(here: Path) -> None:
    with pytest.raises(ConfigError, match="is there already"):
        import_server(said(ImportedServer(command=("python", "shopping.py"))), here, Identity(), sys.executable)
    assert [path.name for path in here.iterdir()] == ["shopping.py"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("npx", "-y", "@scope/server"), "@scope/server@1.2.3"),
        (("npx", "server@latest", "--flag"), "server@latest in"),
        (("/usr/bin/npx", "--package=thing", "run"), "name a version: thing@1.2.3"),
        (("npx",), "something"),
        (("uvx", "mcp-server-time"), "mcp-server-time@1.2.3"),
        (("uvx", "--from", "mcp-server-time", "run"), "mcp-server-time@1.2.3"),
    ],
)
def test_what_may_be_another_server_tomorrow_is_refused(words: tuple[str, ...], wanted: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        said(ImportedServer(command=words))
    assert wanted in str(refusal.value).replace("'", "")


@pytest.mark.parametrize(
    ("words", "source"),
    [
        (("npx", "-y", "@scope/server@1.2.3", "x"), "@scope/server@1.2.3"),
        (("npx", "--package", "thing@2.0.0-rc.1", "run"), "thing@2.0.0-rc.1"),
        (("uvx", "mcp-server-time==2025.1.17"), "mcp-server-time==2025.1.17"),
        (("some-program", "--db={workdir}/a.db"), None),
    ],
)
def test_what_stays_the_same_server_is_said_as_it_was_given(words: tuple[str, ...], source: str | None) -> None:
    found = said(ImportedServer(command=words))
    assert (found.server["command"], found.source) == (list(words), source)


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        (ImportedServer(), "given: none"),
        (ImportedServer(command=("a",), url="http://example.org/mcp"), "given: command and url"),
        (ImportedServer(image="someone/server:latest"), "by digest"),
        (ImportedServer(url="http://example.org/mcp", requirements=("mcp",)), "--requirement"),
        (ImportedServer(command=("a",), token_variable="TOKEN"), "--token-variable goes with --url"),
    ],
)
def test_what_makes_no_server_is_refused(asked: ImportedServer, wanted: str) -> None:
    with pytest.raises(ConfigError, match=wanted):
        said(asked)


def test_an_image_is_named_by_its_digest_with_its_arguments() -> None:
    found = said(ImportedServer(image=DIGEST, args=("--root", "/work")))
    assert found.server == {"image": DIGEST, "args": ["--root", "/work"]}
