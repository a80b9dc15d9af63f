"""How far a run is with what its sandboxes need: images, built or pulled before an episode or in one."""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path

import anyio

from rollouthub.errors import first_error
from rollouthub.limits import uncharged
from rollouthub.sandbox import MIB, Build, SandboxSpec
from rollouthub.statistics.amounts import clock

FIRST_SECONDS, EVERY_SECONDS = 3.0, 15.0
"""Of an image that is there nothing is said; of one that takes longer, again and again."""
_listener: ContextVar[Callable[[str], None] | None] = ContextVar("rollouthub.hosting.image_progress", default=None)


@contextmanager
def told_to(listener: Callable[[str], None]) -> Generator[None]:
    """Have a listener told, in lines for people, how far images are."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class Readiness:
    """Tells of images one after the other."""

    def __init__(self, images: int = 0) -> None:
        """`images` is how many are known to be needed."""
        self._images = images
        self._done: dict[str, float] = {}
        """Seconds that each took."""
        self._begun: set[str] = set()

    @asynccontextmanager
    async def one_more(self, image: str | Build | None) -> AsyncGenerator[None]:
        """Around having an image that an episode turns out to need, on nobody's time; each is told of once."""
        key = str(image)
        with uncharged():
            if _listener.get() is None or key in self._begun:
                yield
                return
            self._begun.add(key)
            self._images += 1
            async with self.of(SandboxSpec(image=image)):
                yield

    @asynccontextmanager
    async def of(self, spec: SandboxSpec) -> AsyncGenerator[None]:
        """Around having a spec's image ready."""
        tell, key = _listener.get(), str(spec.image)
        if tell is None or key in self._done:
            yield
            return
        token = _listener.set(None)  # what is told of here is not told of again further down
        try:
            async with self._told(tell, spec, key):
                yield
        finally:
            _listener.reset(token)

    @asynccontextmanager
    async def _told(self, tell: Callable[[str], None], spec: SandboxSpec, key: str) -> AsyncGenerator[None]:
        started, said = anyio.current_time(), [False]
        try:
            async with anyio.create_task_group() as telling:
                telling.start_soon(self._tell, tell, spec, started, said)
                yield
                telling.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        self._done[key] = anyio.current_time() - started
        if said[0]:
            tell(f"images: {len(self._done)} of {self._images} ready, {_name(spec)} after {clock(self._done[key])}")

    async def _tell(self, tell: Callable[[str], None], spec: SandboxSpec, started: float, said: list[bool]) -> None:
        await anyio.sleep(FIRST_SECONDS)
        what = await anyio.to_thread.run_sync(_work, spec)
        while True:
            said[0] = True
            for_now = clock(anyio.current_time() - started)
            tell(f"images: {len(self._done)} of {self._images} ready, {_name(spec)}{what} for {for_now}{self._left()}")
            await anyio.sleep(EVERY_SECONDS)

    def _left(self) -> str:
        """How long the others will take, as those before did."""
        long = [seconds for seconds in self._done.values() if seconds > FIRST_SECONDS]
        if not long:
            return ""
        left = self._images - len(self._done)
        return f"; about {clock(left * sum(long) / len(self._done))} left"


def _name(spec: SandboxSpec) -> str:
    if not isinstance(spec.image, Build):
        return spec.image or "the base image"
    folder = spec.image.context
    return f"{folder.parent.name}/{folder.name}"


def _work(spec: SandboxSpec) -> str:
    """How much a build is given."""
    if not isinstance(spec.image, Build):
        return " is fetched"
    files = (path for path in Path(spec.image.context).rglob("*") if path.is_file() and not path.is_symlink())
    total = sum(path.stat().st_size for path in files)
    return f" is built ({total / MIB:.1f} MiB of files)"
