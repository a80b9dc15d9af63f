"""The supervisor by its frames: commands, what they are given, and its own beginning and end."""

import contextlib
import errno
import os
import signal
import struct
import subprocess
from pathlib import Path

import pytest

from rollouthub_sandboxes.supervisor import frames
from rollouthub_sandboxes.supervisor.frames import HEADER, frame, read_string, string, strings
from tests.sandboxes.supervisor.wire import SECONDS, Victims, Wire

IS_ROOT = os.geteuid() == 0
AN_ORDER = struct.pack("<IIQIQQ", 0, 0, 0, 0, 0, 0)


def test_it_says_hello_with_its_version_and_process(wire: Wire) -> None:
    version, pid = struct.unpack_from("<II", wire.hello)
    architecture, end = read_string(wire.hello, 8)
    assert (version, pid, end) == (frames.VERSION, wire.process.pid, len(wire.hello))
    assert architecture.decode() == os.uname().machine


def test_a_command_ends_with_its_status_and_both_streams(wire: Wire) -> None:
    answer = wire.run("echo out; echo err >&2; exit 3")
    assert (answer.output, answer.errors, answer.ended.status) == (b"out\n", b"err\n", 3)
    assert answer.ended.flags == answer.ended.survivors == 0
    assert 0 < answer.ended.wall_us < SECONDS * 1e6


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_signal_that_ended_a_command_is_told(wire: Wire, number: signal.Signals) -> None:
    assert wire.run(f"kill -{number.value} $$").ended.status == -number


def test_a_command_starts_with_no_signal_ignored_or_blocked(wire: Wire) -> None:
    status = wire.out(["/bin/cat", "/proc/self/status"]).decode()
    masks = [line.split()[1] for line in status.splitlines() if line.startswith(("SigBlk", "SigIgn"))]
    own = 0b11 << 31  # signals 32 and 33 are the C library's
    assert [int(mask, 16) & ~own for mask in masks] == [0, 0]


def test_a_command_has_its_streams_open_and_nothing_else(wire: Wire) -> None:
    # A fourth is the folder that is being listed.
    assert wire.out(["/bin/ls", "/proc/self/fd"]).split() == [b"0", b"1", b"2", b"3"]


def test_what_its_parent_forgot_to_close_reaches_no_command(program: Path, place: Path) -> None:
    forgotten = os.open(place, os.O_RDONLY)
    try:
        with Wire([program], pass_fds=[forgotten]) as wire:
            assert wire.out(["/bin/ls", "/proc/self/fd"]).split() == [b"0", b"1", b"2", b"3"]
    finally:
        os.close(forgotten)


def test_a_missing_program_cannot_be_started(wire: Wire) -> None:
    assert wire.run(["/no/such/program"]).failure == (errno.ENOENT, "running the program")
    assert wire.run(["/etc/passwd"]).failure[0] == errno.EACCES


def test_a_missing_folder_cannot_be_entered(wire: Wire) -> None:
    assert wire.run("true", cwd="/no/such/folder").failure == (errno.ENOENT, "entering its working directory")


def test_a_user_who_does_not_exist_runs_nothing(wire: Wire) -> None:
    assert wire.run("true", user="nobody-by-this-name").failure == (errno.ENOENT, "becoming its user")
    assert wire.run("true", user="0:no-such-group").failure == (errno.ENOENT, "becoming its user")


@pytest.mark.skipif(not IS_ROOT, reason="only root becomes somebody else")
@pytest.mark.parametrize(
    ("user", "expected"), [("65534", b"65534 65534"), ("1234", b"1234 1234"), ("1234:5", b"1234 5")]
)
def test_a_command_runs_as_the_user_it_is_for(wire: Wire, user: str, expected: bytes) -> None:
    assert wire.out("echo $(id -u) $(id -g); id -G", user=user).split(b"\n")[0] == expected
    assert b"0" not in wire.out(["/usr/bin/id", "-G"], user=user).split()


def test_a_command_finds_its_folder_and_environment(wire: Wire, place: Path) -> None:
    found = wire.out('pwd; echo "$GREETING"', cwd=str(place), environment={"GREETING": "good = day"})
    assert found.decode().splitlines() == [str(place), "good = day"]


def test_input_arrives_in_pieces_and_its_end_is_told(wire: Wire) -> None:
    channel = wire.start(["/bin/cat"], flags=frames.HAS_INPUT)
    for piece in (b"a", b"bc", b"d" * 100_000):
        wire.send("I", channel, piece)
    wire.send("I", channel)
    answer = wire.answer(channel)
    assert answer.output + answer.ended.stdout_tail == b"abc" + b"d" * 100_000
    assert sum(answer.credits) == 100_003


def test_input_for_a_program_that_does_not_read_is_credited_when_it_is_gone(wire: Wire) -> None:
    channel = wire.start("exec 0</dev/null; echo on", flags=frames.HAS_INPUT)
    wire.send("I", channel, b"x" * frames.WINDOW)
    wire.send("I", channel)
    assert wire.answer(channel).ended.status == 0
    assert wire.out("echo next") == b"next\n"


def test_input_beyond_the_window_waits_and_does_not_hold_up_others(wire: Wire, victims: Victims) -> None:
    channel = wire.start(f"{victims.hold}; sleep 1000", flags=frames.HAS_INPUT)
    victims.seen()
    wire.send("I", channel, b"x" * frames.WINDOW)
    assert wire.out("echo on") == b"on\n"
    credit = 0
    while wire.has(channel):  # while it lives: of one that was killed the rest is dropped, and credited
        kind, payload = wire.next(channel)
        assert kind == "i"
        credit += int.from_bytes(payload, "little")
    assert 0 < credit < frames.WINDOW
    wire.send("K", channel, b"\0")
    assert wire.answer(channel).ended.flags == frames.KILLED


def test_without_input_a_program_meets_its_end_at_once(wire: Wire) -> None:
    assert wire.out(["/bin/cat"]) == b""


def test_a_signal_goes_to_the_process_group(wire: Wire, victims: Victims) -> None:
    both_hold = f"sh -c '{victims.hold}; exec sleep 1000' & {victims.hold}; exec sleep 1000"
    channel = wire.start(both_hold)
    victims.seen(2)
    wire.send("K", channel, bytes((signal.SIGTERM,)))
    ended = wire.answer(channel).ended
    assert (ended.status, ended.flags) == (-signal.SIGTERM, 0)
    victims.die()


def test_a_command_can_be_killed_on_request(wire: Wire, victims: Victims) -> None:
    channel = wire.start(f"setsid sh -c '{victims.hold}; exec sleep 1000' & {victims.hold}; wait")
    victims.seen(2)
    wire.send("K", channel, b"\0")
    ended = wire.answer(channel).ended
    assert (ended.flags, ended.status, victims.are_dead()) == (frames.KILLED, -signal.SIGKILL, True)


def test_a_command_that_is_killed_before_it_starts_ends_too(wire: Wire) -> None:
    channels: list[int] = []
    for _ in range(50):
        channels.append(wire.start("sleep 1000"))
        wire.send("K", channels[-1], b"\0")
    assert {wire.answer(channel).ended.flags for channel in channels} == {frames.KILLED}


def test_a_signal_that_comes_before_its_command_has_started_reaches_it(wire: Wire) -> None:
    channels: list[int] = []
    for _ in range(50):
        channels.append(wire.start("sleep 1000"))
        wire.send("K", channels[-1], bytes((signal.SIGTERM,)))
    ended = [wire.answer(channel).ended for channel in channels]
    assert {(one.status, one.flags) for one in ended} == {(-signal.SIGTERM, 0)}


def test_limits_of_cpu_memory_and_files_hold(wire: Wire, place: Path) -> None:
    busy = wire.run("while :; do :; done", cpu_seconds=1).ended
    assert busy.flags == frames.CPU_LIMIT
    assert busy.status in (-signal.SIGKILL, -signal.SIGXCPU)
    assert b"1048576" in wire.out("ulimit -v", memory=1 << 30)
    wrote = wire.run(f"head -c 2000000 /dev/zero > {place}/big", file=1_000_000)
    assert wrote.ended.status != 0
    assert (place / "big").stat().st_size == 1_000_000


def test_two_hundred_commands_run_at_once(wire: Wire, victims: Victims, place: Path) -> None:
    os.mkfifo(place / "gate")
    command = f"{victims.hold}; read line < {place}/gate; exit $0"
    channels = [wire.start(["/bin/sh", "-c", command, str(number % 100)]) for number in range(200)]
    victims.seen(200)
    gate = os.open(place / "gate", os.O_RDWR)
    os.write(gate, b"\n" * 200)
    assert [wire.answer(channel).ended.status for channel in channels] == [number % 100 for number in range(200)]
    os.close(gate)


def _memory_kib(pid: int) -> int:
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


@pytest.mark.skipif(not IS_ROOT, reason="the files of a process that cannot be traced are root's alone to see")
def test_a_thousand_commands_leave_no_memory_and_no_file_behind(wire: Wire) -> None:
    def measure() -> tuple[int, int]:
        return _memory_kib(wire.pid), len(list(Path(f"/proc/{wire.pid}/fd").iterdir()))

    for _ in range(50):
        wire.run(["/bin/true"])
    memory, files = measure()
    for _ in range(1000):
        assert wire.run(["/bin/true"]).ended.status == 0
    later_memory, later_files = measure()
    assert later_files == files
    assert later_memory <= memory + 64


def test_stop_kills_all_but_the_supervisor(wire: Wire, victims: Victims) -> None:
    assert wire.run(f"setsid sh -c '{victims.hold}; exec sleep 1000' &").ended.survivors == 1
    channel = wire.start(f"{victims.hold}; sleep 1000 & wait")
    victims.seen(2)
    assert wire.ask("Z").number >= 2
    assert victims.are_dead()
    assert wire.answer(channel).ended.status == -signal.SIGKILL
    assert wire.out("echo on") == b"on\n"


def test_stop_forestalls_what_was_ordered_just_before(wire: Wire, victims: Victims) -> None:
    channels = [wire.start(f"{victims.hold}; sleep 1000") for _ in range(20)]
    wire.ask("Z")
    assert victims.are_dead()
    assert {wire.answer(channel).ended.status for channel in channels} == {-signal.SIGKILL}


def test_statistics_count_the_processes_inside(wire: Wire, victims: Victims) -> None:
    wire.run(f"sh -c '{victims.hold}; exec sleep 1000' &")
    victims.seen()
    _, _, count = struct.unpack("<QQI", wire.ask("S").payload)
    assert count == 1


@pytest.mark.parametrize("last", ["", "Q", "T"], ids=["end of input", "quit", "time to live"])
def test_its_end_is_the_end_of_everything(program: Path, victims: Victims, last: str) -> None:
    with Wire([program]) as wire:
        wire.run(f"setsid sh -c 'trap \"\" TERM HUP; {victims.hold}; sleep 1000' &")
        wire.start(f"{victims.hold}; exec sleep 1000")
        victims.seen(2)
        if last:
            wire.send(last, wire.channel(), bytes(4) if last == "T" else b"")
        else:
            wire.socket.shutdown(1)
        status = wire.end()
        assert victims.are_dead()
        assert (status, wire.said()) == ((1, "supervisor: its time to live is over\n") if last == "T" else (0, ""))


def test_killed_itself_its_keepers_leave_nothing_behind(program: Path, victims: Victims) -> None:
    with Wire([program]) as wire:
        wire.run(f"setsid sh -c 'trap \"\" TERM HUP; {victims.hold}; sleep 1000' &")
        wire.start(f"{victims.hold}; exec sleep 1000")
        victims.seen(2)
        wire.process.kill()
        wire.end()
        victims.die()


def test_a_time_to_live_can_be_given_at_the_start(program: Path) -> None:
    with Wire([program, "--ttl", "0.05"]) as wire:
        assert wire.end() == 1


def test_an_unknown_option_is_refused(program: Path) -> None:
    done = subprocess.run([program, "--nothing"], capture_output=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stderr[:6]) == (2, b"usage:")


MALFORMED = {
    "too short a frame": HEADER.pack(4, ord("S"), 1),
    "too long a frame": HEADER.pack(frames.MAX_PAYLOAD + 6, ord("X"), 1),
    "an unknown kind": frame("?", 1),
    "no kind": frame("\0", 1, b"\0\0"),
    "an empty order": frame("X", 1),
    "an order without a program": frame("X", 1, AN_ORDER + string("") + string("") + strings([]) + strings([])),
    "more strings than bytes": frame("X", 1, AN_ORDER + string("") + string("") + b"\xff" * 4),
    "a string beyond its frame": frame("X", 1, AN_ORDER + b"\xff\xff\xff\x7f"),
    "a NUL in a path": frame("R", 1, bytes(12) + string("/etc\0/passwd")),
    "bytes behind an order": frame("X", 1, AN_ORDER + string("") * 2 + strings(["true"]) + strings([]) + b"x"),
    "a number used twice": frame("F", 1, b"\0\0") * 2,
    "a number of the supervisor's": frame("L", frames.ACCEPTED, bytes(8) + string("/")),
    "a read without a path": frame("R", 1, bytes(12)),
    "a write without a path": frame("P", 1, bytes(4) + string("")),
    "a listing without a path": frame("L", 1, bytes(8)),
    "half a port": frame("F", 1, b"\0"),
    "half a time to live": frame("T", 1, b"\0\0"),
    "a signal without a number": frame("F", 1, b"\0\0") + frame("K", 1),
    "half a credit": frame("F", 1, b"\0\0") + frame("A", 1, b"\0"),
    "input for a port": frame("F", 1, b"\0\0") + frame("I", 1, b"x"),
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
def test_what_cannot_be_understood_ends_it_with_a_message(program: Path, sent: bytes) -> None:
    with Wire([program]) as wire:
        wire.socket.sendall(sent)
        assert wire.end() == 1
        assert wire.said().startswith("supervisor: ")


def test_input_beyond_its_window_ends_it(program: Path, victims: Victims) -> None:
    with Wire([program]) as wire:
        channel = wire.start(f"{victims.hold}; sleep 1000", flags=frames.HAS_INPUT)
        victims.seen()
        wire.send("I", channel, b"x" * frames.WINDOW)
        assert wire.run("true").ended.status == 0, "a whole window is allowed"
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it hangs up while the rest is on its way
            for _ in range(3):
                wire.send("I", channel, b"x" * frames.WINDOW)
        assert wire.end() == 1
        assert "window" in wire.said()
        assert victims.are_dead()


def test_half_a_frame_is_waited_for(wire: Wire) -> None:
    data = frame("S", wire.channel())
    wire.socket.sendall(data[:6])
    wire.socket.sendall(data[6:])
    assert wire.answer(1).kind == "s"
