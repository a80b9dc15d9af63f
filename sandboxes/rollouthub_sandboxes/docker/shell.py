"""A terminal in a running container: this process's own terminal, raw, over the engine's exec."""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress

import anyio

from rollouthub_sandboxes.engine.attach_stream import hijack, start_exec
from rollouthub_sandboxes.engine.engine import Engine, EngineError

SHELL = ("/bin/sh", "-c", "if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi")
_CHUNK = 64 << 10


async def open_shell(engine: Engine, container: str, command: Sequence[str] = (), user: str = "") -> int:
    """Run a command, a shell by default, on standard input and output; its exit status.

    On a terminal it gets one of its own, of the same size; else its streams are passed through.

    Raises:
        EngineError: the engine refused, or the container ended.
    """
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    made = await engine.call(
        engine.api.exec_create,
        container,
        list(command or SHELL),
        stdin=True,
        tty=is_terminal,
        user=user,
        environment={"TERM": os.environ.get("TERM", "xterm")} if is_terminal else {},
    )
    exec_id = str(made["Id"])
    if is_terminal:
        await _with_terminal(engine, exec_id)
    else:
        await _with_pipes(engine, exec_id)
    status = (await engine.call_again(engine.api.exec_inspect, exec_id)).get("ExitCode")
    return 0 if status is None else int(status)


async def _with_terminal(engine: Engine, exec_id: str) -> None:
    reader, writer = await hijack(engine, f"/exec/{exec_id}/start", b'{"Detach":false,"Tty":true}')
    try:
        with _raw(sys.stdin.fileno()):
            async with anyio.create_task_group() as group:
                group.start_soon(_follow_size, engine, exec_id)
                group.start_soon(_send_keys, writer)
                while data := await reader.read(_CHUNK):
                    await _write(sys.stdout.fileno(), data)
                group.cancel_scope.cancel()
    finally:
        writer.transport.abort()


async def _with_pipes(engine: Engine, exec_id: str) -> None:
    attached = await start_exec(engine, exec_id)

    async def send() -> None:
        while data := await anyio.to_thread.run_sync(os.read, sys.stdin.fileno(), _CHUNK, abandon_on_cancel=True):
            await attached.send(data)
        await attached.send_eof()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            while pieces := await attached.pieces():
                for stream, data in pieces:
                    await _write((sys.stderr if stream == "stderr" else sys.stdout).fileno(), data)
            group.cancel_scope.cancel()
    finally:
        await attached.aclose()


async def _send_keys(writer: asyncio.StreamWriter) -> None:
    while True:
        await anyio.wait_readable(sys.stdin.fileno())
        data = os.read(sys.stdin.fileno(), _CHUNK)
        if not data:
            return
        writer.write(data)
        await writer.drain()


async def _write(descriptor: int, data: bytes) -> None:
    """Write all of it; a terminal may be set not to block."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            await anyio.wait_writable(descriptor)


async def _follow_size(engine: Engine, exec_id: str) -> None:
    """Tell the engine the terminal's size, now and whenever it changes."""
    with anyio.open_signal_receiver(signal.SIGWINCH) as changes:
        while True:
            size = os.get_terminal_size(sys.stdout.fileno())
            # A program that has just ended has no size any more.
            with suppress(EngineError):
                await engine.call(engine.api.exec_resize, exec_id, height=size.lines, width=size.columns)
            await anext(changes)


@contextmanager
def _raw(descriptor: int) -> Generator[None]:
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
