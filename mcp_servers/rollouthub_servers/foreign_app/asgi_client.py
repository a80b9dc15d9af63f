"""Speaks to an ASGI application in the same process, without a port: lifespan, HTTP and WebSockets, call by call.

Standard library alone; runs in the application's own environment. The application's loop turns while it is asked, and
rests in between.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

AsgiMessage = dict[str, Any]
AsgiCallable = Callable[
    [AsgiMessage, Callable[[], Awaitable[AsgiMessage]], Callable[[AsgiMessage], Awaitable[None]]], Awaitable[None]
]
ResultT = TypeVar("ResultT")
_VERSIONS = {"version": "3.0", "spec_version": "2.3"}
_ADDRESS = ("127.0.0.1", 1)


class AsgiFailure(Exception):
    """The application does not follow the ASGI or HTTP protocol as expected."""


@dataclass(frozen=True)
class HttpAnswer:
    """A complete HTTP response of a route."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Parse the body as JSON.

        Raises:
            AsgiFailure: the status is an error, or the body is not JSON.
        """
        if self.status != 200:
            raise AsgiFailure(f"answered {self.status}: {self.body[:600].decode(errors='replace')}")
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise AsgiFailure(f"answered what is no JSON: {self.body[:200]!r}") from error


class AsgiApp:
    """One ASGI application, started and called from synchronous code."""

    def __init__(self, app: AsgiCallable) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._life: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run the application's lifespan startup, if it has one.

        Raises:
            AsgiFailure: the application reports that its startup failed.
        """
        self._run(self._start())

    def ask(self, method: str, path: str, body: Any = None, headers: "Mapping[str, str] | None" = None) -> HttpAnswer:
        """Send a request with a JSON body; return the response once it is complete, streamed or not."""
        return self._run(self._asked(method, path, body, headers or {}))

    def connect(self, path: str) -> "AppSocket":
        """Open a WebSocket.

        Raises:
            AsgiFailure: the application does not accept it.
        """
        return AppSocket(self._app, path, self._run)

    def _run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        return self._loop.run_until_complete(work)

    async def _start(self) -> None:
        answer: asyncio.Future[AsgiMessage] = self._loop.create_future()
        begun = False

        async def receive() -> AsgiMessage:
            nonlocal begun
            if begun:
                await asyncio.Event().wait()  # it ends with the process
            begun = True
            return {"type": "lifespan.startup"}

        async def send(message: AsgiMessage) -> None:
            if not answer.done():
                answer.set_result(message)

        async def live() -> None:
            await self._app({"type": "lifespan", "asgi": _VERSIONS, "state": {}}, receive, send)

        self._life = self._loop.create_task(live())
        await asyncio.wait({self._life, answer}, return_when=asyncio.FIRST_COMPLETED)
        if answer.done() and answer.result()["type"] == "lifespan.startup.failed":
            raise AsgiFailure(f"its startup failed: {answer.result().get('message', '')}")
        if self._life.done():
            self._life.exception()  # it knows no lifespan

    async def _asked(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> HttpAnswer:
        sent = b"" if body is None else json.dumps(body).encode()
        given = {"host": "127.0.0.1", "content-type": "application/json", "content-length": str(len(sent)), **headers}
        scope: AsgiMessage = {
            **_scope("http", "http", path, given),
            "method": method,
            "http_version": "1.1",
        }
        done, parts, begun = asyncio.Event(), list[bytes](), list[AsgiMessage]()
        pending = [{"type": "http.request", "body": sent, "more_body": False}]

        async def receive() -> AsgiMessage:
            if pending:
                return pending.pop()
            await done.wait()
            return {"type": "http.disconnect"}

        async def send(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                begun.append(message)
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    done.set()

        await self._app(scope, receive, send)
        if not begun:
            raise AsgiFailure(f"did not answer {method} {path}")
        said = {name.decode("latin-1"): value.decode("latin-1") for name, value in begun[0].get("headers", ())}
        return HttpAnswer(begun[0]["status"], said, b"".join(parts))


class AppSocket:
    """One WebSocket; each request is a text message, and so is its response."""

    def __init__(self, app: AsgiCallable, path: str, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._run = run
        self._in: asyncio.Queue[AsgiMessage] = asyncio.Queue()
        self._out: asyncio.Queue[AsgiMessage] = asyncio.Queue()
        self._in.put_nowait({"type": "websocket.connect"})
        self._task: asyncio.Task[None] = run(self._begin(app, path))
        first = run(self._next())
        if first["type"] != "websocket.accept":
            raise AsgiFailure(f"{path} does not accept a connection")

    def ask(self, question: Any) -> Any:
        """Send a JSON message and return the JSON response.

        Raises:
            AsgiFailure: the connection closes without a response, or the response is not JSON.
        """
        self._in.put_nowait({"type": "websocket.receive", "text": json.dumps(question)})
        message = self._run(self._next())
        if message["type"] != "websocket.send":
            raise AsgiFailure("closed the connection without an answer")
        try:
            return json.loads(message.get("text") or message.get("bytes") or b"")
        except ValueError as error:
            raise AsgiFailure(f"sent what is no JSON: {str(message)[:200]}") from error

    async def _begin(self, app: AsgiCallable, path: str) -> "asyncio.Task[None]":
        async def serve() -> None:
            scope: AsgiMessage = {**_scope("websocket", "ws", path, {"host": "127.0.0.1"}), "subprotocols": list[str]()}
            await app(scope, self._in.get, self._out.put)

        return asyncio.get_running_loop().create_task(serve())

    async def _next(self) -> AsgiMessage:
        waiting = asyncio.ensure_future(self._out.get())
        await asyncio.wait({waiting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        error = self._task.exception()
        raise AsgiFailure("ended the connection" + (f": {type(error).__name__}: {error}" if error else "")) from error


def _scope(kind: str, scheme: str, path: str, headers: Mapping[str, str]) -> AsgiMessage:
    return {
        "type": kind,
        "asgi": _VERSIONS,
        "scheme": scheme,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": _ADDRESS,
        "server": _ADDRESS,
        "state": {},
    }
