"""`hub registry …`: what an operator types."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rollouthub.cli.main import app as hub
from rollouthub.errors import HubError, UsageError
from rollouthub_registry.client.commands.registries import registry
from rollouthub_registry.server.token_hashes import Tokens

Run = Callable[..., "Done"]


@dataclass(frozen=True)
class Done:
    """What a command printed, or what it complained of."""

    out: str
    error: BaseException | None


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `hub registry …`, or `hub serve registry`, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def command(*words: str) -> Done:
        to_serve = ("serve", "registry", *words[1:])
        result = CliRunner().invoke(hub, to_serve) if words[0] == "serve" else CliRunner().invoke(registry, words)
        error = result.exception
        assert error is None or isinstance(error, HubError), result.output
        return Done(result.stdout, error)

    return command


def test_a_token_is_shown_once_listed_without_its_secret_and_revoked(run: Run, tmp_path: Path) -> None:
    made = json.loads(
        run("token", "create", "hub", "--namespace", "lab", "--scope", "publish,yank", "--expires", "90d", "--json").out
    )
    tokens = Tokens(tmp_path / "hub" / "tokens.db")
    found = tokens.find(made["token"])
    assert found is not None and found.allows("yank", "lab") and not found.allows("publish", "other")
    secret = made["token"].rpartition("_")[2]
    assert secret.encode() not in (tmp_path / "hub" / "tokens.db").read_bytes()
    assert secret not in run("token", "list", "hub").out
    assert run("token", "revoke", "hub", made["id"]).error is None
    assert tokens.find(made["token"]) is None
    assert json.loads(run("token", "list", "hub", "--json").out)["tokens"][0]["state"] == "revoked"
    assert (tmp_path / "hub" / "tokens.db").stat().st_mode & 0o777 == 0o600


def test_an_expired_token_counts_no_more(run: Run, tmp_path: Path) -> None:
    text = run("token", "create", "hub", "--namespace", "*", "--expires", "2020-01-01").out.strip()
    assert Tokens(tmp_path / "hub" / "tokens.db").find(text) is None


@pytest.mark.parametrize(
    "words",
    [
        ("token", "create", "hub", "--namespace", "Lab"),
        ("token", "create", "hub", "--namespace", "lab", "--scope", "everything"),
        ("token", "create", "hub", "--namespace", "lab", "--scope", ","),
        ("token", "create", "hub", "--namespace", "lab", "--expires", "soon"),
        ("token", "revoke", "hub", "abc"),
        ("namespace", "assign", "hub", "lab", "--key", "short"),
        ("rebuild", "nothing"),
        ("serve", "hub", "--host", "0.0.0.0"),
    ],
)
def test_what_does_not_hold_is_told(run: Run, words: tuple[str, ...]) -> None:
    assert isinstance(run(*words).error, UsageError)


def test_an_operator_gives_a_namespace_to_a_key(run: Run) -> None:
    key = "ab" * 32
    assert run("namespace", "assign", "hub", "lab", "--key", key).error is None
    assert json.loads(run("namespace", "list", "hub", "--json").out) == {
        "namespaces": [{"namespace": "lab", "owners": [key]}]
    }
    assert isinstance(run("namespace", "assign", "hub", "1ab", "--key", key).error, UsageError)
    assert json.loads(run("rebuild", "hub", "--json").out)["versions"] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("serve", "src", "--port", "0"),
        ("rebuild", "src"),
        ("token", "create", "src", "--namespace", "lab"),
        ("token", "list", "src"),
        ("namespace", "assign", "src", "lab", "--key", "ab" * 32),
        ("namespace", "list", "src"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_folder_of_something_else_is_refused_and_left_as_it_is(
    run: Run, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "program.py").write_text("")
    assert isinstance(run(*words).error, UsageError)
    assert [path.name for path in (tmp_path / "src").rglob("*")] == ["program.py"]


def test_an_empty_disk_and_a_registry_without_its_marker_are_taken(run: Run, tmp_path: Path) -> None:
    (tmp_path / "disk" / "lost+found").mkdir(parents=True)
    assert run("token", "create", "disk", "--namespace", "lab").error is None
    (tmp_path / "disk" / "registry.json").unlink()
    assert run("rebuild", "disk").error is None
    assert (tmp_path / "disk" / "registry.json").exists()


@pytest.mark.parametrize(
    "words", [("namespace", "list", "mistyped"), ("token", "list", "mistyped"), ("token", "revoke", "mistyped", "a")]
)
def test_looking_into_a_registry_that_is_not_there_makes_none(run: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    error = run(*words).error
    assert isinstance(error, UsageError)
    assert "mistyped holds no registry" in str(error)
    assert not list(tmp_path.iterdir())


def test_a_server_says_where_it_is_and_leaves_at_ctrl_c(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from rollouthub.cli.main import main; main()"]
    command += ["serve", "registry", "hub", "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        with urllib.request.urlopen(f"{url}/v0.1/servers", timeout=60) as answer:
            assert json.load(answer) == {"servers": [], "metadata": {"count": 0}}
        server.send_signal(signal.SIGINT)
        out, err = server.communicate(timeout=60)
    assert (server.returncode, out, err) == (130, "", "")
