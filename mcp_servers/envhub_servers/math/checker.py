"""Checking answers in a few bounded worker processes, off the event loop and shared by every episode.

The processes are our own and not a library's pool: those built on `multiprocessing` import the caller's main module
again in each worker, and do not say whether a reference or a candidate exhausted its budget.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from envhub import VerifierError

MAX_WORKERS = min(4, os.cpu_count() or 1)
CPU_SECONDS = 5.0
"""CPU time a candidate may cost, and its reference. Not wall time: a loaded machine fails no answer."""
WALL_SECONDS = 120.0
"""After which a worker counts as stuck."""

_REFERENCE_OVER_BUDGET, _CANDIDATE_OVER_BUDGET = _OVER_BUDGET = -signal.SIGVTALRM, -signal.SIGPROF

MOST_KNOWN = 20_000
"""Verdicts kept, the oldest given up first: the samples of a task mostly say one of a few things."""

_known: "dict[tuple[tuple[str, ...], str, float], Verdict]" = {}
_limiter: RunVar[CapacityLimiter] = RunVar("envhub_math_checks")
_idle: deque["_Worker"] = deque()


@dataclass(frozen=True)
class Verdict:
    """Whether an answer holds."""

    correct: bool
    parsed: str | None = None
    """The answer as the checker read it; None where it could not."""
    too_complex: bool = False
    """It cost more CPU than an answer may; it is wrong."""


async def check(
    references: Sequence[str], answer: str, *, cpu_seconds: float = CPU_SECONDS, wall_seconds: float = WALL_SECONDS
) -> Verdict:
    """Compare an answer with the reference answers, any of which will do; LaTeX or plain text.

    Raises:
        VerifierError: the reference cannot be read, or the checker failed; never for anything the answer is.
    """
    key = (tuple(references), answer, cpu_seconds)
    if (known := _known.get(key)) is not None:
        return known
    request = {"references": references, "candidate": answer, "cpu_seconds": cpu_seconds}
    asking = _Asking(json.dumps(request).encode() + b"\n", wall_seconds)
    try:
        reply = await to_thread.run_sync(asking.run, abandon_on_cancel=True, limiter=_limit())
    except anyio.get_cancelled_exc_class():
        asking.give_up()
        raise
    verdict = _verdict(reply, references, cpu_seconds)
    if not verdict.too_complex:  # which depends on the machine as well
        if len(_known) >= MOST_KNOWN:
            del _known[next(iter(_known))]
        _known[key] = verdict
    return verdict


def _verdict(reply: dict[str, Any], references: Sequence[str], cpu_seconds: float) -> Verdict:
    died = reply.get("died")
    if died == _CANDIDATE_OVER_BUDGET:
        return Verdict(correct=False, too_complex=True)
    if died == _REFERENCE_OVER_BUDGET:
        raise VerifierError(f"reading the reference answer took over {cpu_seconds:g} s of CPU", retryable=False)
    if died is not None:
        raise VerifierError(f"the process that checks answers died with exit code {died}{reply.get('said', '')}")
    if reply["status"] == "unreadable_reference":
        raise VerifierError(
            f"the reference answer is no mathematics the checker can read: {' or '.join(references):.200}",
            retryable=False,
        )
    return Verdict(reply["status"] == "correct", reply["parsed"], too_complex=reply["status"] == "too_complex")


def _limit() -> CapacityLimiter:
    """One limiter per event loop, shared by all its episodes."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(MAX_WORKERS)
        _limiter.set(limiter)
        return limiter


class _Asking:
    """One request on its way through a worker, in a thread of anyio's."""

    def __init__(self, request: bytes, wall_seconds: float) -> None:
        self._request, self._wall_seconds = request, wall_seconds
        self._worker: _Worker | None = None

    def run(self) -> dict[str, Any]:
        """Through an idle worker that still lives, or a new one."""
        worker = _take()
        self._worker = worker
        try:
            return worker.ask(self._request, self._wall_seconds)
        finally:
            self._worker = None
            if worker.is_ready:
                _idle.append(worker)
            else:
                worker.close()

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
        if worker.is_ready:
            return worker
        worker.close()
    return _Worker()


class _Worker:
    """A worker process and the pipes to it."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the process
        # -P: the caller's folder may hold a `random.py`. A session of its own: Ctrl-C is the hub's to handle.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "envhub_servers.math.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        if not _all:
            atexit.register(close_workers)
        _all.add(self)

    @property
    def is_ready(self) -> bool:
        """Whether it lives and has said nothing unasked, such as that its child died between two requests."""
        return self._process.poll() is None and not self._spoke(0)

    def _spoke(self, seconds: float) -> bool:
        assert self._process.stdout is not None
        ready = select.poll()
        ready.register(self._process.stdout, select.POLLIN | select.POLLHUP)
        return bool(ready.poll(seconds * 1000))

    def ask(self, request: bytes, wall_seconds: float) -> dict[str, Any]:
        """The reply, or `died` with the exit code of the process that should have given it."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request)
            process.stdin.flush()
        except OSError:
            return self._obituary()
        if not self._spoke(wall_seconds):
            self.kill()
            raise VerifierError(f"the process that checks answers gave none within {wall_seconds:g} s")
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            return self._obituary()
        reply = json.loads(line)
        if reply.get("died") not in (None, *_OVER_BUDGET):
            # Its next child may find this request still in the pipe and answer it to the next who asks.
            reply["said"] = self._last_words()
            self.kill()
        return reply

    def _obituary(self) -> dict[str, Any]:
        self.kill()
        return {"died": self._process.wait(), "said": self._last_words()}

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - 2000))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def kill(self) -> None:
        """End the process and its child; whoever waits for its reply is told at once."""
        # The group: the child may outlive its parent, busy. It is gone already where the process died by itself.
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


_all: set[_Worker] = set()


def close_workers() -> None:
    """End every worker and forget their verdicts: at exit, and in tests. The next check starts new ones."""
    atexit.unregister(close_workers)
    _known.clear()
    for worker in tuple(_all):
        worker.kill()
    while _idle:
        _idle.pop().close()
