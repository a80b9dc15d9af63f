"""Reports the progress of building and pulling the images that a run's sandboxes need."""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from pathlib import Path

import anyio

from rollouthub.errors import raise_first_error
from rollouthub.limits import uncharged
from rollouthub.sandbox import MIB, Build, SandboxSpec
from rollouthub.statistics.amounts import clock

FIRST_SECONDS, EVERY_SECONDS = 3.0, 15.0
"""Seconds until the first report on an image, and between further ones; images ready sooner are not reported."""
_listener: ContextVar[Callable[[str], None] | None] = ContextVar("rollouthub.hosting.image_progress", default=None)


@contextmanager
def told_to(listener: Callable[[str], None]) -> Generator[None]:
    """Send progress lines about images to `listener` inside this context."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


class Readiness:
    """Reports the progress of images."""

    def __init__(self, images: int = 0) -> None:
        """`images` is the number of images known to be needed."""
        self._images = images
        self._done: dict[str, float] = {}
        """Image → seconds that it took."""
        self._begun: set[str] = set()

    @asynccontextmanager
    async def one_more(self, image: str | Build | None) -> AsyncGenerator[None]:
        """Report, once, an image that only an episode turned out to need; episode deadlines are paused meanwhile."""
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
        """A context in which a spec's image is built or pulled; its progress is reported."""
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
        async with raise_first_error(), anyio.create_task_group() as telling:
            telling.start_soon(self._tell, tell, spec, started, said)
            yield
            telling.cancel_scope.cancel()
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
        """An estimate of the time left, from the mean time of the images that are ready."""
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
    """What is being done for a spec's image: a pull, or a build and the size of its files."""
    if not isinstance(spec.image, Build):
        return " is fetched"
    files = (path for path in Path(spec.image.context).rglob("*") if path.is_file() and not path.is_symlink())
    total = sum(path.stat().st_size for path in files)
    return f" is built ({total / MIB:.1f} MiB of files)"
