"""The event loop: starting it, and keeping others' code and JSON of many values from holding it.

It is asyncio's through anyio, on uvloop where it is installed, garbage collected seldom. Code of others runs in worker
threads where it is plain `def`; else it is timed, and named where it holds the loop. A coroutine is never moved to a
thread because it was seen to block. Much code is right in one thread only, and some of it goes wrong in silence
(timeouts by `signal.alarm` that a library swallows, a connection made in `setup`): scores would change in mid-run. Who
writes `def` instead of `async def` says that any thread will do.
"""

import asyncio
import gc
import importlib.util
import inspect
import os
import resource
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from time import perf_counter
from types import coroutine
from typing import Any, TypeVar, TypeVarTuple, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.lowlevel import RunVar

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_MOST_OPEN_FILES = (2**20, 10_240)
"""More nobody needs, and some programs go through as many numbers as they may have files. The second is macOS's."""
_COLLECT_AFTER = (50_000, 10, 10)
"""For stretches in which the loop does not come round."""
_YOUNG_SECONDS = 0.2
"""How often what is new is looked through. Python counts what is made less what is freed: thousands of episodes that
come and go leave the count where it is, until there is half a million of objects to walk at once."""
_ALL_AFTER = 300
"""Every so many times, everything is."""


def run_async(function: Callable[[*Arguments], Awaitable[Result]], *arguments: *Arguments) -> Result:
    """Run an async function to its end."""
    fast = importlib.util.find_spec("uvloop") is not None

    async def run() -> Result:
        with steady_collector():
            return await function(*arguments)

    allow_open_files()
    with quiet_collector():
        return anyio.run(run, backend="asyncio", backend_options={"use_uvloop": fast})


def allow_open_files() -> None:
    """Let this process, and what it starts, have as many files open as it may allow itself.

    Systems begin with 1024, for programs that a larger number would break; connections of agents soon are more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in _MOST_OPEN_FILES:
        wanted = most if hard < 0 else min(hard, most)
        if 0 <= soft < wanted:
            with suppress(ValueError, OSError):  # macOS has a bound below the hard limit
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return


@contextmanager
def steady_collector() -> Generator[None]:
    """Collect garbage from the running loop, a little at a time, so that it is never late by much."""
    loop, times = asyncio.get_running_loop(), 0

    def collect() -> None:
        nonlocal next_time, times
        times += 1
        gc.collect(0 if times % _ALL_AFTER else 2)
        next_time = loop.call_later(_YOUNG_SECONDS, collect)

    next_time = loop.call_later(_YOUNG_SECONDS, collect)
    try:
        yield
    finally:
        next_time.cancel()


@contextmanager
def quiet_collector() -> Generator[None]:
    """Collect garbage seldom, and leave what is loaded by now out of it.

    A run makes thousands of short-lived objects at a time and few cycles; with thousands of episodes in flight Python's
    default thresholds spend a third of the CPU on walking live ones.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


MOST_VALUES = 50_000
"""In one message, or in the arguments of one call."""
LARGE_BYTES = 64 * 2**10
"""What is longer is decoded in a turn of its own."""
_MARKS = b",[{"


def is_crowded(text: str | bytes, most: int = MOST_VALUES) -> bool:
    """Whether JSON may hold more values than are read; commas and brackets in its strings count for none."""
    if len(text) <= most:
        return False
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if not has_marks(raw, most):
        return False
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    if raw.count(b'"') > 4 * most:  # those of as many names and texts
        return True
    return has_marks(b"".join(raw.split(b'"')[::2]), most)


def has_marks(raw: bytes, most: int = MOST_VALUES) -> bool:
    """Whether JSON has more commas and brackets than that, in strings or not: far quicker to see, and mostly not so."""
    return len(raw) > most and len(raw) - len(raw.translate(None, _MARKS)) > most


async def is_crowded_message(raw: bytes) -> bool:
    """The same of a message that has come; others have their turn before a large one is decoded."""
    if len(raw) <= LARGE_BYTES:
        return is_crowded(raw)
    found = is_crowded(raw)
    await anyio.lowlevel.checkpoint()
    return found


HELD_SECONDS = 0.05
"""A stretch without an `await` counts from here on."""
TOLD_SECONDS = 1.0
"""What held the loop for less, all its stretches together, is not worth a sentence."""
THREADS = min(32, (os.cpu_count() or 1) + 4)
"""How many calls run in threads at a time, as many as Python's own pools have."""

_OF_AGENTS = ("play", "play_reference")
_COROUTINE = inspect.CO_COROUTINE
_holds: ContextVar["LoopHolds | None"] = ContextVar("loop_holds", default=None)
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("hook_threads")
_in_threads: set[int] = set()
"""The threads that run somebody's `def` now, whether or not anyone still waits for it."""


class _Held:
    """What one method did to the loop."""

    __slots__ = ("longest", "seconds", "times")

    def __init__(self) -> None:
        self.times, self.seconds, self.longest = 0, 0.0, 0.0


class LoopHolds:
    """Who held the event loop, how often and for how long."""

    def __init__(self, elsewhere: str = "") -> None:
        self._by_name: dict[str, _Held] = {}
        self._elsewhere = elsewhere
        self.noted = 0.0
        """Seconds, all together."""

    def note(self, name: str, seconds: float) -> None:
        """A method held it for so long."""
        held = self._by_name.setdefault(name, _Held())
        held.times += 1
        held.seconds += seconds
        held.longest = max(held.longest, seconds)
        self.noted += seconds

    @property
    def lines(self) -> list[str]:
        """A sentence for each method that is worth one, the worst first."""
        worst = sorted(self._by_name.items(), key=lambda one: -one[1].seconds)
        return [_sentence(name, held, self._elsewhere) for name, held in worst if held.seconds >= TOLD_SECONDS]


def _sentence(name: str, held: _Held, elsewhere: str) -> str:
    method = name.rpartition(".")[2]
    times = "once" if held.times == 1 else f"{held.times} times, {held.longest * 1000:.0f} ms at most"
    if method in (*_OF_AGENTS, "setup", "reply", "seal", "close", "tasks", "call_tool"):
        advice = "let it run what takes long by anyio.to_thread.run_sync"
    else:
        advice = f"write it as `def {method}`, without `async`, and it runs in a worker thread"
    if elsewhere and method not in _OF_AGENTS:
        advice += f"; or {elsewhere}"
    return f"the event loop was held for {held.seconds:.1f} s by {name} ({times}), and all else waited; {advice}"


@contextmanager
def watched_loop(tell: Callable[[str], None], *, elsewhere: str = "") -> Generator[None]:
    """Time what is called from here on, and say at the end what held the loop; `elsewhere` says how to move it out."""
    holds = LoopHolds(elsewhere)
    token = _holds.set(holds)
    try:
        yield
    finally:
        _holds.reset(token)
        for line in holds.lines:
            tell(line)


def threads_left() -> int:
    """How many calls go on in threads, given up on or not; the interpreter would wait for them at its end."""
    return len(_in_threads)


def call_hook(method: Callable[..., Awaitable[Result] | Result], *arguments: Any, **named: Any) -> Awaitable[Result]:
    """Call a method of an environment: a plain `def` in a worker thread, which a deadline leaves behind."""
    code = getattr(method, "__code__", None)
    if (code is not None and code.co_flags & _COROUTINE) or inspect.iscoroutinefunction(method):
        return timed(method, cast("Coroutine[Any, Any, Result]", method(*arguments, **named)))
    return _threaded(partial(method, *arguments, **named))


async def _threaded(method: Callable[[], Awaitable[Result] | Result]) -> Result:
    limiter = _limiter.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(THREADS)
        _limiter.set(limiter)
    result = await anyio.to_thread.run_sync(partial(_in_thread, method), abandon_on_cancel=True, limiter=limiter)
    return cast(Result, await result) if inspect.isawaitable(result) else cast(Result, result)


def _in_thread(call: Callable[[], Result]) -> Result:
    thread = threading.get_ident()
    _in_threads.add(thread)
    try:
        return call()
    finally:
        _in_threads.discard(thread)


def timed(method: Callable[..., object], running: Coroutine[Any, Any, Result]) -> Awaitable[Result]:
    """The same coroutine, noted where it holds the loop and somebody watches that."""
    holds = _holds.get()
    return running if holds is None else _timed(running, method, holds)


@coroutine
def _timed(running: Coroutine[Any, Any, Result], method: Any, holds: LoopHolds) -> Generator[Any, Any, Result]:
    """Drive a coroutine and time each stretch; what others noted within one is theirs."""
    value: Any = None
    raised: BaseException | None = None
    while True:
        noted, began = holds.noted, perf_counter()
        try:
            awaited = running.send(value) if raised is None else running.throw(raised)
        except StopIteration as end:
            return end.value
        finally:
            seconds = perf_counter() - began - (holds.noted - noted)
            if seconds >= HELD_SECONDS:
                holds.note(_name(method), seconds)
        raised = None
        try:
            value = yield awaited
        except BaseException as error:
            raised = error


def timed_reading(method: Callable[..., object], items: Iterable[Result]) -> Iterator[Result]:
    """The same items, noted where making one holds the loop."""
    holds = _holds.get()
    return iter(items) if holds is None else _timed_reading(method, items, holds)


def _timed_reading(method: Callable[..., object], items: Iterable[Result], holds: LoopHolds) -> Iterator[Result]:
    began = perf_counter()
    for item in items:
        if (seconds := perf_counter() - began) >= HELD_SECONDS:
            holds.note(_name(method), seconds)
        yield item
        began = perf_counter()


def _name(method: Any) -> str:
    """Class and method, the class being that of the object, whoever wrote the method."""
    owner = getattr(method, "__self__", None)
    if owner is None:
        return getattr(method, "__qualname__", type(method).__qualname__)
    return f"{owner.__qualname__ if isinstance(owner, type) else type(owner).__qualname__}.{method.__name__}"
