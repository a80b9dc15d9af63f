"""A guarded command: it ends as the command does, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rollouthub.processes import descendants, guarded, kill_group, stat_fields


def ended(command: list[str], grace: float = 0.0, stdin: int = subprocess.DEVNULL) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        guarded(command, grace), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    ("line", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9), ("kill -15 $$", -15), ("exit 255", 255)]
)
def test_a_guard_ends_as_its_command_does(line: str, status: int) -> None:
    guard = ended(["sh", "-c", f"echo said; {line}"])
    out, _ = guard.communicate(timeout=30)
    assert (out, guard.returncode) == ("said\n", status)


def test_a_command_that_there_is_not_is_127_and_named() -> None:
    guard = ended(["/no/such/program"])
    assert guard.communicate(timeout=30)[1] == "/no/such/program: No such file or directory\n"
    assert guard.returncode == 127


def test_what_left_the_session_ends_with_the_command() -> None:
    # What is left holds stderr open, so that only its death ends the output.
    guard = ended(["sh", "-c", "{ setsid sh -c 'echo up; exec sleep 1000' & } | head -n 1"])
    assert guard.communicate(timeout=30) == ("up\n", "")
    assert guard.returncode == 0


@pytest.mark.parametrize("grace", [0.0, 20.0])
def test_the_end_of_stdin_ends_the_command_and_asks_it_first_where_there_is_grace(grace: float) -> None:
    line = "trap 'echo asked; exit 5' TERM; setsid sleep 1000 & echo up; while :; do sleep 0.01; done"
    guard = ended(["sh", "-c", line], grace, subprocess.PIPE)
    assert guard.stdout is not None and guard.stdout.readline() == "up\n"
    assert len(descendants(guard.pid)) >= 2
    out, _ = guard.communicate(timeout=30)
    assert (out, guard.returncode) == (("asked\n", 5) if grace else ("", 128 + signal.SIGTERM))


def test_a_guard_without_stdin_ends_on_sigterm() -> None:
    guard = ended(["sh", "-c", "echo up; sleep 1000"])
    assert guard.stdout is not None and guard.stdout.readline() == "up\n"
    guard.terminate()
    guard.communicate(timeout=30)
    assert guard.returncode == 128 + signal.SIGTERM


def test_a_group_is_killed_whole_and_twice_does_no_harm() -> None:
    leader = subprocess.Popen(
        ["sh", "-c", "sleep 1000 & echo up; wait"], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert leader.stdout is not None and leader.stdout.readline() == "up\n"
    kill_group(leader.pid)
    assert leader.communicate(timeout=30) == ("", None)  # the child held stdout, too
    kill_group(leader.pid)
    assert leader.returncode == -signal.SIGKILL


def test_a_process_is_read_whatever_its_name_holds(tmp_path: Path) -> None:
    program = tmp_path / "a) Z 1"
    program.symlink_to(sys.executable)
    child = subprocess.Popen([program, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert int(stat_fields(child.pid)[1]) == os.getpid()
        assert child.pid in descendants(os.getpid())
    finally:
        child.communicate(b"\n", timeout=30)
