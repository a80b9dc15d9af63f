"""Foreign processes: what they may see and do, and what becomes of whoever meets their ends."""

import os
import re
import select
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from pydantic import JsonValue

from rollouthub.errors import ConfigError, TaskError
from rollouthub.processes import PYTHON, descendants
from rollouthub_sandboxes.process.container_walls import container_engine
from rollouthub_sandboxes.process.walled_program import WALLS, namespaces_problem
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign.session import ForeignRefusal, ForeignSession
from tests.foreign.cpu_time import cpu_seconds

DRIVER = "tests.mcp_servers.foreign_formats.odd_driver"
PROGRAM = ForeignProgram(name="the odd one", python=Path(sys.executable), module=DRIVER, ping_seconds=0.5)
MIB = 1 << 20

Made = Callable[..., ForeignRuntime]


@pytest.fixture
def made() -> Generator[Made]:
    """Makes runtimes of the odd driver, and ends them."""
    runtimes: list[ForeignRuntime] = []

    def make(habit: JsonValue = None) -> ForeignRuntime:
        program = ForeignProgram(
            name=PROGRAM.name,
            python=PROGRAM.python,
            module=DRIVER,
            arguments=habit,
            memory_bytes=2048 * MIB,
            ping_seconds=0.5,
        )
        runtimes.append(ForeignRuntime(program))
        return runtimes[-1]

    yield make
    for runtime in runtimes:
        runtime.close()


@pytest.fixture
async def session(made: Made) -> AsyncGenerator[ForeignSession]:
    """One session with a driver that serves."""
    async with made(None).session() as session:
        yield session


async def test_sessions_share_a_process_and_nothing_else(made: Made) -> None:
    runtime = made(None)
    async with runtime.session() as one, runtime.session() as other:
        assert await one.ask("say", seconds=5, text="a") == ["a"]
        assert await other.ask("say", seconds=5, text="b") == ["b"]
        assert await one.ask("say", seconds=5, text="c") == ["a", "c"]
        assert one.process is other.process
        async with runtime.session(is_alone=True) as alone:
            assert alone.process is not one.process
        assert not alone.process.is_alive


async def test_cpu_time_of_sessions_that_have_ended_is_still_counted(made: Made) -> None:
    runtime = made("forked")
    async with runtime.session() as session:
        await session.ask("burn", seconds=5, most=0.3)
        guard = session.process.pid
        assert guard is not None
        used, watch = cpu_seconds(guard), os.pidfd_open(descendants(guard)[-1])
    with anyio.fail_after(5):
        await anyio.wait_readable(watch)
        os.close(watch)
        async with runtime.session() as other:  # the driver goes on when it has waited for the one before
            await other.ask("say", seconds=5, text="a")
    assert cpu_seconds(guard) >= used >= 0.3


async def test_a_refusal_may_be_shown_and_a_failure_is_the_foreign_codes(session: ForeignSession) -> None:
    with pytest.raises(ForeignRefusal, match=r"^not before noon$"):
        await session.ask("refuse", seconds=5)
    with pytest.raises(TaskError, match="the odd one failed in 'fail': KeyError: 'lemma'"):
        await session.ask("fail", seconds=5)
    with pytest.raises(TaskError, match="failed in 'nan': ValueError"):
        await session.ask("nan", seconds=5)
    assert await session.ask("say", seconds=5, text="still here") == ["still here"]


async def test_a_killed_process_is_a_fault_that_says_how_it_ended_and_the_next_one_is_new(made: Made) -> None:
    runtime = made(None)
    async with runtime.session() as one, runtime.session() as bystander:
        with pytest.raises(
            TaskError, match=r"the odd one ended with signal 9 .*what it wrote ends: .*last straw"
        ) as end:
            await one.ask("die", seconds=20)
        assert end.value.retryable
        with pytest.raises(TaskError, match="ended with signal 9"):
            await bystander.ask("say", seconds=20, text="hello?")
    async with runtime.session() as session:
        assert await session.ask("say", seconds=20, text="again") == ["again"]


async def test_a_frozen_process_is_ended_for_everybody_and_replaced(made: Made) -> None:
    runtime = made(None)
    async with runtime.session() as one, runtime.session() as bystander:
        with pytest.raises(TaskError, match=r"did not answer 'freeze' within 0\.2 s, nor anything else since"):
            await one.ask("freeze", seconds=0.2)
        with pytest.raises(TaskError, match="nor anything else since"):
            await bystander.ask("say", seconds=20, text="hello?")
    async with runtime.session() as session:
        assert await session.ask("say", seconds=20, text="again") == ["again"]


async def test_a_slow_call_costs_only_its_own_session(made: Made) -> None:
    runtime = made(None)
    async with runtime.session() as one, runtime.session() as bystander:
        file = one.process.workdir / "done"
        with pytest.raises(TaskError, match=r"did not answer 'dawdle' within 0\.2 s$"):
            await one.ask("dawdle", seconds=0.2, file=str(file))
        with pytest.raises(TaskError, match="has lost its place"):
            await one.ask("say", seconds=5, text="an answer of the call before would be taken for mine")
        assert await bystander.ask("say", seconds=5, text="fine") == ["fine"]


async def test_garbage_is_a_fault_and_ends_the_process(made: Made) -> None:
    async with made("garbage").session() as session:
        with pytest.raises(TaskError, match=r"wrote what is no answer .*HTTP/1\.1 200 hello"):
            await session.ask("say", seconds=20, text="?")
        assert not session.process.is_alive


async def test_a_driver_that_does_not_start_says_why(made: Made) -> None:
    with pytest.raises(TaskError, match=r"(?s)ended with exit code 1 instead of starting.*this library needs Python 4"):
        await made("refusal").shared()


async def test_a_driver_that_never_listens_is_given_up() -> None:
    program = ForeignProgram(
        name="the odd one", python=PROGRAM.python, module=DRIVER, arguments="silence", start_seconds=0.5
    )
    with pytest.raises(TaskError, match=r"did not start within 0\.5 s"):
        await ForeignRuntime(program).shared()


@pytest.fixture(params=["namespaces", "container"])
def walls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind of walls that works here."""
    if request.param == "namespaces" and namespaces_problem() is not None:
        pytest.skip("bubblewrap does not work here")
    if request.param == "container" and isinstance(problem := container_engine(), str):
        pytest.skip(f"no container engine answers: {problem}")
    monkeypatch.setenv(WALLS, request.param)
    return request.param


async def test_it_sees_no_network_no_files_no_variables_and_no_processes_of_the_machine(
    walls: str, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    answers = tmp_path / "answers.json"
    answers.write_text("42")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        async with made(None).session() as session:
            assert session.process.walls == walls
            for do, given in (
                ("reach", {"port": listener.getsockname()[1]}),
                ("read", {"path": str(answers)}),
                ("read", {"path": str(Path.home() / ".bashrc")}),
                ("write", {"path": "/usr/x"}),
                ("write", {"path": f"{Path(sys.executable).parent}/x"}),
            ):
                with pytest.raises(TaskError, match=f"failed in '{do}': (OSError|.*Error: \\[Errno)"):
                    await session.ask(do, seconds=20, **given)
            told = await session.ask("variables", seconds=5)
            assert "sk-secret" not in str(told)
            assert str(os.getpid()) not in await session.ask("processes", seconds=5)
            assert await session.ask("uid", seconds=5) != 0
            with pytest.raises(TaskError, match=r"ModuleNotFoundError|ImportError"):
                await session.ask("imports", seconds=5, name="rollouthub_servers.foreign.runtime")


async def test_memory_has_a_bound(session: ForeignSession) -> None:
    with pytest.raises(TaskError, match="MemoryError"):
        await session.ask("fill", seconds=20, size=4096 * MIB)
    assert await session.ask("fill", seconds=20, size=MIB) == MIB


async def test_a_cancelled_call_ends_nobody_else(made: Made) -> None:
    runtime = made(None)
    async with runtime.session() as one, runtime.session() as other:
        with anyio.move_on_after(0.1):
            await one.ask("dawdle", seconds=60, file="/never")
        assert await other.ask("say", seconds=5, text="fine") == ["fine"]


async def test_without_walls_it_is_not_run_unless_the_user_says_so(
    made: Made, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    try:
        for chosen, told in (
            ("", f"you trust it with what you can read and with the network, set {WALLS}=none"),
            ("container", f"{WALLS}=container: docker is not installed"),
            ("namespaces", "install bubblewrap and util-linux"),
            ("paper", "it is one of namespaces, container, none"),
        ):
            monkeypatch.setenv(WALLS, chosen)
            namespaces_problem.cache_clear()
            container_engine.cache_clear()
            with pytest.raises(ConfigError, match=re.escape(told)):
                await made().shared()
        monkeypatch.setenv(WALLS, "none")
        assert (await made().shared()).walls == "none"
    finally:
        namespaces_problem.cache_clear()
        container_engine.cache_clear()


async def test_no_name_of_a_folder_mounts_something_else(walls: str, tmp_path: Path) -> None:
    folder = tmp_path / 'a,type=volume,source=other "b"'
    folder.mkdir()
    (folder / "own").write_text("own")
    runtime = ForeignRuntime(replace(PROGRAM, shown=(folder,)))
    try:
        async with runtime.session() as session:
            assert session.process.walls == walls
            assert await session.ask("read", seconds=10, path=str(folder / "own")) == "own"
    finally:
        runtime.close()


def test_it_ends_with_the_hub_whatever_ends_that(walls: str) -> None:
    code = (
        "import anyio, sys\n"
        "from pathlib import Path\n"
        "from rollouthub_servers.foreign.program import ForeignProgram\n"
        "from rollouthub_servers.foreign.runtime import ForeignRuntime\n"
        "async def main():\n"
        f"    runtime = ForeignRuntime(ForeignProgram('odd', Path(sys.executable), {DRIVER!r}))\n"
        "    process = await runtime.shared()\n"
        "    print(process._process.pid, flush=True)\n"
        "    await anyio.sleep(600)\n"
        "anyio.run(main)\n"
    )
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen([*PYTHON, "-c", code], stdout=subprocess.PIPE, env=variables) as hub:
        assert hub.stdout is not None
        guard = os.pidfd_open(int(hub.stdout.readline()))
        hub.kill()
        ready = select.poll()
        ready.register(guard, select.POLLIN)
        assert ready.poll(30_000), "the guard outlives its hub"
        os.close(guard)
