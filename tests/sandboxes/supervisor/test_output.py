"""What a command writes: kept at both ends up to a bound, or handed on at the pace of credit."""

import fcntl
import select
import struct
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouthub_sandboxes.supervisor import frames
from tests.sandboxes.supervisor.wire import Answer, Victims, Wire

COUNTED = "".join(f"{number:07}\n" for number in range(200_000)).encode()
"""Each part of it is found in one place alone."""


@pytest.fixture(scope="module")
def one_wire(program: Path) -> Generator[Wire]:
    """One supervisor for many examples."""
    with Wire([program]) as wire:
        yield wire


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The text in a file."""
    file = tmp_path_factory.mktemp("counted") / "text"
    file.write_bytes(COUNTED)
    return file


def kept(written: bytes, keep: int) -> tuple[bytes, bytes, int]:
    """Head, tail and the number of dropped bytes, as the wire promises them."""
    head = written[: keep - keep // 2]
    rest = written[len(head) :]
    tail = rest[max(len(rest) - keep // 2, 0) :]
    return head, tail, len(rest) - len(tail)


def _of(answer: Answer) -> tuple[bytes, bytes, int]:
    return answer.output, answer.ended.stdout_tail, answer.ended.dropped_stdout


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 70_000) | st.sampled_from([4095, 4096, 4097, 65_535, 65_536, 65_537]), st.integers(0, 40_000))
def test_head_tail_and_what_was_dropped_are_exact(one_wire: Wire, counted: Path, size: int, keep: int) -> None:
    answer = one_wire.run(["/usr/bin/head", "-c", str(size), str(counted)], keep=keep)
    assert _of(answer) == kept(COUNTED[:size], keep)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 9000), min_size=1, max_size=12), st.integers(0, 20_000), st.integers(0, 20_000))
def test_pieces_of_any_size_turn_the_ring_without_a_gap(
    one_wire: Wire, sizes: list[int], keep: int, offset: int
) -> None:
    channel = one_wire.start(["/bin/cat"], flags=frames.HAS_INPUT, keep=keep)
    written, at = b"", offset
    for size in sizes:
        if size:
            one_wire.send("I", channel, COUNTED[at : at + size])
        written += COUNTED[at : at + size]
        at += size
    one_wire.send("I", channel)
    assert _of(one_wire.answer(channel)) == kept(written, keep)


def test_both_streams_are_kept_apart(wire: Wire, counted: Path) -> None:
    answer = wire.run(f"head -c 9000 {counted}; tail -c 7000 {counted} >&2", keep=1001)
    ended = answer.ended
    assert _of(answer) == kept(COUNTED[:9000], 1001)
    assert (answer.errors, ended.stderr_tail, ended.dropped_stderr) == kept(COUNTED[-7000:], 1001)


def test_nothing_kept_is_all_dropped(wire: Wire) -> None:
    assert _of(wire.run("head -c 100000 /dev/zero", keep=0)) == (b"", b"", 100_000)


def _peak_kib(wire: Wire) -> int:
    status = Path(f"/proc/{wire.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def test_twenty_megabytes_are_counted_without_growth(wire: Wire) -> None:
    wire.run("head -c 500000 /dev/zero", keep=4096)
    before = _peak_kib(wire)
    answer = wire.run("head -c 20000000 /dev/zero", keep=4096)
    assert answer.ended.dropped_stdout == 20_000_000 - 4096
    assert _peak_kib(wire) <= before + 256


def test_a_writer_that_never_stops_holds_up_nobody(wire: Wire) -> None:
    # A pipe of a megabyte that several fill at a time is never found empty.
    enlarge = "import fcntl,os; fcntl.fcntl(1, 1031, 1 << 20); os.execvp('sh', ['sh', '-c', 'yes & yes & yes & yes'])"
    assert fcntl.F_SETPIPE_SZ == 1031
    channel = wire.start(["/usr/bin/env", "python3", "-c", enlarge], keep=0, flags=0)
    for _ in range(5):
        assert wire.out("echo on") == b"on\n"
    wire.send("K", channel, b"\0")
    wire.answer(channel)


def test_what_was_written_before_the_end_arrives_though_the_pipe_stays_open(wire: Wire, victims: Victims) -> None:
    text = "head -c 60000 /dev/zero"
    answer = wire.run(f"setsid sh -c '{victims.hold}; exec sleep 1000' & {text}", keep=1 << 20)
    assert len(answer.output + answer.ended.stdout_tail) == 60_000
    assert answer.ended.survivors == 1
    victims.seen()


def test_streamed_output_waits_for_credit(wire: Wire) -> None:
    channel = wire.start(["/usr/bin/head", "-c", "1000000", "/dev/zero"], flags=frames.STREAMS)
    assert wire.next(channel) == ("i", bytes(4))
    received = 0
    while received < frames.WINDOW:
        kind, data = wire.next(channel)
        assert kind == "d"
        received += len(data)
    assert received == frames.WINDOW
    assert wire.out("echo others go on") == b"others go on\n"
    assert not wire.has(channel)
    wire.send("A", channel, struct.pack("<I", received))
    answer = wire.answer(channel)
    assert received + len(answer.output) == 1_000_000
    assert (answer.ended.status, answer.ended.dropped_stdout) == (0, 0)


def test_one_credit_covers_both_streams(wire: Wire) -> None:
    channel = wire.start("head -c 900000 /dev/zero & head -c 900000 /dev/zero >&2; wait", flags=frames.STREAMS)
    assert wire.next(channel) == ("i", bytes(4))
    received = 0
    while received < frames.WINDOW:
        received += len(wire.next(channel)[1])
    wire.out("true")
    assert not wire.has(channel)
    wire.send("A", channel, struct.pack("<I", 1 << 30))
    answer = wire.answer(channel)
    assert received + len(answer.output) + len(answer.errors) == 1_800_000


def test_a_conversation_with_a_program_goes_back_and_forth(wire: Wire) -> None:
    channel = wire.start('while read line; do echo "got $line"; done', flags=frames.STREAMS | frames.HAS_INPUT)
    assert wire.next(channel) == ("i", bytes(4))
    for word in (b"one", b"two"):
        wire.send("I", channel, word + b"\n")
        assert wire.next(channel) == ("i", struct.pack("<I", 4))
        assert wire.next(channel) == ("d", b"got " + word + b"\n")
    wire.send("I", channel)
    assert wire.answer(channel).ended.status == 0


def test_megabytes_go_through_a_program_both_ways_at_once(wire: Wire) -> None:
    size, room, sent, received = 3_000_000, frames.WINDOW, 0, 0
    channel = wire.start(["/bin/cat"], flags=frames.STREAMS | frames.HAS_INPUT)
    while received < size:
        while room and sent < size:
            piece = min(room, size - sent, 50_000)
            wire.send("I", channel, COUNTED[sent % 1000 :][:piece])
            sent, room = sent + piece, room - piece
        kind, payload = wire.next(channel)
        if kind == "i":
            room += int.from_bytes(payload, "little")
        else:
            received += len(payload)
            wire.send("A", channel, struct.pack("<I", len(payload)))
    wire.send("I", channel)
    assert wire.answer(channel).ended.status == 0


def test_a_hub_that_does_not_read_is_not_heard_and_costs_no_memory(wire: Wire) -> None:
    channel = wire.start("head -c 30000000 /dev/zero", keep=60_000_000)
    request = struct.pack("<II", 0, 10_000) + frames.string("/dev" + "/." * 2000)
    requests = 0
    while select.select([], [wire.socket], [], 1)[1] and requests < 5000:
        wire.send("L", wire.channel(), request)
        requests += 1
    assert requests < 5000
    assert _peak_kib(wire) < 40_000
    assert len(wire.answer(channel, takes=False).output) == 30_000_000
