"""A folder that holds modules named like ours, or Python's: no command imports them, nor does a process it starts."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from rollouthub_registry.check.thorough.node_programs import CONFORMANCE, INSPECTOR

from .conftest import environment

HUB = Path(sys.executable).with_name("hub")
NAMES = (
    "typer",
    "anyio",
    "json",
    "sitecustomize",
    "usercustomize",
    "rollouthub",
    "pydantic",
    "aiohttp",
    "ray",
    "textual",
)
NOBODY = 65534
PLANTED = """
import os, sys
with open({log!r}, "a") as log:
    log.write(f"{{__name__}} in {{' '.join(sys.orig_argv)[:300]}}\\n")
"""
ALL_HELP = """
import sys, typer
from rollouthub.cli.main import app

def names(command, before=()):
    yield before
    for name, below in getattr(command, "commands", {}).items():
        yield from names(below, (*before, name))

for words in names(typer.main.get_command(app)):
    try:
        app([*words, "--help"], standalone_mode=False)
    except SystemExit:
        pass
    print("asked", *words)
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder with such modules; what is executed of them is written to `executed` beside it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(PLANTED.format(log=str(tmp_path / "executed")))
    (folder / "yaml").mkdir()
    (folder / "yaml" / "__init__.py").write_text(PLANTED.format(log=str(tmp_path / "executed")))
    return folder


def executed(folder: Path) -> str:
    """What was executed."""
    log = folder.with_name("executed")
    return log.read_text() if log.exists() else ""


def plant_program(place: Path, log: Path) -> None:
    """A program that says that it was started, and does nothing else."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f'#!/bin/sh\necho "$0 $@" >> {log}\necho v24.19.0\n')
    place.chmod(0o755)


def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    given: dict[str, Any] = {"cwd": folder, "env": environment(**more), "timeout": 600, "check": False}
    return subprocess.run([HUB, *words], capture_output=True, text=True, **given)


def test_no_command_imports_from_the_working_folder_when_it_is_asked_for_help(planted: Path) -> None:
    command = [sys.executable, "-P", "-c", ALL_HELP]
    done = subprocess.run(command, cwd=planted, env=environment(), capture_output=True, text=True, check=True)
    asked = re.findall(r"^asked ?(.*)$", done.stdout, re.MULTILINE)
    assert {"run", "check", "watch", "connect", "serve model", "bench", "serve registry"} <= set(asked)
    assert run(planted, "--help").returncode == 0
    assert executed(planted) == ""


@pytest.mark.parametrize(
    "words",
    [
        "run arithmetic -m mock/solver --limit 1 --served -q -o out",
        pytest.param(
            "run arithmetic -m mock/solver --limit 1 --pool ray --workers 1 -q -o out", marks=pytest.mark.soak
        ),
        pytest.param("bench overhead --rollouts 10 -c 4 --lane served --no-memory", marks=pytest.mark.live),
        pytest.param("bench latency -c 2 --latency 0.01", marks=pytest.mark.live),
        pytest.param("bench gateway --rollouts 10 -c 4 --no-memory", marks=pytest.mark.live),
    ],
)
def test_no_process_that_a_command_starts_imports_from_the_working_folder(planted: Path, words: str) -> None:
    if "ray" in words.split() and find_spec("ray") is None:
        pytest.skip("ray is not installed")
    done = run(planted, *words.split())
    assert executed(planted) == ""
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 1), done.stderr


@pytest.mark.parametrize(
    ("owner", "only"),
    [
        (NOBODY if os.geteuid() == 0 else os.geteuid(), ("inspector", "conformance", "verbs")),
        pytest.param(NOBODY, (), marks=pytest.mark.soak),
        pytest.param(os.geteuid(), (), marks=pytest.mark.soak),
    ],
)
def test_a_thorough_check_starts_no_program_of_the_working_folder(
    planted: Path, owner: int, only: tuple[str, ...]
) -> None:
    if owner != os.geteuid() != 0:
        pytest.skip("only root gives files away")
    log = planted.with_name("executed")
    for place in ("node", "bin/node", "node_modules/.bin/node"):
        plant_program(planted / place, log)
    for name, version in (("inspector", INSPECTOR), ("conformance", CONFORMANCE)):
        root = planted / "node_modules" / "@modelcontextprotocol" / name
        plant_program(root / "run.js", log)
        (root / "package.json").write_text(json.dumps({"version": version, "bin": {name: "run.js"}}))
    for place in (planted, *planted.rglob("*")):
        os.chown(place, owner, -1)
    log.unlink(missing_ok=True)
    log.touch()
    log.chmod(0o666)
    done = run(planted, "check", "arithmetic", "--thorough", "--json", *(f"--only={name}" for name in only))
    assert log.read_text() == ""
    told = {attack["attack"]: attack for attack in json.loads(done.stdout)["attacks"]}
    for name in ("inspector", "conformance"):
        assert told[name]["state"] == "not_tried"
        assert "no folder with the MCP project's programs is named" in told[name]["says"]
        assert "--node-tools FOLDER" in told[name]["says"]
    assert done.returncode == 0, done.stderr


def test_no_program_of_the_working_folder_is_found_by_a_search_path_that_names_it(planted: Path) -> None:
    log = planted.with_name("executed")
    for name in ("bwrap", "uv", "git", "docker", "node", "nvidia-smi"):
        plant_program(planted / name, log)
    assert run(planted, "doctor", PATH=f".{os.pathsep}/usr/bin{os.pathsep}").returncode in (0, 1)
    assert not log.exists(), log.read_text()


@pytest.mark.live
def test_a_thorough_check_imports_nothing_from_the_working_folder(planted: Path) -> None:
    assert run(planted, "new", "lab/shelves", "--server").returncode == 0
    done = run(planted, "check", "shelves", "--thorough", "--json")
    assert executed(planted) == ""
    assert done.returncode in (0, 1), done.stderr


async def test_the_pages_of_runs_import_nothing_from_the_working_folder(planted: Path) -> None:
    (planted / "runs").mkdir()
    environ = environment(HOME=str(planted.parent), XDG_STATE_HOME=str(planted.parent / "state"))
    command = [HUB, "view", "--no-browser", "--root", "runs"]
    async with await anyio.open_process(command, cwd=planted, env=environ, stdin=None, stderr=None) as process:
        assert process.stdout is not None
        with anyio.fail_after(60):
            said = re.search(r"http://\S+", (await process.stdout.receive()).decode())
            assert said is not None
            async with aiohttp.ClientSession() as visitor, visitor.get(said[0]) as answer:
                assert answer.status == 200
        process.terminate()
        await process.wait()
    assert executed(planted) == ""
