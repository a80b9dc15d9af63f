"""Commands that run an installed environment: behind a wall unless told otherwise, and the record says which."""

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from rollouthub.hosting.wall.wall import Wall
from tests.cli.conftest import warm
from tests.hosting.wall.evil import ROOT

SHOPPING = "examples/shopping@0.1.0"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which an example is installed: a declared server, which the hub's own interpreter serves."""
    folder = tmp_path_factory.mktemp("installed")
    done = hub(folder, folder, "install", str(ROOT / "examples" / "mcp_server"))
    assert done.returncode == 0, done.stderr
    return folder


def hub(data: Path, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command, with installations in `data`."""
    homes = {"XDG_DATA_HOME": str(data / "data"), "XDG_CONFIG_HOME": str(data / "config")}
    return warm().run([*words], folder, {**os.environ, **homes, **more}, 180)


def run_record(data: Path, folder: Path, *words: str, **more: str) -> tuple[str, list[str], str]:
    """Play one episode of the example: the isolation and openings on its record, and what the run said."""
    out = folder / f"run-{len(list(folder.iterdir()))}"
    done = hub(data, folder, "run", SHOPPING, "-a", "oracle", "--limit", "1", "-o", str(out), *words, **more)
    assert done.returncode == 0, done.stderr
    exported = hub(data, folder, "export", str(out), "-o", str(out) + ".jsonl")
    assert exported.returncode == 0, exported.stderr
    record = json.loads(Path(str(out) + ".jsonl").read_text().splitlines()[0])
    assert record["score"]["reward"] == 1.0
    return record["isolation"], record["openings"], done.stdout + done.stderr


def test_a_run_records_the_wall_that_was_asked_for(data: Path, wall: Wall, tmp_path: Path) -> None:
    isolation, openings, _ = run_record(data, tmp_path, "--wall", wall.kind)
    assert (isolation, openings) == (wall.kind, [])


def test_who_is_trusted_has_no_wall(data: Path, tmp_path: Path) -> None:
    assert run_record(data, tmp_path, "--trust")[0] == "process"


def test_who_is_trusted_for_good_has_no_wall_until_that_is_taken_back(data: Path, tmp_path: Path, wall: Wall) -> None:
    added = hub(data, tmp_path, "trust", "add", "examples/shopping")
    assert added.returncode == 0, added.stderr
    assert f"{SHOPPING} runs without a wall from now on" in added.stdout
    try:
        assert run_record(data, tmp_path)[0] == "process"
        assert run_record(data, tmp_path, "--wall", wall.kind)[0] == wall.kind
        (listed,) = json.loads(hub(data, tmp_path, "list", "--json").stdout)["installed"]
        assert listed["wall"] is False
        assert "no: trusted" in hub(data, tmp_path, "list", COLUMNS="200").stdout
        assert "no wall: you trust it" in hub(data, tmp_path, "info", "examples/shopping").stdout
        assert f"{SHOPPING}: no wall, sha256:" in hub(data, tmp_path, "trust", "list").stdout
    finally:
        removed = hub(data, tmp_path, "trust", "remove", "examples/shopping")
    assert removed.returncode == 0, removed.stderr
    assert run_record(data, tmp_path)[0] != "process"


def test_other_bytes_than_those_that_are_trusted_have_a_wall(data: Path, tmp_path: Path, wall: Wall) -> None:
    """An update does not inherit what its user said of the version before."""
    config = tmp_path / "config"
    store = {"namespaces": {}, "seen": {}, "unwalled": {"examples/shopping": {"0.1.0": f"sha256:{'0' * 64}"}}}
    (config / "rollouthub").mkdir(parents=True)
    (config / "rollouthub" / "trust.json").write_text(json.dumps(store))
    (config / "rollouthub" / "trust.json").chmod(0o600)
    done = hub(data, tmp_path, "list", "--json", XDG_CONFIG_HOME=str(config))
    assert json.loads(done.stdout)["installed"][0]["wall"] is True


def test_trust_names_what_is_installed(data: Path, tmp_path: Path) -> None:
    for words, said in (
        (("add", "examples/shop"), "did you mean 'examples/shopping@0.1.0'?"),
        (("add", "lab/nothing"), "`hub install lab/nothing` installs it"),
        (("add", "examples"), "which keys may sign for 'examples'?"),
        (("add", "examples/shopping", "a" * 64), "keys sign for a namespace"),
        (("remove", "examples/shopping"), "no environment without a wall is named 'examples/shopping'"),
        (("remove", "../x/y"), "'..' is no namespace"),
    ):
        done = hub(data, tmp_path, "trust", *words)
        assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


def test_a_wall_that_does_not_work_here_is_refused(data: Path, tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/engine.sock"
    done = hub(
        data, tmp_path, "run", SHOPPING, "-a", "oracle", "--limit", "1", "--wall", "container", DOCKER_HOST=nowhere
    )
    assert done.returncode == 2, done.stderr
    assert f"{SHOPPING} cannot be put behind --wall container here" in done.stderr
    assert "--trust" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["run", "serve"])
def test_without_any_wall_it_is_refused_until_it_is_trusted(data: Path, tmp_path: Path, command: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("true", "sh", "env"):
        (programs / name).symlink_to(shutil.which(name) or "/bin/sh")
    nothing = {"DOCKER_HOST": f"unix://{tmp_path}/engine.sock", "PATH": str(programs)}
    words = ("run", SHOPPING, "-a", "oracle", "--limit", "1") if command == "run" else ("serve", "env", SHOPPING)
    done = hub(data, tmp_path, *words, **nothing)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    said = " ".join(done.stderr.split())
    assert f"{SHOPPING} cannot be put behind a wall here" in said
    assert "bubblewrap (`bwrap`) is not installed" in said
    assert f"--trust for once, `hub trust add {SHOPPING}` for good" in said
    assert run_record(data, tmp_path, "--trust", **nothing)[0] == "process"


def test_what_is_not_installed_is_not_to_be_trusted_for_good(tmp_path: Path) -> None:
    """`hub trust add` takes what is installed, and what `hub publish` installs apart is not."""
    programs = tmp_path / "bin"
    programs.mkdir()
    nothing = {"DOCKER_HOST": f"unix://{tmp_path}/engine.sock", "PATH": str(programs)}
    done = hub(tmp_path, tmp_path, "publish", str(ROOT / "examples" / "mcp_server"), "--dry-run", **nothing)
    said = " ".join(done.stderr.split())
    assert done.returncode == 2, said
    assert "--trust for once" in said
    assert "hub trust add" not in said


def test_a_run_of_others_opens_no_wall_and_shows_no_file(data: Path, tmp_path: Path) -> None:
    """Its settings say that an environment needs no wall, and name a file of this user's."""
    out = tmp_path / "theirs"
    assert hub(data, tmp_path, "run", SHOPPING, "-a", "oracle", "--limit", "1", "-o", str(out)).returncode == 0
    assert hub(data, tmp_path, "attest", str(out)).returncode == 0
    secret = tmp_path / "secret.txt"
    secret.write_text("mine")
    for request in ({"set": {"server.note": str(secret)}}, {"trust": True}):
        resolved = json.loads((out / "resolved.json").read_text())
        resolved["request"] |= request
        (out / "resolved.json").write_text(json.dumps(resolved))
        with closing(sqlite3.connect(out / "run.db")) as connection, connection:
            connection.execute("UPDATE meta SET value = ? WHERE key = 'resolved'", (json.dumps(resolved),))
        if "set" in request:
            for words in (("score", str(out)), ("fingerprint", "--from", str(out)), ("estimate", "--from", str(out))):
                done = hub(data, tmp_path, *words)
                said = " ".join(done.stderr.split())
                assert (done.returncode, "would have examples/shopping" in said) == (2, True), said
                assert "name the environment yourself" in said
            done = hub(data, tmp_path, "verify", f"{out}.receipt.json", "--replay")
            assert "would have examples/shopping" in " ".join((done.stdout + done.stderr).split())
            (out / "resolved.json").write_text(json.dumps({**resolved, "request": {**resolved["request"], "set": {}}}))
    programs = tmp_path / "bin"
    programs.mkdir()
    nothing = {"DOCKER_HOST": f"unix://{tmp_path}/engine.sock", "PATH": str(programs)}
    done = hub(data, tmp_path, "fingerprint", "--from", str(out), **nothing)
    assert done.returncode == 2
    assert "cannot be put behind a wall here" in done.stderr, "it would run as a plain process"
