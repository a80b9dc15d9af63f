"""Asking the worker processes that hold the library; they start when they are first asked, and are shared by all."""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import deque
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from envhub.errors import ConfigError, TaskError

MAX_WORKERS = min(4, os.cpu_count() or 1)
WALL_SECONDS = 120.0
"""After which a worker counts as stuck."""

_limiter: RunVar[CapacityLimiter] = RunVar("envhub_reasoning_gym")
_idle: deque["_Worker"] = deque()
_all: set["_Worker"] = set()


def ask(what: dict[str, Any]) -> dict[str, Any]:
    """One request through an idle worker, or a new one; blocks.

    Raises:
        ConfigError: the library is not installed, or refuses what it is asked for.
        TaskError: the worker died or was stuck.
    """
    return _Asking(what).run()


async def ask_in_thread(what: dict[str, Any]) -> dict[str, Any]:
    """The same without blocking the event loop; cancelled, it ends the worker."""
    asking = _Asking(what)
    try:
        return await to_thread.run_sync(asking.run, abandon_on_cancel=True, limiter=_limit())
    except anyio.get_cancelled_exc_class():
        asking.give_up()
        raise


def _limit() -> CapacityLimiter:
    """One limiter per event loop, shared by all its episodes."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(MAX_WORKERS)
        _limiter.set(limiter)
        return limiter


class _Asking:
    """One request on its way through a worker."""

    def __init__(self, what: dict[str, Any]) -> None:
        self._request = json.dumps(what).encode() + b"\n"
        self._worker: _Worker | None = None

    def run(self) -> dict[str, Any]:
        worker = self._worker = _take()
        try:
            reply = worker.ask(self._request)
        except BaseException:
            worker.close()
            raise
        finally:
            self._worker = None
        _idle.append(worker)
        if "refused" in reply:
            raise ConfigError(reply["refused"])
        return reply

    def give_up(self) -> None:
        """Nobody waits any more: end the worker, and with it the wait in the thread."""
        if self._worker is not None:
            self._worker.kill()


def _take() -> "_Worker":
    while _idle:
        try:
            worker = _idle.pop()
        except IndexError:  # another thread was faster
            break
        if worker.is_alive:
            return worker
        worker.close()
    return _Worker()


class _Worker:
    """A worker process and the pipes to it."""

    def __init__(self) -> None:
        if find_spec("reasoning_gym") is None:
            raise ConfigError("reasoning_gym needs an extra: pip install 'envhub[reasoning-gym]'")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the process
        # -P: the caller's folder may hold a `random.py`. A session of its own: Ctrl-C is the hub's to handle.
        # Hashes are fixed: some generators follow the order of a set.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-m", "envhub_servers.reasoning_gym.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
            env={"PATH": os.defpath, "PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"},
        )
        if not _all:
            atexit.register(close_workers)
        _all.add(self)

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def ask(self, request: bytes) -> dict[str, Any]:
        """The reply.

        Raises:
            TaskError: it died, or gave none in time.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except OSError as error:
            raise self._obituary() from error
        ready = select.poll()
        ready.register(self._process.stdout, select.POLLIN | select.POLLHUP)
        if not ready.poll(WALL_SECONDS * 1000):
            raise TaskError(f"reasoning_gym's worker gave no answer within {WALL_SECONDS:g} s")
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._obituary()
        return json.loads(line)

    def _obituary(self) -> TaskError:
        self.kill()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 2000))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        said = f": {lines[-1]}" if lines else ""
        return TaskError(f"reasoning_gym's worker ended with exit code {self._process.returncode}{said}")

    def kill(self) -> None:
        """End the process and its child; whoever waits for its reply is told at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End it and give back its pipes; only while nobody waits for its reply."""
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            with suppress(OSError):  # what was buffered for a dead process has nowhere to go
                stream.close()
        _all.discard(self)


def close_workers() -> None:
    """End every worker: at exit, and in tests. The next request starts new ones."""
    atexit.unregister(close_workers)
    for worker in tuple(_all):
        worker.kill()
    while _idle:
        _idle.pop().close()
