"""Ends a foreign program with all processes that it started."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import Process

from rollouthub.processes import kill_group, stat_fields

MARK = "ROLLOUTHUB_EPISODE"
"""Environment variable that every process of an episode inherits, to find those that left the process group."""
_PROC = Path("/proc")
_HAS_PROC = Path("/proc/self/stat").exists()
_POLL_SECONDS = 0.01
_TERMINATE_SECONDS = 0.5
_KILL_SECONDS = 5.0


@dataclass(frozen=True)
class Running:
    """A process, identified by pid and start time."""

    pid: int
    started: str


async def stop_tree(process: Process, mark: str, patience: float) -> int:
    """End a process that leads its own session, with all processes it started; returns how many still live.

    Its stdin is closed, and it may end by itself within `patience` seconds; then it is terminated, and last killed.
    """
    # Who has been its child is found now: once a parent is gone, the way down to its children is lost.
    family = await anyio.to_thread.run_sync(family_of, process.pid, mark, ())
    if process.stdin is not None:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
    if not await has_ended(process, patience):
        kill_group(process.pid, signal.SIGTERM)
        await has_ended(process, _TERMINATE_SECONDS)
    give_up_at = anyio.current_time() + _KILL_SECONDS
    while True:
        family = await anyio.to_thread.run_sync(family_of, process.pid, mark, tuple(family))
        alive = len(family) if _HAS_PROC else int(process.returncode is None)
        if (not alive and process.returncode is not None) or anyio.current_time() >= give_up_at:
            return alive
        kill_group(process.pid)
        for member in family:
            with suppress(OSError):
                os.kill(member.pid, signal.SIGKILL)
        await anyio.sleep(_POLL_SECONDS)


async def has_ended(process: Process, seconds: float) -> bool:
    """Whether a process ends in time. Does not use `wait`, which also waits for processes that inherited its pipes."""
    deadline = anyio.current_time() + seconds
    while process.returncode is None:
        if anyio.current_time() >= deadline:
            return False
        await anyio.sleep(_POLL_SECONDS)
    return True


def family_of(leader: int, mark: str, known: Iterable[Running]) -> list[Running]:
    """The living processes of an episode: the leader's session, descendants, marked processes, and those in `known`."""
    wanted = f"{MARK}={mark}".encode()
    before = set(known)
    parents: dict[int, int] = {}
    found: dict[int, Running] = {}
    for entry in _PROC.glob("[0-9]*"):
        try:
            state, parent, group, session, *rest = stat_fields(entry.name)
            running = Running(int(entry.name), rest[15])
            if state in "ZX":
                continue
            parents[running.pid] = int(parent)
            is_member = running in before or leader in (running.pid, int(group), int(session))
            if is_member or _is_marked(entry, wanted):
                found[running.pid] = running
            else:
                found.setdefault(-running.pid, running)
        except (OSError, ValueError, IndexError):
            continue
    others = {-pid: running for pid, running in found.items() if pid < 0}
    members = {pid: running for pid, running in found.items() if pid > 0}
    while below := [pid for pid in others if parents.get(pid) in members]:
        members |= {pid: others.pop(pid) for pid in below}
    members.pop(os.getpid(), None)
    return list(members.values())


def _is_marked(entry: Path, wanted: bytes) -> bool:
    try:
        return wanted in (entry / "environ").read_bytes().split(b"\0")
    except OSError:  # another user's process
        return False
