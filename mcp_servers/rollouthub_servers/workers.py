"""`Workers`: worker processes that answer requests as JSON lines, off the event loop and shared by all episodes.

No library's pool is used: those built on `multiprocessing` import the caller's main module again in each worker, and
do not report how a worker ended.
"""

import atexit
import json
import os
import select
import subprocess
import tempfile
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from rollouthub.processes import PYTHON, clean_environment, kill_group

MAX_WORKERS = min(4, os.cpu_count() or 1)


class WorkerDied(Exception):
    """A worker ended instead of answering; the message has its exit code and the last line of its stderr."""


class Workers:
    """Worker processes that run one module: started on demand, and reused.

    A worker reads one request per line from stdin and writes one reply per line to stdout. The reply `{"ended": code}`
    reports that the worker can answer no further requests.
    """

    def __init__(self, module: str, *, flags: Sequence[str] = (), variables: Mapping[str, str] | None = None) -> None:
        # -P: the caller's folder may hold a `random.py`.
        self._command = [*PYTHON, *flags, "-m", module]
        self._variables = variables
        self._idle: deque[_Worker] = deque()
        self._all: set[_Worker] = set()
        self._limiter: RunVar[CapacityLimiter] = RunVar(module)

    def ask(self, request: Mapping[str, Any], wall_seconds: float) -> dict[str, Any]:
        """Send a request to a worker, and wait for its reply.

        Raises:
            TimeoutError: no reply within `wall_seconds`; the worker is killed.
            WorkerDied: the worker ended without a reply.
        """
        with self._lent() as worker:
            return worker.ask(request, wall_seconds)

    async def ask_in_thread(self, request: Mapping[str, Any], wall_seconds: float) -> dict[str, Any]:
        """As `ask`, without blocking the event loop; on cancellation the worker is killed."""
        asked: list[_Worker] = []

        def ask() -> dict[str, Any]:
            with self._lent() as worker:
                asked.append(worker)
                try:
                    return worker.ask(request, wall_seconds)
                finally:
                    asked.clear()

        try:
            return await to_thread.run_sync(ask, abandon_on_cancel=True, limiter=self._limit())
        except anyio.get_cancelled_exc_class():
            for worker in tuple(asked):
                worker.kill()  # which ends the wait in the thread, too
            raise

    def close(self) -> None:
        """End all workers, at exit and in tests. The next request starts new ones."""
        atexit.unregister(self.close)
        for worker in tuple(self._all):
            worker.kill()
        while self._idle:
            self._drop(self._idle.pop())

    @contextmanager
    def _lent(self) -> "Generator[_Worker]":
        worker = self._take()
        try:
            yield worker
        except BaseException:
            self._drop(worker)
            raise
        if worker.is_ready:
            self._idle.append(worker)
        else:
            self._drop(worker)

    def _take(self) -> "_Worker":
        while self._idle:
            try:
                worker = self._idle.pop()
            except IndexError:  # another thread was faster
                break
            if worker.is_ready:
                return worker
            self._drop(worker)
        worker = _Worker(self._command, self._variables)
        if not self._all:
            atexit.register(self.close)
        self._all.add(worker)
        return worker

    def _drop(self, worker: "_Worker") -> None:
        worker.close()
        self._all.discard(worker)

    def _limit(self) -> CapacityLimiter:
        """The event loop's limiter, shared by all episodes on it."""
        try:
            return self._limiter.get()
        except LookupError:
            limiter = CapacityLimiter(MAX_WORKERS)
            self._limiter.set(limiter)
            return limiter


class _Worker:
    """A worker process and the pipes to it."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str] | None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the process
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is the hub's to handle
            env=clean_environment(os.environ) if variables is None else variables,
        )

    @property
    def is_ready(self) -> bool:
        """Whether the worker lives and has written nothing unrequested, such as that its child died."""
        return self._process.poll() is None and not self._spoke(0)

    def _spoke(self, seconds: float) -> bool:
        assert self._process.stdout is not None
        ready = select.poll()
        ready.register(self._process.stdout, select.POLLIN | select.POLLHUP)
        return bool(ready.poll(seconds * 1000))

    def ask(self, request: Mapping[str, Any], wall_seconds: float) -> dict[str, Any]:
        """Send a request and return the reply."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        except OSError as error:
            raise self._obituary() from error
        if not self._spoke(wall_seconds):
            self.kill()
            raise TimeoutError
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._obituary()
        reply = json.loads(line)
        if "ended" in reply:
            raise self._obituary(reply["ended"])
        return reply

    def _obituary(self, code: int | None = None) -> WorkerDied:
        self.kill()
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 2000))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        said = f": {lines[-1]}" if lines else ""
        return WorkerDied(f"exit code {self._process.returncode if code is None else code}{said}")

    def kill(self) -> None:
        """Kill the process and its child; a thread that waits for its reply gets an error at once."""
        # The group: the child may outlive its parent, busy. It is gone already where the process died by itself.
        kill_group(self._process.pid)
        self._process.wait()

    def close(self) -> None:
        """Kill the process and close its pipes; only while no session waits for its reply."""
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            with suppress(OSError):  # what was buffered for a dead process has nowhere to go
                stream.close()
