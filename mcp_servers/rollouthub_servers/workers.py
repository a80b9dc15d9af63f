"""`Workers`: processes that answer requests, one line of JSON each, off the event loop and shared by all episodes.

They are our own and not a library's pool: those built on `multiprocessing` import the caller's main module again in
each worker, and do not say how a worker ended.
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
    """A worker ended instead of answering: with which exit code, and the last line it wrote on stderr."""


class Workers:
    """The processes of one module: they start when they are first asked, and are kept for the next who asks.

    A worker takes a request a line from stdin and writes a reply a line to stdout. `{"ended": code}` is its own
    obituary: it is of no more use.
    """

    def __init__(self, module: str, *, flags: Sequence[str] = (), variables: Mapping[str, str] | None = None) -> None:
        # -P: the caller's folder may hold a `random.py`.
        self._command = [*PYTHON, *flags, "-m", module]
        self._variables = variables
        self._idle: deque[_Worker] = deque()
        self._all: set[_Worker] = set()
        self._limiter: RunVar[CapacityLimiter] = RunVar(module)

    def ask(self, request: Mapping[str, Any], wall_seconds: float) -> dict[str, Any]:
        """The reply of an idle worker that still lives, or of a new one; blocks.

        Raises:
            TimeoutError: there was none in time; the worker is ended.
            WorkerDied: it ended without one.
        """
        with self._lent() as worker:
            return worker.ask(request, wall_seconds)

    async def ask_in_thread(self, request: Mapping[str, Any], wall_seconds: float) -> dict[str, Any]:
        """The same without blocking the event loop; cancelled, it ends the worker."""
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
        """End every worker: at exit, and in tests. The next request starts new ones."""
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
        """One limiter per event loop, shared by all its episodes."""
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
        """Whether it lives and has said nothing unasked, such as that its child died between two requests."""
        return self._process.poll() is None and not self._spoke(0)

    def _spoke(self, seconds: float) -> bool:
        assert self._process.stdout is not None
        ready = select.poll()
        ready.register(self._process.stdout, select.POLLIN | select.POLLHUP)
        return bool(ready.poll(seconds * 1000))

    def ask(self, request: Mapping[str, Any], wall_seconds: float) -> dict[str, Any]:
        """The reply."""
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
        """End the process and its child; whoever waits for its reply is told at once."""
        # The group: the child may outlive its parent, busy. It is gone already where the process died by itself.
        kill_group(self._process.pid)
        self._process.wait()

    def close(self) -> None:
        """End it and give back its pipes; only while nobody waits for its reply."""
        self.kill()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            with suppress(OSError):  # what was buffered for a dead process has nowhere to go
                stream.close()
