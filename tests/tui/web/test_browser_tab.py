"""A tab's session: the screen comes, keys go, it ends with the tab."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import aiohttp
import anyio
import psutil
import pytest

from rollouthub_tui.web import server
from rollouthub_tui.web.browser_tab import HUB
from rollouthub_tui.web.server import Rooms, Serving, served
from tests.store.records import record, write

pytestmark = pytest.mark.live


async def shows(socket: aiohttp.ClientWebSocketResponse, words: str) -> None:
    """Wait until the screen says something."""
    seen = b""
    with anyio.fail_after(90):
        while words.encode() not in seen:
            message = await socket.receive()
            assert message.type == aiohttp.WSMsgType.BINARY, message
            seen += message.data


async def until(claim: Callable[[], object]) -> None:
    """Wait until something holds."""
    with anyio.fail_after(90):
        while not claim():  # noqa: ASYNC110, nobody tells of another process's end
            await anyio.sleep(0.05)


def is_watching(process: psutil.Process) -> bool:
    """Whether this is a session's process, and lives."""
    try:
        return "watch" in process.cmdline()
    except psutil.Error:  # it has just ended
        return False


def watching() -> list[psutil.Process]:
    """The sessions' processes."""
    return [child for child in psutil.Process().children(recursive=True) if is_watching(child)]


async def visit(rooms: Rooms, visitor: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
    """Open a session as the page does."""
    address = rooms.guard.address.partition("?")[0]
    return await visitor.ws_connect(
        f"{address}ws?width=100&height=30",
        headers={"Cookie": f"{rooms.guard.cookie}={rooms.guard.token}"},
        origin=address.removesuffix(rooms.guard.place),
    )


async def test_a_session_shows_takes_keys_and_ends_with_its_tab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_SESSIONS", 2)
    await write(tmp_path / "runs" / "shown-here", [record("g1-0")])
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "OPENAI_API_KEY": "sk"}
    async with (
        served(Serving(None, (tmp_path / "runs",), environ)) as rooms,
        aiohttp.ClientSession() as visitor,
    ):
        first = await visit(rooms, visitor)
        await shows(first, "shown-here")
        (process,) = watching()
        assert "OPENAI_API_KEY" not in process.environ()
        for nonsense in (
            "",
            "[]",
            "{}",
            '["stdin"]',
            '["resize", 3]',
            '["resize", {"width": "x"}]',
            '["x", 1]',
            "[[[[",
        ):
            await first.send_str(nonsense)
        await first.send_str(json.dumps(["stdin", "?"]))
        await shows(first, "Help")
        second = await visit(rooms, visitor)
        await shows(second, "shown-here")
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await visit(rooms, visitor)
        assert refused.value.status == 503
        await second.send_str(json.dumps(["stdin", "q"]))
        await until(lambda: rooms.sessions == 1)
        await second.close()
        await first.close()
        await until(lambda: rooms.sessions == 0)
        await until(lambda: not watching())
        third = await visit(rooms, visitor)
        await shows(third, "shown-here")
        await rooms.close()
        await until(lambda: not watching())
        await third.close()
    assert watching() == []


async def test_a_session_ends_with_a_server_that_was_killed(tmp_path: Path) -> None:
    await write(tmp_path / "runs" / "shown-here", [record("g1-0")])
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    command = [*HUB, "watch", "--web", "--no-open", "--root", "runs"]
    async with (
        await anyio.open_process(command, cwd=tmp_path, env=environ, stdin=None, stderr=None) as process,
        aiohttp.ClientSession() as visitor,
    ):
        assert process.stdout is not None
        said = re.search(r"(http://[^/]+)(/[^?]+)[?]token=(\S+)", (await process.stdout.receive()).decode())
        assert said is not None
        cookie = f"hub-watch-{said[1].rpartition(':')[2]}={said[3]}"
        address = f"{said[1]}{said[2]}ws"
        async with visitor.ws_connect(address, headers={"Cookie": cookie}, origin=said[1]) as socket:
            await shows(socket, "shown-here")
            (session,) = [child for child in psutil.Process(process.pid).children() if is_watching(child)]
            process.kill()
            await process.wait()
            await until(lambda: not is_watching(session))
