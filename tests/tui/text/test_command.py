"""`hub watch --text` as a command: without a terminal, in scripts, without what the screens need; and at a terminal."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from rollouthub import Outcome
from rollouthub.errors import UsageError
from rollouthub.plugins.extras import pip_install
from rollouthub.store import open_run
from rollouthub_tui.app.command import watch
from rollouthub_tui.settings import Settings, save_settings
from tests.cli.conftest import HUB, environment, started
from tests.tui.app.test_terminal import Terminal, watching
from tests.tui.text.conftest import is_plain

WITHOUT = (
    "import sys; sys.modules['textual'] = sys.modules['regex'] = None; from rollouthub.cli.main import main; main()"
)


def test_without_a_terminal_a_run_is_summed_up_and_nothing_of_the_screens_is_needed(made_runs: Path) -> None:
    words = ("watch", "--text", "good", "--root", str(made_runs / "runs"))
    doing = [part for each in ("summary", "best", "find 4", "tasks") for part in ("--do", each)]
    command = [sys.executable, "-c", WITHOUT, *words, *doing]
    done = subprocess.run(
        command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("Run good: finished, everything planned was played.\ndone: 96 of 96")
    assert "\n24: " in done.stdout, "nobody turns pages: all of it is there"
    cure = pip_install("tui")
    assert f"to find something in one rollout, regex is needed: run `{cure}`" in done.stderr
    assert done.returncode == 1, "something was not done"
    assert is_plain(done.stdout)


def watched(**options: Any) -> int:
    """The exit code of `hub watch` with these options, in this process, whose stdout is no terminal."""
    with pytest.raises(typer.Exit) as left:
        watch(**options)
    return left.value.exit_code


def test_in_a_pipe_it_says_what_there_is_and_ends(made_runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    roots = [made_runs / "runs"]
    assert watched(text=True, root=roots) == 0
    assert capfd.readouterr().out.splitlines()[0] == "2 runs, 0 of them live."
    assert watched(run="worse", text=True, root=roots) == 0
    told = capfd.readouterr()
    assert told.err == ""
    assert told.out.count("Run worse: finished") == 1


def test_what_makes_no_sense_is_refused(made_runs: Path, capfd: pytest.CaptureFixture[str]) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"do": ["runs"]}, "--do goes with --text"),
        ({}, "`hub watch --text` goes line by line"),
    ]
    for options, why in refused:
        with pytest.raises(UsageError, match=why):
            watch(**options)
    assert watched(run="god", text=True, root=[made_runs / "runs"]) == 2
    said = capfd.readouterr().err
    assert said.startswith("error: no run is named 'god'; did you mean 'good'?")
    assert "\x1b" not in said


def test_a_pipe_has_no_lines_that_are_remembered(
    made_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    save_settings(Settings(text=True), dict(os.environ))
    with pytest.raises(UsageError, match="needs a terminal"):
        watch(run="good", root=[made_runs / "runs"])


def test_a_damaged_run_is_told_of_without_a_traceback(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.db").write_bytes(b"no database" * 100)
    assert watched(run="bad", text=True, root=[tmp_path]) == 2
    said = capfd.readouterr().err
    assert said.startswith("error: ") and "damaged" in said
    assert "Traceback" not in said


@pytest.mark.live
def test_commands_are_read_from_a_pipe_and_a_run_is_followed_to_its_end(tmp_path: Path) -> None:
    model = "mock/solver?accuracy=0.5&latency=1.5"
    play = ("run", "arithmetic", "-m", model, "--limit", "8", "-c", "2", "-o", "runs/sums")
    here = {"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    with started(tmp_path, *play, "-q", **here):
        wait_for(tmp_path / "runs" / "sums" / "run.db")
        command = [*HUB, "watch", "--text", "sums"]
        followed = done_by(command, tmp_path, here)
    assert followed.returncode == 0, followed.stderr
    lines = followed.stdout.splitlines()
    assert lines[0] == "Run sums: running, it plays now."
    ended = re.compile(r"ended: task \S+, sample 0: reward [01]\.000, (not )?passed, finished")
    assert any(map(ended.match, lines))
    assert followed.stdout.count("Run sums: finished, everything planned was played.") == 2
    assert "done: 8 of 8, 100.0%" in followed.stdout
    piped = done_by([*command, "--do", "-"], tmp_path, here, "rollouts reward == 1\nopen 1\nshow\n")
    assert piped.returncode == 0, piped.stderr
    assert "agent: " in piped.stdout


def done_by(
    command: list[str], folder: Path, here: dict[str, str], given: str = ""
) -> subprocess.CompletedProcess[str]:
    """How a command ends that is given a text."""
    surroundings = environment(**here)
    return subprocess.run(
        command, cwd=folder, env=surroundings, input=given, capture_output=True, text=True, check=False
    )


def wait_for(path: Path) -> None:
    """Until it is there."""
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.live
def test_at_a_terminal_a_live_run_is_attached_to_and_steered(tmp_path: Path) -> None:
    runtime = tmp_path / "r"
    runtime.mkdir(mode=0o700)
    here = {"XDG_RUNTIME_DIR": str(runtime), "TERM": "dumb"}
    model = "mock/solver?accuracy=0.6&fail=0.1&latency=1..4"
    options = ("--retries", "0", "--limit", "300", "-c", "6", "--seed", "7", "-o", "runs/sums")
    play = ("run", "arithmetic", "-m", model, *options)
    with started(tmp_path, *play, "-q", **here):
        wait_for(tmp_path / "runs" / "sums" / "run.db")
        with watching(tmp_path, program=[*HUB, "watch", "--text"], **here) as (terminal, before):
            asked(terminal, b"", b"1: sums, running, ")
            asked(terminal, b"open 1\n", b"Run sums: running, it plays now.")
            asked(terminal, b"follow\n", b"unscored", prompted=False)
            asked(terminal, b"\n", b"> ")
            asked(terminal, b"errors\n", b"1: model failed, model ModelError, unscored, ")
            asked(terminal, b"open 1\n", b"infrastructure fault: model_failed, unscored")
            asked(terminal, b"show\n", b"simulated failure")
            victim = cancelled(terminal)
            until_ended(tmp_path / "runs" / "sums", victim)
            asked(terminal, b'errors outcome == "cancelled"\n', b"1: cancelled, ")
            asked(terminal, b"always\n", b"line by line")
            asked(terminal, b"follow\n", b"goes back", prompted=False)
            terminal.type(b"\x03")
            asked(terminal, b"", b"> ")
            terminal.type(b"\x04")
            assert terminal.end() == 0
            assert terminal.modes == before
            assert is_plain(terminal.seen.decode().replace("\r\n", "\n").replace("^C", ""))
        with watching(tmp_path, program=[*HUB, "watch"], **here) as (terminal, _):
            asked(terminal, b"", b"help lists the words")  # it was wanted always
            terminal.type(b"\x03")
            assert terminal.end() == 0
        with watching(tmp_path, program=[*HUB, "watch", "sums"], **here) as (terminal, before):
            asked(terminal, b"follow\n", b"goes back", prompted=False)
            terminal.process.terminate()
            assert terminal.end() == 143, terminal.seen
            assert terminal.modes == before
            assert b"Traceback" not in terminal.seen
    assert dict(endings(tmp_path / "runs" / "sums"))[victim] is Outcome.CANCELLED


def asked(terminal: Terminal, command: bytes, answer: bytes, *, prompted: bool = True) -> bytes:
    """What is said to a command, up to the next prompt."""
    start = len(terminal.seen)
    terminal.type(command)
    terminal.until_after(start, answer)
    if prompted:
        terminal.until_after(terminal.seen.index(answer, start), b"\r\n> " if answer != b"> " else b"> ")
    return terminal.seen[start:]


def cancelled(terminal: Terminal) -> str:
    """The id of a rollout in flight that was cancelled; one that ends before that is followed by another."""
    for _ in range(5):
        asked(terminal, b"rollouts\n", b"1: in flight in ")
        start = len(terminal.seen)
        terminal.type(b"cancel 6\n")
        terminal.until_after(start, b"\r\n")
        terminal.until_after(start + len(b"cancel 6\r\n"), b" ")
        terminal.until_after(start + len(b"cancel 6\r\n"), b": " if b"End " in terminal.seen[start:] else b"> ")
        if found := re.search(rb"End [^(\n]*\((\S+)\) now, unscored\?", terminal.seen[start:]):
            asked(terminal, b"yes\n", b"> ")
            return found[1].decode()
    raise AssertionError("every one had ended")


def until_ended(run: Path, rollout_id: str) -> None:
    """Wait until it has a record."""
    end = time.monotonic() + 30
    while rollout_id not in dict(endings(run)):
        assert time.monotonic() < end
        time.sleep(0.1)


def endings(run: Path) -> list[tuple[str, Outcome]]:
    """How each rollout ended that is durable."""
    with open_run(run) as reader:
        return [(row.rollout_id, row.outcome) for row in reader.summaries()]
