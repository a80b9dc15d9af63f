"""One server kept up: restarts, silence, last words, ports, and an end that leaves nothing behind."""

import json
import os
import signal
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub.cluster.models.model_spec import SERVER_KEY_VARIABLE, ModelSpec, Secrets, ServerTimeouts
from rollouthub.cluster.models.supervisor import ModelServerSupervisor
from rollouthub.models.registered import Engine, ServerRow
from tests.cluster.standing_in import stand_in

PATIENCE = ServerTimeouts(start=20, check=0.05, answer=5, unhealthy=0.3, pause=0.01, drain=5, leave=2)
KEY = "sekrit-0123456789"


class Kept:
    """A supervisor at work, and what it says."""

    def __init__(self, spec: ModelSpec) -> None:
        self._changed = anyio.Event()
        self.states: list[str] = []
        self.supervisor = ModelServerSupervisor(spec, 0, Secrets({SERVER_KEY_VARIABLE: KEY}), "127.0.0.1", self._change)

    def _change(self) -> None:
        state = self.supervisor.row.state
        if self.states[-1:] != [state]:
            self.states.append(state)
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, holds: Callable[[ServerRow], bool]) -> ServerRow:
        """How the server stands once that holds."""
        with anyio.fail_after(30):
            while not holds(row := self.supervisor.row):
                await self._changed.wait()
        return row

    async def until_is(self, state: str) -> ServerRow:
        """How it stands once it is in a state."""
        return await self.until(lambda row: row.state == state)


def spec_of(folder: Path, *arguments: str, **more: Any) -> ModelSpec:
    """A model that a stand-in serves."""
    return ModelSpec(
        name="small",
        source=str(folder),
        command=stand_in(folder),
        arguments=("--folder", str(folder), *arguments),
        folder=str(folder / "state"),
        cluster="none",
        patience=PATIENCE,
    ).model_copy(update=more)


@asynccontextmanager
async def kept(spec: ModelSpec) -> AsyncGenerator[Kept]:
    """A supervisor at work; stopped on the way out."""
    each = Kept(spec)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(each.supervisor.run)
        yield each
        await each.supervisor.stop()


def is_running(pid: int) -> bool:
    """Whether a process lives."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def startings(folder: Path) -> list[dict[str, Any]]:
    """How every server was started."""
    return [json.loads(path.read_text()) for path in folder.glob("*.started")]


def text_of(path: str) -> str:
    """What a file holds."""
    return Path(path).read_text()


async def test_a_dead_server_is_started_again_where_it_was(tmp_path: Path) -> None:
    async with kept(spec_of(tmp_path)) as each:
        first = await each.until_is("healthy")
        assert first.pid is not None
        assert is_running(first.pid)
        os.kill(first.pid, signal.SIGKILL)
        again = await each.until(lambda row: row.state == "healthy" and row.restarts == 1)
        assert again.pid not in (None, first.pid)
        assert again.base_url == first.base_url
        assert each.states == ["starting", "healthy", "restarting", "healthy"]


async def test_a_server_that_does_not_come_up_is_told_with_its_last_words(tmp_path: Path) -> None:
    async with kept(spec_of(tmp_path, "--die", "no such architecture")) as each:
        row = await each.until_is("failed")
        assert row.problem is not None
        assert "exit code 3" in row.problem
        assert "no such architecture" in row.problem
        assert each.states == ["starting", "failed"]


async def test_a_key_is_in_neither_arguments_nor_words_nor_log(tmp_path: Path) -> None:
    async with kept(spec_of(tmp_path, "--die", "the key is")) as each:
        row = await each.until_is("failed")
    (started,) = startings(tmp_path)
    assert started["environment"][SERVER_KEY_VARIABLE] == KEY
    assert KEY not in str(started["arguments"])
    assert KEY not in row.model_dump_json()
    assert row.log is not None
    assert "the key is [redacted]" in text_of(row.log)
    assert KEY not in repr(Secrets({SERVER_KEY_VARIABLE: KEY}))


async def test_a_server_of_sglang_has_its_key_from_a_file_that_goes_with_it(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, engine="sglang", command=stand_in(tmp_path, "sglang"))
    async with kept(spec) as each:
        await each.until_is("healthy")
        (started,) = startings(tmp_path)
        assert started["config"] == {"read": {"api-key": KEY}, "mode": 0o600}
        assert KEY not in str(started["arguments"])
        assert KEY not in str(started["environment"])
    assert list((tmp_path / "state" / "keys").iterdir()) == []


async def test_a_server_that_keeps_dying_is_given_up(tmp_path: Path) -> None:
    async with kept(spec_of(tmp_path, restarts=1)) as each:
        for restarts in (0, 1):
            row = await each.until(lambda row, count=restarts: row.state == "healthy" and row.restarts == count)
            assert row.pid is not None
            os.kill(row.pid, signal.SIGKILL)
        row = await each.until_is("failed")
        assert row.problem is not None
        assert "SIGKILL" in row.problem


async def test_a_server_that_lives_and_does_not_answer_is_started_again(tmp_path: Path) -> None:
    async with kept(spec_of(tmp_path)) as each:
        first = await each.until_is("healthy")
        (tmp_path / "sick").touch()
        await each.until_is("unhealthy")
        await each.until_is("restarting")
        (tmp_path / "sick").unlink()
        again = await each.until_is("healthy")
        assert again.pid != first.pid


async def test_a_blip_restarts_nothing(tmp_path: Path) -> None:
    patience = PATIENCE.model_copy(update={"unhealthy": 60.0})
    async with kept(spec_of(tmp_path, patience=patience)) as each:
        first = await each.until_is("healthy")
        (tmp_path / "sick").touch()
        await each.until_is("unhealthy")
        (tmp_path / "sick").unlink()
        again = await each.until_is("healthy")
        assert (again.pid, again.restarts) == (first.pid, 0)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
async def test_requests_in_flight_are_finished_before_the_end(tmp_path: Path, engine: Engine) -> None:
    (tmp_path / "running").write_text("2")
    each = Kept(spec_of(tmp_path, engine=engine, command=stand_in(tmp_path, engine)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(each.supervisor.run)
        row = await each.until_is("healthy")
        assert row.pid is not None
        tasks.start_soon(each.supervisor.stop)
        await each.until_is("stopping")
        with anyio.move_on_after(0.3) as wait:
            await each.until_is("stopped")
        assert wait.cancelled_caught
        assert is_running(row.pid)
        (tmp_path / "running").write_text("0")
        await each.until_is("stopped")
        assert not is_running(row.pid)


async def test_nothing_a_server_started_outlives_it(tmp_path: Path) -> None:
    async with kept(spec_of(tmp_path, "--orphan")) as each:
        row = await each.until_is("healthy")
        assert row.pid is not None
        orphan = int((tmp_path / "orphan").read_text())
        assert is_running(orphan)
        os.kill(row.pid, signal.SIGKILL)
        await each.until_is("restarting")
        assert not is_running(orphan)


async def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        async with kept(spec_of(tmp_path, port=port)) as each:
            row = await each.until_is("failed")
    assert row.problem is not None
    assert f"127.0.0.1:{port}" in row.problem
    assert "--port" in row.problem
