"""The supervisor as the first process of a container that holds nothing else: no shell, no library, no user."""

import io
import shutil
import signal
import struct
import subprocess
import tarfile
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rollouthub_sandboxes.supervisor import frames
from tests.sandboxes.supervisor.wire import SECONDS, Wire

HARDENED = ("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "65534:65534")
INTRUDER = "/intruder"
OWN = 65_431
_KEPT = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
NEEDED = (
    *("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "0:0"),
    *(f"--cap-add={name}" for name in ("KILL", "SETGID", "SETPCAP", "SETUID")),
)
ROOTS = (*NEEDED, *(f"--cap-add={name}" for name in _KEPT))
AS_NOBODY = ("--filter", "--as", "65534:65534", "--own-id", str(OWN))
AS_ROOT = ("--filter", "--as", "0:0", "--own-id", str(OWN), "--capabilities", "eb")


def _docker(*words: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["docker", *words], input=data, capture_output=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def image(program: Path, intruder: Path) -> Generator[str]:
    """An image FROM scratch with the two programs; skipped aloud where no engine answers."""
    if shutil.which("docker") is None:
        pytest.skip("no docker command")
    answer = _docker("version", "--format", "{{.Server.Version}}")
    if answer.returncode != 0:
        pytest.skip(f"no container engine answers: {answer.stderr.decode().strip()}")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for file in (program, intruder):
            archive.add(file, file.name)
    name = f"rollouthub-test/supervisor:{uuid.uuid4().hex}"
    made = _docker("import", "-", name, data=packed.getvalue())
    assert made.returncode == 0, made.stderr
    yield name
    _docker("rmi", "--force", name)


@contextmanager
def container(
    image: str, *options: str, hardened: tuple[str, ...] = HARDENED, orders: tuple[str, ...] = ("--no-new-privileges",)
) -> Generator[Wire]:
    """A container of the image, gone at the end."""
    name = f"rollouthub-test-{uuid.uuid4().hex}"
    command = ["docker", "run", "--interactive", "--rm", "--name", name, "--log-driver", "none", *hardened, *options]
    try:
        with Wire([*command, image, "/supervisor", *orders]) as wire:
            yield wire
    finally:
        _docker("rm", "--force", "--volumes", name)


def test_it_needs_nothing_of_the_image(image: str) -> None:
    with container(image, "--read-only") as wire:
        assert wire.pid == 1
        user, parent, word = wire.out([INTRUDER, "print", "hello"]).split()
        assert (user, word) == (b"65534", b"hello")
        assert parent != b"1"  # a keeper
        assert wire.run("true").failure[1] == "running the program"
        assert wire.run([INTRUDER, "print", "x"], user="someone").failure[1] == "becoming its user"


def test_it_is_the_end_of_the_container(image: str) -> None:
    with container(image) as wire:
        wire.start([INTRUDER, "stay"])
        wire.send("Q", wire.channel())
        assert wire.end() == 0


def test_no_signal_from_inside_reaches_it(image: str) -> None:
    with container(image) as wire:
        for _ in range(3):
            assert wire.run([INTRUDER, "signals", "1"]).ended.status == 0
        assert wire.out([INTRUDER, "print", "on"]).endswith(b"on\n")


def test_who_kills_all_it_can_ends_the_commands_and_not_the_sandbox(image: str) -> None:
    with container(image) as wire:
        channels = [wire.start([INTRUDER, "stay"], flags=frames.STREAMS) for _ in range(3)]
        assert {wire.next(channel)[0] for channel in channels} == {"i"}
        attack = wire.start([INTRUDER, "kill-all"])
        for channel in [*channels, attack]:
            ended = wire.answer(channel).ended
            assert (ended.status, ended.flags) == (-signal.SIGKILL, frames.KEEPER_KILLED)
        assert wire.out([INTRUDER, "print", "on"]).endswith(b"on\n")


@pytest.mark.parametrize("target", ["1", "parent"])
def test_nothing_of_it_can_be_read_or_traced(image: str, target: str) -> None:
    with container(image) as wire:
        assert wire.out([INTRUDER, "reach", target]) == b"\n"


def test_root_without_capabilities_sees_the_numbers_of_its_files_alone(image: str) -> None:
    with container(image, "--user", "0") as wire:
        # It can make the kernel prefer this process when memory runs out: anybody can end their own sandbox.
        assert set(wire.out([INTRUDER, "reach", "1"]).split()) <= {b"fd", b"oom_score_adj"}


def test_leftovers_make_room_when_the_limit_of_processes_is_reached(image: str) -> None:
    with container(image, "--pids-limit", "40") as wire:
        filled = wire.run([INTRUDER, "fill"])
        assert int(filled.output.split()[0]) > 20
        assert filled.ended.survivors > 20
        for _ in range(3):
            # Filled up again each time, and each time the next command has room.
            assert wire.run([INTRUDER, "fill"]).ended.survivors > 20
        channel = wire.start([INTRUDER, "print", "on"], flags=frames.HAS_INPUT)
        wire.send("I", channel, b"input that comes before there is room")
        wire.send("I", channel)
        assert wire.answer(channel).ended.status == 0


def test_what_runs_is_not_killed_to_make_room(image: str) -> None:
    with container(image, "--pids-limit", "12") as wire:
        staying = [wire.start([INTRUDER, "stay"], flags=frames.STREAMS) for _ in range(5)]
        assert {wire.next(channel)[0] for channel in staying} == {"i"}
        assert wire.run([INTRUDER, "print", "x"]).failure[1] in ("starting", "forking")
        assert not any(wire.has(channel) for channel in staying)
        wire.send("K", staying[0], b"\0")
        assert wire.answer(staying[0]).ended.flags == frames.KILLED
        assert wire.run([INTRUDER, "print", "x"]).ended.status == 0


def test_a_kill_for_memory_is_told_and_takes_the_command(image: str) -> None:
    with container(image, "--memory", "64m", "--memory-swap", "64m") as wire:
        ended = wire.run([INTRUDER, "memory"]).ended
        assert (ended.status, ended.flags) == (-signal.SIGKILL, frames.OUT_OF_MEMORY)
        used, kills, _ = struct.unpack("<QQI", wire.ask("S").payload)
        assert kills >= 1
        assert 0 < used < 64 << 20
        assert wire.run([INTRUDER, "print", "on"]).ended.flags == 0


def test_a_full_disk_refuses_a_file_and_leaves_none(image: str) -> None:
    with container(image, "--read-only", "--tmpfs", "/small:size=64k,mode=1777") as wire:
        assert wire.write("/small/fits", b"x" * 1000).number == 1000
        assert wire.write("/small/full", b"x" * 100_000).failure == (28, "writing the file")
        assert wire.write("/elsewhere", b"x").failure == (30, "creating the file")
        listing = wire.listing("/small").output
        assert b"fits" in listing
        assert listing.count(b"full") == listing.count(b".envhub") == 0


def test_the_end_of_its_input_ends_the_container(image: str) -> None:
    with container(image) as wire:
        wire.start([INTRUDER, "stay"])
        wire.socket.shutdown(1)
        assert wire.process.wait(SECONDS) == 0


@pytest.mark.parametrize("walls", [NEEDED, ROOTS], ids=["nobody", "root"])
def test_no_command_can_steer_it_whoever_that_becomes(image: str, walls: tuple[str, ...]) -> None:
    orders = AS_NOBODY if walls is NEEDED else AS_ROOT
    users = ["0", "65534", str(OWN), str(OWN + 1)]
    with container(image, hardened=walls, orders=orders) as wire:
        became = set(wire.out([INTRUDER, "steer", "1", *users]).split())
        # Its own users are no help: the filter knows it by its number, the kernel by ids that differ.
        assert became == {b"become"}
        assert wire.out([INTRUDER, "reach", "1"]).split() == ([b"oom_score_adj", b"fd"] if walls is ROOTS else [])
        assert wire.out([INTRUDER, "print", "on"]).endswith(b"on\n")
        # Others' limits are theirs to set.
        assert b"prlimit" in wire.out([INTRUDER, "steer", "0"]).split()


def test_without_its_filter_its_ids_alone_keep_its_limits(image: str) -> None:
    users = ["0", str(OWN), str(OWN + 1)]
    with container(image, hardened=ROOTS, orders=AS_ROOT[1:]) as wire:
        reached = wire.out([INTRUDER, "steer", "1", *users]).split()
        assert reached.count(b"become") == len(users)
        assert not {b"prlimit", b"looked", b"trace"} & set(reached)


def test_a_supervisor_that_shares_its_user_could_be_steered(image: str) -> None:
    with container(image) as wire, pytest.raises(EOFError):  # shows that nothing else keeps the attempts off
        wire.run([INTRUDER, "blind", "1"])
        wire.run([INTRUDER, "print", "on"])


def test_commands_have_the_user_that_was_asked_for_and_the_files_too(image: str) -> None:
    with container(image, "--tmpfs", "/own:mode=0700,uid=65534", hardened=NEEDED, orders=AS_NOBODY) as wire:
        assert wire.out([INTRUDER, "print", "x"]).split()[0] == b"65534"
        assert wire.write("/own/folder/file", b"some").number == 4
        assert wire.write("/not-ours", b"some").failure[1] == "creating the file"
        for other in ("0", "0:0", "65534:0", "1234"):  # though the supervisor could
            assert wire.run([INTRUDER, "print", "x"], user=other).failure == (1, "becoming its user")
    with container(image, hardened=ROOTS, orders=AS_ROOT) as wire:
        assert wire.out([INTRUDER, "print", "x"]).split()[0] == b"0"
        assert wire.run([INTRUDER, "print", "x"], user="1234:1234").output.split()[0] == b"1234"
        assert wire.write("/ours", b"some").number == 4


def test_no_program_makes_a_user_namespace(image: str) -> None:
    with container(image, "--security-opt", "seccomp=unconfined", orders=("--filter",)) as wire:
        assert wire.out([INTRUDER, "be-root"]) == b"\n"
