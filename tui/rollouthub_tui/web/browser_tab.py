"""One browser tab, connected to its own `hub watch` process."""

import json
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import anyio
from aiohttp import WSMsgType, web
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from rollouthub.processes import HUB, kill_group

KEPT = ("HOME", "LANG", "LANGUAGE", "LOGNAME", "NO_COLOR", "PATH", "SHELL", "TMPDIR", "TZ", "USER", "VIRTUAL_ENV")
KEPT_FAMILIES = ("LC_", "XDG_", "PYTHON", "LD_LIBRARY_PATH")
"""Prefixes of environment variables passed to a session; model servers' keys and other secrets are not."""
_READY = b"__GANGLION__\n"
_PRELUDE, _LARGEST_PACKET, _LARGEST_SIZE = 65_536, 2**24, 1000
_LEAVING_SECONDS = 3.0
_DATA, _META = b"D", b"M"


def session_environment(environ: Mapping[str, str], width: int, height: int) -> dict[str, str]:
    """The environment variables of a session's process."""
    kept = {key: value for key, value in environ.items() if key in KEPT or key.startswith(KEPT_FAMILIES)}
    return kept | {
        "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver",
        "TEXTUAL_COLOR_SYSTEM": "truecolor",
        "TERM": "xterm-256color",
        "TERM_PROGRAM": "textual",
        "COLUMNS": str(width),
        "ROWS": str(height),
    }


def bounded(value: object, otherwise: int) -> int:
    """A number of cells sent by the browser, clipped to a sensible range."""
    try:
        return max(1, min(_LARGEST_SIZE, int(cast(Any, value))))
    except (TypeError, ValueError, OverflowError):
        return otherwise


async def serve_session(
    socket: web.WebSocketResponse, arguments: Sequence[str], environ: Mapping[str, str], size: tuple[int, int]
) -> None:
    """Run a session until the tab is closed or the app quits."""
    async with _process([*HUB, *arguments], session_environment(environ, *size)) as process:
        async with anyio.create_task_group() as tasks:

            async def show() -> None:
                await _send_screen(process, socket)
                tasks.cancel_scope.cancel()

            tasks.start_soon(show)
            await _send_keys(process, socket)
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True), anyio.move_on_after(_LEAVING_SECONDS):
            await socket.close(message=b"left")


@asynccontextmanager
async def _process(command: Sequence[str], environ: Mapping[str, str]) -> AsyncGenerator[Process]:
    """A process for the session, in its own process group; at the end it is asked to quit, then terminated, then
    killed.
    """
    async with await anyio.open_process(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, env=environ, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                    with anyio.move_on_after(_LEAVING_SECONDS):
                        await _put(process, _META, json.dumps({"type": "quit"}).encode())
                for number in (None, signal.SIGTERM, signal.SIGKILL):
                    if number is not None and process.returncode is None:
                        kill_group(process.pid, number)
                    with anyio.move_on_after(_LEAVING_SECONDS):
                        # Nobody looks any more, and a full pipe would keep it from leaving.
                        await _drain(process)
                        await process.wait()
                        break


async def _drain(process: Process) -> None:
    assert process.stdout is not None
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            await process.stdout.receive()


async def _send_screen(process: Process, socket: web.WebSocketResponse) -> None:
    assert process.stdout is not None
    stream = BufferedByteReceiveStream(process.stdout)
    try:
        await stream.receive_until(_READY, _PRELUDE)
        while True:
            kind = await stream.receive_exactly(1)
            length = int.from_bytes(await stream.receive_exactly(4))
            if length > _LARGEST_PACKET:
                return
            payload = await stream.receive_exactly(length)
            # What else it may say (open this address, save that file) is not for this page to do.
            if kind == _DATA:
                await socket.send_bytes(payload)
            elif kind == _META and json.loads(payload).get("type") == "exit":
                return
    except (anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.EndOfStream, anyio.ClosedResourceError, OSError):
        return


async def _send_keys(process: Process, socket: web.WebSocketResponse) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for message in socket:
            if message.type != WSMsgType.TEXT:
                continue
            try:
                kind, *rest = cast(list[Any], json.loads(message.data))
                said = rest[0] if rest else None
                match kind:
                    case "stdin":
                        await _put(process, _DATA, str(said).encode("utf-8", "replace"))
                    case "resize":
                        size = cast(dict[str, Any], said)
                        width, height = bounded(size.get("width"), 80), bounded(size.get("height"), 24)
                        await _tell(process, {"type": "resize", "width": width, "height": height})
                    case "focus" | "blur":
                        await _tell(process, {"type": kind})
                    case "ping":
                        await socket.send_json(["pong", str(said)[:40]])
                    case _:
                        pass
            except (ValueError, TypeError, AttributeError, RecursionError):
                continue  # no page of ours says such a thing


async def _tell(process: Process, what: Mapping[str, object]) -> None:
    await _put(process, _META, json.dumps(what).encode())


async def _put(process: Process, kind: bytes, payload: bytes) -> None:
    assert process.stdin is not None
    await process.stdin.send(kind + len(payload).to_bytes(4) + payload)
