"""Every command, started in a folder that holds modules named like ours, or Python's: none of them is imported."""

import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import typer

from rollouthub.cli.main import app

from .test_working_folder import executed, planted, run

__all__ = ["planted"]

pytestmark = pytest.mark.soak

FIRST = (
    "run arithmetic -m mock/solver --limit 2 -q -o out",
    "new lab/made",
    "registry token create shelf --namespace lab",
)
"""What makes what the others look at."""
ARGUMENTS = {
    "run": "arithmetic -m mock/solver --limit 1 --served -q -o other",
    "estimate": "--from out",
    "play": "arithmetic",
    "connect": "arithmetic --print-config claude",
    "serve agents": "arithmetic -m mock/solver --port {port} -o served",
    "serve env": "arithmetic --port {port}",
    "serve model": "nothing-here --port {port}",
    "serve mock": "solver --port {port}",
    "serve rewards": "arithmetic --port {port}",
    "serve stdio": "http://127.0.0.1:{port}/",
    "serve registry": "shelf --port {port}",
    "runs": "--root .",
    "show": "out",
    "score": "out -o scored",
    "export": "out -o rows.jsonl",
    "compare": "out out",
    "report": "out -o page.html",
    "list": "",
    "bench": "overhead --rollouts 10 -c 4 --lane floor --no-memory",
    "doctor": "",
    "import": "nothing-here",
    "live events": "--run nothing-here",
    "live show": "nothing-here",
    "live cancel": "nothing-here",
    "live interrupt": "nothing-here",
    "live pause": "--run nothing-here",
    "live resume": "--run nothing-here",
    "live tell": "nothing-here words",
    "live retry": "nothing-here",
    "live retune": "nothing-here --max-turns 1",
    "model list": "",
    "model stop": "nothing-here",
    "check": "arithmetic --limit 1",
    "images build": "nothing-here",
    "images list": "",
    "images prune": "--dry-run",
    "info": "lab/thing",
    "install": "lab/thing --registry file://{folder}/shelf",
    "lock": "arithmetic",
    "login": "http://127.0.0.1:{port}",
    "new": "lab/other",
    "publish": "made --registry file://{folder}/shelf --dry-run",
    "registry add": "file://{folder}/shelf",
    "registry list": "",
    "registry remove": "file://{folder}/shelf",
    "registry rebuild": "shelf",
    "registry token create": "shelf --namespace lab",
    "registry token list": "shelf",
    "registry token revoke": "shelf nothing-here",
    "registry namespace assign": "shelf lab --key nothing-here",
    "registry namespace list": "shelf",
    "remove": "lab/thing",
    "sandbox list": "",
    "sandbox sweep": "",
    "sandbox shell": "nothing-here",
    "search": "thing --registry file://{folder}/shelf",
    "trust add": "lab nothing-here",
    "trust list": "",
    "trust remove": "lab",
    "upgrade": "",
    "watch": "out --text",
    "yank": "lab/thing@1.0.0 --reason none",
}
"""Command → arguments with which it does its work, or gets as far as what is missing, and ends."""


def _commands(command: object, before: tuple[str, ...] = ()) -> list[str]:
    below: dict[str, object] = getattr(command, "commands", {})
    if not below:
        return [" ".join(before)]
    return [each for name, sub in below.items() for each in _commands(sub, (*before, name))]


def test_no_command_imports_from_the_working_folder_when_it_is_started(planted: Path, tmp_path: Path) -> None:
    assert set(_commands(typer.main.get_command(app))) == set(ARGUMENTS)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        fields = {"port": taken.getsockname()[1], "folder": planted}
        lines = [f"{name} {words}".format(**fields) for name, words in ARGUMENTS.items()]
        own = {"HOME": str(tmp_path / "home"), "XDG_DATA_HOME": str(tmp_path / "home")}

        def started(line: str) -> tuple[str, int, str]:
            done = run(planted, *line.split(), **own)
            return line, done.returncode, done.stderr

        assert [started(line)[1] for line in FIRST] == [0, 0, 0]
        with ThreadPoolExecutor(2) as threads:
            ended = list(threads.map(started, lines))
    assert executed(planted) == ""
    assert [(line, said) for line, _, said in ended if "Traceback" in said] == []
    assert {code for _, code, _ in ended} <= {0, 1, 2, 130}
