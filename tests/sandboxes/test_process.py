"""The process sandbox behind each kind of walls: what programs can do, and what is left of them."""

import os
import socket
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from envhub import SandboxError
from envhub_sandboxes.process import ProcessSandbox, process_sandbox
from envhub_sandboxes.process.sandbox import LIMITATIONS

WALLS = ("namespaces", "user", "process")
SLEEPER = "import os, time\nprint('ready', flush=True)\ntime.sleep(1000)\n"


@pytest.fixture(scope="module", params=WALLS)
def box(request: pytest.FixtureRequest) -> Iterator[ProcessSandbox]:
    found = ProcessSandbox((request.param,))
    try:
        assert found.isolation == request.param
    except SandboxError as error:
        pytest.skip(f"these walls cannot be had here: {error}")
    yield found
    found.close()


@pytest.fixture(scope="module")
def walled() -> Iterator[ProcessSandbox]:
    found = ProcessSandbox(("namespaces",))
    try:
        assert found.isolation == "namespaces"
    except SandboxError as error:
        pytest.skip(f"namespaces cannot be had here: {error}")
    yield found
    found.close()


@pytest.fixture
async def listener() -> AsyncGenerator[tuple[socket.socket, int]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server, server.getsockname()[1]


def processes_with(mark: str) -> list[int]:
    """The processes of this machine that have a word in their command's name."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == mark:
                found.append(int(entry.name))
    return found


async def test_a_program_runs_and_is_told_of(box: ProcessSandbox) -> None:
    done = await box.run_python("import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(3)")
    assert (done.stdout.text, done.stderr.text, done.exit_status) == ("out\n", "err\n", 3)
    assert not done.timed_out


async def test_an_error_shows_where_it_was(box: ProcessSandbox) -> None:
    done = await box.run_python("def f():\n    return 1 / 0\nf()\n")
    assert done.exit_status == 1
    assert 'File "main.py", line 2, in f\n    return 1 / 0' in done.stderr.text
    assert "envhub" not in done.stderr.text
    assert "SyntaxError" in (await box.run_python("def")).stderr.text


async def test_a_program_has_nothing_of_the_hubs(box: ProcessSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "sk-1")
    program = (
        "import os, sys\n"
        "print(sorted(os.environ), open('/proc/self/environ').read() if os.path.exists('/proc/self') else '')\n"
        "print(os.listdir('/proc/self/fd') if os.path.exists('/proc/self') else [])\n"
        "print(os.listdir('.'), repr(sys.stdin.read()), [m for m in sys.modules if 'envhub' in m])\n"
        "try:\n    import envhub_sandboxes\nexcept ImportError:\n    print('alone')\n"
    )
    said = (await box.run_python(program)).stdout.text
    assert "SECRET_KEY" not in said
    assert "['HOME', 'LANG', 'PATH', 'TMPDIR']" in said
    assert "['0', '1', '2', '3']\n" in said  # the last one reads the folder
    assert "[] '' []\nalone" in said


async def test_nothing_is_left_for_the_next_program(box: ProcessSandbox) -> None:
    first = await box.run_python(
        "import os, builtins\nopen('left', 'w').write('x')\nbuiltins.x = 1\nprint(os.getcwd())"
    )
    assert first.exit_status == 0
    second = await box.run_python("import os, builtins\nprint(os.path.exists('left'), hasattr(builtins, 'x'))")
    assert second.stdout.text == "False False\n"
    assert not (Path(first.stdout.text.strip()) / "left").exists()


async def test_standard_input_is_given(box: ProcessSandbox) -> None:
    done = await box.run_python("import sys\nprint(len(sys.stdin.read()))", stdin=b"x" * 1_000_000)
    assert done.stdout.text == "1000000\n"


async def test_a_flood_is_kept_at_both_ends_and_counted(box: ProcessSandbox) -> None:
    program = "print('first')\nfor _ in range(2000): print('x' * 10_000)\nprint('last')"
    done = await box.run_python(program, output_bytes=1000)
    assert done.stdout.dropped_bytes == 6 + 2000 * 10_001 + 5 - 1000
    assert done.stdout.text.startswith("first\n")
    assert done.stdout.text.endswith("last\n")
    assert f"{done.stdout.dropped_bytes:,} bytes dropped" in done.stdout.text


async def test_wall_time_is_limited_and_what_was_said_is_kept(box: ProcessSandbox) -> None:
    done = await box.run_python(SLEEPER, wall_seconds=0.5)
    assert done.timed_out
    assert done.exit_status is None
    assert done.stdout.text == "ready\n"


async def test_cpu_time_is_limited(box: ProcessSandbox) -> None:
    done = await box.run_python("while True: pass", cpu_seconds=1, wall_seconds=60)
    assert done.used_up_its_cpu
    assert not done.timed_out


async def test_memory_is_limited(box: ProcessSandbox) -> None:
    done = await box.run_python("x = bytearray(2 << 30)", memory_bytes=1 << 29)
    assert "MemoryError" in done.stderr.text


async def test_a_large_file_is_refused(box: ProcessSandbox) -> None:
    program = "f = open('large', 'wb')\nfor _ in range(200): f.write(bytes(1 << 20))\nf.flush()\nprint('written')"
    done = await box.run_python(program)
    assert "OSError" in done.stderr.text
    assert "written" not in done.stdout.text


async def test_a_fork_bomb_ends_and_the_next_program_runs(box: ProcessSandbox) -> None:
    bomb = "import os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.1)\n"
    done = await box.run_python(bomb, wall_seconds=1.5)
    assert done.timed_out
    assert (await box.run_python("print(1)")).stdout.text == "1\n"


DAEMON = """
import ctypes, os, signal, time
def be_a_daemon():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(15, b"MARK", 0, 0, 0)
    os.write(end, b".")
    time.sleep(1000)
begin, end = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:  # its parent ends: a double fork
        be_a_daemon()
    os._exit(0)
if os.fork() == 0:
    os.setsid()
    be_a_daemon()
assert os.read(begin, 1) + os.read(begin, 1) == b".."
print("daemons run", flush=True)
"""


@pytest.mark.parametrize("ending", ["", "time.sleep(1000)", "os.kill(os.getpid(), 9)", "while True: pass"])
async def test_no_daemon_survives_however_the_program_ends(box: ProcessSandbox, ending: str) -> None:
    mark = f"d{time.monotonic_ns() % 10**10}"
    done = await box.run_python(DAEMON.replace("MARK", mark) + ending, wall_seconds=3)
    assert done.stdout.text == "daemons run\n"
    assert processes_with(mark) == []


async def test_daemons_are_seen_by_the_test_that_says_none_is_left(box: ProcessSandbox) -> None:
    mark = f"d{time.monotonic_ns() % 10**10}"
    ours, theirs = socket.socketpair()
    program = "import socket\nchannel = socket.socket(fileno=3)\n" + DAEMON.replace("MARK", mark)
    with ours:
        ours.setblocking(False)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: box.run_python(program + "channel.send(b'!')\ntime.sleep(1000)", channel=theirs))
            with anyio.fail_after(30):
                await anyio.wait_readable(ours)
            assert len(processes_with(mark)) == 2
            group.cancel_scope.cancel()
    assert processes_with(mark) == []  # a cancelled run returns when its processes are dead


async def test_many_programs_run_at_once(box: ProcessSandbox) -> None:
    said: list[str] = []

    async def run(number: int) -> None:
        said.append((await box.run_python(f"print({number})")).stdout.text)

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(run, number)
    assert sorted(said, key=int) == [f"{number}\n" for number in range(20)]


async def test_a_fork_server_that_was_killed_is_replaced(box: ProcessSandbox) -> None:
    await box.run_python("pass")
    server = box._server  # pyright: ignore[reportPrivateUsage]  # nothing public should name it
    assert server is not None
    server._process.kill()  # pyright: ignore[reportPrivateUsage]
    server._process.wait()  # pyright: ignore[reportPrivateUsage]
    assert (await box.run_python("print(1)")).stdout.text == "1\n"


async def test_a_program_cannot_gain_privileges(box: ProcessSandbox) -> None:
    program = "print([line for line in open('/proc/self/status') if line[:6] in ('CapEff', 'CapPrm', 'NoNewP')])"
    said = (await box.run_python(program)).stdout.text
    assert said.count("0000000000000000") == 2
    assert "NoNewPrivs:\\t1" in said


async def test_behind_namespaces_there_is_no_file_but_python_and_the_system(
    walled: ProcessSandbox, tmp_path: Path
) -> None:
    (tmp_path / "answers").write_text("42")
    here = Path(__file__)
    program = (
        f"import os\nprint([os.path.exists(p) for p in ({str(tmp_path)!r}, {str(here)!r}, '/home', '/var', '/sys')])"
    )
    assert (await walled.run_python(program)).stdout.text == f"{[False] * 5}\n"
    written = await walled.run_python("open('/usr/x', 'w')")
    assert "Read-only" in written.stderr.text or "Permission" in written.stderr.text


async def test_behind_namespaces_no_other_process_is_seen(walled: ProcessSandbox) -> None:
    program = (
        "import os, signal\n"
        "print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()), os.getppid())\n"
        f"for pid in (1, {os.getpid()}):\n"
        "    try:\n        os.kill(pid, signal.SIGKILL)\n"
        "    except OSError as error:\n        print(type(error).__name__)\n"
    )
    said = (await walled.run_python(program)).stdout.text
    assert said.startswith("[1, 2] 1\n")
    assert "ProcessLookupError" in said


async def test_behind_namespaces_there_is_no_network(
    walled: ProcessSandbox, listener: tuple[socket.socket, int]
) -> None:
    program = f"import socket\nsocket.create_connection(('127.0.0.1', {listener[1]}), timeout=2)"
    done = await walled.run_python(program)
    assert "OSError" in done.stderr.text
    assert "unreachable" in done.stderr.text


@pytest.mark.parametrize("walls", ["namespaces", "user"])
async def test_a_program_of_another_user_cannot_be_read(walls: str) -> None:
    box = ProcessSandbox((walls,))
    try:
        if os.geteuid() != 0 or box.isolation != walls:
            pytest.skip("only root can give every run a user of its own")
        first, second = (
            await box.run_python("import os\nprint(os.getuid())"),
            await box.run_python("import os\nprint(os.getuid())"),
        )
        assert first.stdout.text != second.stdout.text
        if walls == "user":
            stolen = await box.run_python(f"print(open('/proc/{os.getpid()}/environ').read())")
            assert "PermissionError" in stolen.stderr.text
    finally:
        box.close()


async def test_what_the_walls_do_not_hold_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    box = ProcessSandbox()
    try:
        await box.prepare()
        await box.run_python("pass")
        await box.prepare()
        (record,) = caplog.records
        assert record.levelname == "WARNING"
        assert all(sentence in record.getMessage() for sentence in LIMITATIONS[box.isolation])
        assert box.limitations == LIMITATIONS[box.isolation]
    finally:
        box.close()


async def test_walls_that_nobody_knows_are_refused() -> None:
    with pytest.raises(SandboxError, match="no process sandbox can be had here"):
        await ProcessSandbox(()).prepare()


def test_everybody_in_a_process_shares_one() -> None:
    assert process_sandbox() is process_sandbox()
