"""Programs that try to outlive their command, or to reach the supervisor: each is shown alive first."""

import signal
import subprocess
import sys
import textwrap
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rollouthub_sandboxes.supervisor import frames
from tests.sandboxes.supervisor.test_supervisor import IS_ROOT
from tests.sandboxes.supervisor.wire import Victims, Wire

TREES = {
    "child": "sh -c '{hold}; exec sleep 1000' &",
    "own session": "setsid sh -c '{hold}; exec sleep 1000' &",
    "double fork": "( setsid sh -c '{hold}; exec sleep 1000' & ) &",
    "deaf to TERM": """setsid sh -c 'trap "" TERM HUP INT; {hold}; while :; do sleep 1000; done' &""",
    "stopped": "setsid sh -c '{hold}; kill -STOP $$' &",
}
PYTHON = {
    "threads without a main thread": """
        import ctypes, os, threading, time
        def stay():
            os.write(os.open(PATH, os.O_WRONLY), b"x")
            time.sleep(1000)
        threading.Thread(target=stay).start()
        ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)  # exit, of this thread alone
    """,
    "an endless chain of forks": """
        import os, time
        if os.fork():
            time.sleep(1000)
        os.write(os.open(PATH, os.O_WRONLY), b"x")
        while True:
            if os.fork():
                os._exit(0)
            os.setsid()
    """,
    "a hundred forkers": """
        import os, time
        held = os.open(PATH, os.O_WRONLY)
        for _ in range(100):
            if os.fork() == 0:
                os.setsid()
                while True:
                    if os.fork() == 0:
                        os._exit(0)
                    os.wait()
        os.write(held, b"x")
        time.sleep(1000)
    """,
    "a subreaper": """
        import ctypes, os, time
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
        held = os.open(PATH, os.O_WRONLY)
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                os.write(held, b"x")
                time.sleep(1000)
            os._exit(0)
        time.sleep(1000)
    """,
}


def tree(name: str, victims: Victims) -> list[str]:
    """A command that leaves such a tree, and stays."""
    if name in TREES:
        return ["/bin/sh", "-c", f"{TREES[name].format(hold=victims.hold)} sleep 1000"]
    return [sys.executable, "-c", f"PATH = {str(victims.path)!r}\n{textwrap.dedent(PYTHON[name])}"]


@pytest.mark.parametrize("name", [*TREES, *PYTHON])
def test_a_killed_command_leaves_nobody_behind(wire: Wire, victims: Victims, name: str) -> None:
    channel = wire.start(tree(name, victims))
    victims.seen()
    wire.send("K", channel, b"\0")
    ended = wire.answer(channel).ended
    assert victims.are_dead()
    assert (ended.flags, ended.survivors) == (frames.KILLED, 0)
    assert wire.out("echo on") == b"on\n"


def test_a_timeout_ends_the_whole_tree(wire: Wire, place: Path) -> None:
    # All of them side by side: each victim shows itself at its shell's start, long before the time is over.
    with ExitStack() as stack:
        victims = {name: stack.enter_context(Victims(place, name.replace(" ", "-"))) for name in TREES}
        channels = {name: wire.start(tree(name, each), timeout_ms=4000) for name, each in victims.items()}
        for each in victims.values():
            each.seen()
        for name, each in victims.items():
            ended = wire.answer(channels[name]).ended
            assert each.are_dead(), name
            assert (ended.flags, ended.survivors) == (frames.TIMED_OUT, 0)
            assert ended.wall_us >= 4_000_000


def test_output_from_before_a_timeout_is_kept(wire: Wire) -> None:
    answer = wire.run("echo before; sleep 1000", timeout_ms=2000)
    assert (answer.output, answer.ended.flags) == (b"before\n", frames.TIMED_OUT)


def test_background_processes_may_stay_and_are_counted(wire: Wire, victims: Victims) -> None:
    answer = wire.run(f"setsid sh -c '{victims.hold}; exec sleep 1000' & sh -c '{victims.hold}; exec sleep 1000' &")
    victims.seen(2)
    assert answer.ended.survivors == 2
    assert not victims.are_dead()


def test_background_processes_go_where_the_order_says_so(wire: Wire, victims: Victims) -> None:
    gate = f"read line < {victims.path.parent}/gate"
    subprocess.run(["mkfifo", "-m", "666", victims.path.parent / "gate"], check=True)
    channel = wire.start(f"setsid sh -c '{victims.hold}; exec sleep 1000' & {gate}", flags=frames.KILLS_LEFTOVERS)
    victims.seen()
    (victims.path.parent / "gate").write_bytes(b"\n")
    ended = wire.answer(channel).ended
    assert victims.are_dead()
    assert (ended.status, ended.flags, ended.survivors) == (0, 0, 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGHUP])
def test_who_ends_the_keeper_is_reported_and_loses_its_children(
    wire: Wire, victims: Victims, number: signal.Signals
) -> None:
    command = f"setsid sh -c '{victims.hold}; exec sleep 1000' & {victims.hold}; read line; kill -{number.value} $PPID"
    channel = wire.start(f"{command}; sleep 1000", flags=frames.HAS_INPUT)
    victims.seen(2)
    wire.send("I", channel, b"\n")
    ended = wire.answer(channel).ended
    assert victims.are_dead()
    assert (ended.status, ended.flags) == (-signal.SIGKILL, frames.KEEPER_KILLED)
    assert wire.out("echo on") == b"on\n"


def test_who_stops_the_keeper_ends_as_if_it_had_not(wire: Wire) -> None:
    assert wire.run("kill -STOP $PPID; exit 3").ended.status == 3
    stopped = wire.run("kill -STOP $PPID; sleep 1000", timeout_ms=300).ended
    assert (stopped.status, stopped.flags) == (-signal.SIGKILL, frames.TIMED_OUT)


def test_who_keeps_stopping_the_keeper_is_killed_all_the_same(wire: Wire, victims: Victims) -> None:
    channel = wire.start(f"{victims.hold}; while :; do kill -STOP $PPID; done")
    victims.seen()
    wire.send("K", channel, b"\0")
    assert wire.answer(channel).ended.flags == frames.KILLED
    assert victims.are_dead()


def test_signals_nobody_expects_do_nothing_to_a_keeper(wire: Wire) -> None:
    assert wire.run("for n in 17 18 28 13; do kill -$n $PPID; done; exit 3").ended.status == 3


@pytest.fixture
def humble(program: Path, place: Path) -> Generator[Wire]:
    """A supervisor that runs as its commands do, and is not root."""
    user = 65_534 if IS_ROOT else None
    with Wire([program], cwd=place, user=user, group=user, extra_groups=[] if IS_ROOT else None) as wire:
        yield wire


@pytest.mark.soak  # its intruder is compiled, which takes a minute
def test_nothing_of_the_supervisor_or_a_keeper_can_be_read_or_traced(humble: Wire, intruder: Path) -> None:
    for pid in (str(humble.pid), "parent"):
        assert humble.out([str(intruder), "reach", pid]) == b"\n"
    # The same reaches a process that does not guard itself; what is not asked for here, some machines forbid.
    assert b"environ maps auxv cwd/. root/. fd/0 exe" in humble.out([str(intruder), "reach-child"])


def test_a_supervisor_that_is_blinded_ends_everything(humble: Wire, intruder: Path, victims: Victims) -> None:
    humble.run(f"setsid sh -c '{victims.hold}; exec sleep 1000' &")
    victims.seen()
    humble.start([str(intruder), "blind", str(humble.pid)])
    assert humble.end() == 1
    victims.die()


def test_a_supervisor_that_is_killed_leaves_nobody_behind(humble: Wire, victims: Victims) -> None:
    humble.run(f"setsid sh -c 'trap \"\" TERM HUP; {victims.hold}; sleep 1000' &")
    victims.seen()
    humble.start(f"{victims.hold}; kill -9 {humble.pid}; sleep 1000")
    victims.seen()
    humble.end()
    victims.die()
