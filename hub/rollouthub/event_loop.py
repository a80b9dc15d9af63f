"""The event loop: starting it, and keeping foreign code and large JSON from blocking it.

It is asyncio's through anyio, on uvloop if that is installed, with rare garbage collection. Foreign code that is plain
`def` runs in worker threads; a coroutine is timed, and named as soon as it was seen to block the loop. A coroutine is
never moved because of that. To a thread: much code is right in one thread only, and some of it fails silently in
another (time-outs by `signal.alarm` that a library swallows, a connection made in `setup`). To a process: that has
other module state, and a second copy of what is loaded, which the machine may not hold. Scores would change during a
run. An author who writes `def` instead of `async def` states that any thread will do; a user who says `--served`, that
a process will.
"""

import asyncio
import gc
import importlib.util
import inspect
import os
import resource
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from time import perf_counter
from types import coroutine
from typing import Any, TypeVar, TypeVarTuple, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import RunVar

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_MOST_OPEN_FILES = (2**20, 10_240)
"""Highest limits of open files to ask for, the first that the system accepts: some programs loop over all possible file
numbers, so that a higher limit slows them down. The second is macOS's.
"""
_COLLECT_AFTER = (50_000, 10, 10)
"""Thresholds of Python's own collector, for stretches in which the event loop does not run."""
_YOUNG_SECONDS = 0.2
"""Seconds between collections of new objects. Python's own trigger counts allocations less deallocations: thousands of
episodes that come and go leave the count unchanged, until there are half a million objects to walk at once.
"""
_ALL_AFTER = 300
"""Each collection of this number walks all objects."""


def run_async(function: Callable[[*Arguments], Awaitable[Result]], *arguments: *Arguments) -> Result:
    """Run an async function to its end."""
    fast = importlib.util.find_spec("uvloop") is not None

    async def run() -> Result:
        with steady_collector():
            return await function(*arguments)

    allow_open_files()
    with quiet_collector():
        return anyio.run(run, backend="asyncio", backend_options={"use_uvloop": fast})


@asynccontextmanager
async def background_tasks() -> AsyncGenerator[TaskGroup]:
    """A task group whose tasks are cancelled when the block ends; an error of the block is raised without a group
    around it.
    """
    problem: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:
            problem = error  # raised below, as the group would wrap it
        tasks.cancel_scope.cancel()
    if problem is not None:
        raise problem


def allow_open_files() -> None:
    """Raise the limit of open files of this process and its children to the hard limit (at most `_MOST_OPEN_FILES`).

    Systems start with 1024, because some old programs break with more; the connections of agents soon exceed that.
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
    """Collect garbage from the running loop, every `_YOUNG_SECONDS`, in short steps."""
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
    """Make Python's own garbage collection rare, and exclude the objects that exist now from it.

    A run makes thousands of short-lived objects at a time and few cycles; with thousands of episodes in flight Python's
    default thresholds spend a third of the CPU on walking live objects.
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
"""Most JSON values read of one message, or of the arguments of one call."""
LARGE_BYTES = 64 * 2**10
"""Bytes from which on the event loop runs other tasks before a message is decoded."""
_MARKS = b",[{"


def is_crowded(text: str | bytes, most: int = MOST_VALUES) -> bool:
    """Whether JSON may hold more than `most` values; commas and brackets in its strings are not counted."""
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
    """Whether JSON has more than `most` commas and brackets, also in strings: a quick check before `is_crowded`'s
    exact one.
    """
    return len(raw) > most and len(raw) - len(raw.translate(None, _MARKS)) > most


async def is_crowded_message(raw: bytes) -> bool:
    """Whether a received message is crowded; other tasks run before a large one is decoded."""
    if len(raw) <= LARGE_BYTES:
        return is_crowded(raw)
    found = is_crowded(raw)
    await anyio.lowlevel.checkpoint()
    return found


HELD_SECONDS = 0.05
"""Seconds that code must run without an `await` to be counted as blocking the event loop."""
REPORTED_SECONDS = 1.0
"""Seconds, in all, for which a method must have blocked the event loop to be reported."""
THREADS = min(32, (os.cpu_count() or 1) + 4)
"""Most hooks that run in threads at a time; the default of Python's own thread pools."""

_OF_AGENTS = ("play", "play_reference")
_COROUTINE = inspect.CO_COROUTINE
_holds: ContextVar["LoopHolds | None"] = ContextVar("loop_holds", default=None)
_limiter: RunVar[anyio.CapacityLimiter] = RunVar("hook_threads")
_in_threads: set[int] = set()
"""Ids of the threads that run a plain `def` hook now, even if its caller has given up waiting."""


class _BlockedTime:
    """How often and how long one method blocked the event loop."""

    __slots__ = ("longest", "reported_times", "seconds", "times")

    def __init__(self) -> None:
        self.times, self.seconds, self.longest = 0, 0.0, 0.0
        self.reported_times = 0
        """How often it had blocked the loop when that was last reported; 0 if it was not."""


class LoopHolds:
    """Which methods blocked the event loop, how often and for how long.

    A method is reported when it has blocked the loop for `REPORTED_SECONDS`, since it can be mended while the run
    plays, and again at the end.
    """

    def __init__(self, report: Callable[[str], None], elsewhere: str = "") -> None:
        self._by_name: dict[str, _BlockedTime] = {}
        self._report, self._elsewhere = report, elsewhere
        self.noted = 0.0
        """Seconds noted for all methods together."""

    def note(self, name: str, seconds: float) -> None:
        """Note that a method blocked the event loop for `seconds`."""
        held = self._by_name.setdefault(name, _BlockedTime())
        held.times += 1
        held.seconds += seconds
        held.longest = max(held.longest, seconds)
        self.noted += seconds
        if not held.reported_times and held.seconds >= REPORTED_SECONDS:
            self._say("so far, ", name, held)

    def report(self) -> None:
        """Report each method that blocked the loop for `REPORTED_SECONDS` in all and again since its last report, the
        longest first.
        """
        for name, held in sorted(self._by_name.items(), key=lambda one: -one[1].seconds):
            if held.seconds >= REPORTED_SECONDS and held.times > held.reported_times:
                self._say("", name, held)

    def _say(self, when: str, name: str, held: _BlockedTime) -> None:
        held.reported_times = held.times
        self._report(f"{when}{_sentence(name, held, self._elsewhere)}")


def _sentence(name: str, held: _BlockedTime, elsewhere: str) -> str:
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
def watched_loop(report: Callable[[str], None], *, elsewhere: str = "") -> Generator[None]:
    """Time the hooks called inside the context, and pass a sentence on each one that blocked the loop to `tell`, as
    soon as that shows and at the end.

    `elsewhere` is advice on how to move a hook out of this process.
    """
    holds = LoopHolds(report, elsewhere)
    token = _holds.set(holds)
    try:
        yield
    finally:
        _holds.reset(token)
        holds.report()


def threads_left() -> int:
    """Number of hooks that still run in threads, abandoned ones included; the interpreter waits for them at exit."""
    return len(_in_threads)


def call_hook(method: Callable[..., Awaitable[Result] | Result], *arguments: Any, **named: Any) -> Awaitable[Result]:
    """Call a method of an environment; a plain `def` runs in a worker thread, which is abandoned at a deadline."""
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
    """The same coroutine, timed if a `watched_loop` is active."""
    holds = _holds.get()
    return running if holds is None else _timed(running, method, holds)


@coroutine
def _timed(running: Coroutine[Any, Any, Result], method: Any, holds: LoopHolds) -> Generator[Any, Any, Result]:
    """Drive a coroutine and time each stretch between awaits, without the time noted for others within it."""
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
    """The same items; the time to make each is noted if it blocks the event loop and a `watched_loop` is active."""
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
    """`Class.method` of a bound method, with the class of the object, even if a base class defines the method."""
    owner = getattr(method, "__self__", None)
    if owner is None:
        return getattr(method, "__qualname__", type(method).__qualname__)
    return f"{owner.__qualname__ if isinstance(owner, type) else type(owner).__qualname__}.{method.__name__}"
