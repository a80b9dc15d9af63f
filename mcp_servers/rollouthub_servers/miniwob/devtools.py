"""`Browser`: one Chromium, driven by the DevTools protocol over two pipes, so that no port is open."""

import fcntl
import itertools
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any

Handler = Callable[[str, Mapping[str, Any]], None]
"""Called with the name and parameters of an event, in the thread that reads: it may send, and must not wait."""
DATA_BYTES = 4 << 30
_BYTES = 1 << 18


class BrowserGone(Exception):
    """A page, or the whole browser, does not answer any more."""


class ProtocolRefusal(Exception):
    """The browser refuses a command."""


class Browser:
    """A running Chromium. Threads may share it; this process ends when the browser ends."""

    def __init__(self, command: Sequence[str], most_bytes: int = DATA_BYTES) -> None:
        given, self._out = os.pipe()
        self._in, taken = os.pipe()
        # Above the two numbers that Chromium reads and writes, so that neither end is overwritten by the other.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (given, taken)]

        def place() -> None:
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)
            resource.setrlimit(resource.RLIMIT_DATA, (most_bytes, most_bytes))

        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=2, stderr=2, close_fds=False, preexec_fn=place
        )
        for end in (given, taken, *ends):
            os.close(end)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[str | None, Future[dict[str, Any]]]] = {}
        self._handlers: dict[str, Handler] = {}
        self._lock, self._sending = threading.Lock(), threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        """Process id of the browser's first process."""
        return self._process.pid

    def on_events(self, session: str, handler: Handler) -> None:
        """Have the events of a session handled."""
        self._handlers[session] = handler

    def forget(self, session: str) -> None:
        """Handle no events of a session any more; whoever waits for its answers is told that it is gone."""
        self._handlers.pop(session, None)
        self._fail(session)

    def send(self, method: str, session: str | None = None, **given: Any) -> "Future[dict[str, Any]]":
        """Send a command; its answer is the future's result."""
        answer = Future[dict[str, Any]]()
        message: dict[str, Any] = {"method": method, "params": given}
        if session is not None:
            message["sessionId"] = session
        message["id"] = next(self._numbers)
        with self._lock:
            self._waiting[message["id"]] = session, answer
        data = memoryview(json.dumps(message).encode() + b"\0")
        with self._sending:
            while data:
                data = data[os.write(self._out, data) :]
        return answer

    def call(self, method: str, session: str | None = None, *, seconds: float, **given: Any) -> dict[str, Any]:
        """Send a command and wait for its answer.

        Raises:
            BrowserGone: there is no answer in time, or the page is gone.
            ProtocolRefusal: the browser refuses it.
        """
        return wait_for(self.send(method, session, **given), seconds)

    def require(self, seconds: float) -> None:
        """End this process if the browser does not answer: no page of it does, then."""
        try:
            self.call("Browser.getVersion", seconds=seconds)
        except BrowserGone:
            sys.stderr.write(f"Chromium did not answer within {seconds:g} s\n")
            os._exit(1)

    def _read(self) -> None:
        rest = b""
        with suppress(OSError):
            while chunk := os.read(self._in, _BYTES):
                *messages, rest = (rest + chunk).split(b"\0")
                for message in messages:
                    self._take(json.loads(message))
        sys.stderr.write("Chromium has ended\n")
        os._exit(1)

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            with self._lock:
                _, answer = self._waiting.pop(message["id"], (None, None))
            if answer is None:
                return
            if "error" in message:
                answer.set_exception(ProtocolRefusal(str(message["error"].get("message", ""))))
            else:
                answer.set_result(message["result"])
            return
        handler = self._handlers.get(message.get("sessionId", ""))
        if handler is not None:
            handler(message["method"], message["params"])

    def _fail(self, session: str) -> None:
        with self._lock:
            lost = [number for number, (owner, _) in self._waiting.items() if owner == session]
            answers = [self._waiting.pop(number)[1] for number in lost]
        for answer in answers:
            answer.set_exception(BrowserGone("the page is gone"))


def wait_for(answer: "Future[dict[str, Any]]", seconds: float) -> dict[str, Any]:
    """The result of a command.

    Raises:
        BrowserGone: there is none in time.
    """
    try:
        return answer.result(max(0.0, seconds))
    except FutureTimeoutError as error:
        raise BrowserGone("the page does not answer") from error
