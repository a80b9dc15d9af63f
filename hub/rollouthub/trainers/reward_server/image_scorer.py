"""Scores pictures by a user's Python function, called in a thread within a time limit; its result is validated."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import anyio.abc
import anyio.to_thread

from rollouthub.authoring.decoded_picture import BadPicture
from rollouthub.errors import ConfigError, HubError, VerifierError, describe
from rollouthub.plugins.extras import pip_install
from rollouthub.trainers.reward_server.picture_scores import failed, laid_out
from rollouthub.trainers.reward_server.request_pictures import PictureReader
from rollouthub.trainers.reward_server.reward_wire import ImageReply, ImageRequest

T = TypeVar("T")

ImageFunction = Callable[[list[Any], list[str], list[dict[str, Any]]], Any]
"""`score(images, prompts, metadata)`: takes Pillow images in RGB; returns a list of numbers, or {name: list of
numbers}.
"""
PLAIN = "rollouthub.trainers.reward_server.plain_look:plain_look"


class ScorerTimeout(HubError):
    """Pictures were not scored in time."""


def find_scorer(name: str) -> ImageFunction:
    """Load a scoring function by `module:function` or `FILE.py:function`.

    Raises:
        ConfigError: there is no such function, or its module cannot be imported.
    """
    place, _, function = name.rpartition(":")
    if not place or not function:
        raise ConfigError(f"{name!r} names no scorer; write MODULE:FUNCTION or FILE.py:FUNCTION, such as {PLAIN}")
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(f"the scorer {name!r} could not be imported: {describe(error)}") from error
    found = getattr(module, function, None)
    if not callable(found):
        raise ConfigError(f"{place} has no function {function!r}")
    return cast(ImageFunction, found)


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise ConfigError(f"there is no file {str(path)!r} to take a scorer from")
    spec = importlib.util.spec_from_file_location(f"rollouthub_scorer_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class ImageScorer:
    """Scores the pictures of requests. Made by `open_image_scorer`."""

    def __init__(self, function: ImageFunction, folder: Path | None, tasks: anyio.abc.TaskGroup, at_once: int) -> None:
        self._function, self._folder, self._tasks = function, folder, tasks
        self._limiter = anyio.CapacityLimiter(at_once)
        self._jobs: set[_Job] = set()

    @property
    def is_stuck(self) -> bool:
        """Whether a call still runs in its thread, where only the end of the process can stop it."""
        return any(job.is_running for job in self._jobs)

    async def score(self, request: ImageRequest, seconds: float) -> ImageReply:
        """Score the pictures of one request within `seconds`.

        Raises:
            ConfigError: the lists of the request differ in length.
            ScorerTimeout: scoring took longer than `seconds`.
            VerifierError: the function failed, or returned something that is not a score.
        """
        count = len(request.images)
        metadata: list[dict[str, Any]] = [{} for _ in request.images]
        if request.metadata is not None:
            metadata = list(request.metadata)
        if not len(request.prompts) == len(metadata) == count:
            raise ConfigError(
                f"{count} images, {len(request.prompts)} prompts and {len(metadata)} entries of metadata: "
                "there must be one of each for every picture"
            )
        job = _Job(self._function, self._folder, request, metadata)
        with anyio.move_on_after(seconds):
            await self._limiter.acquire_on_behalf_of(job)
            self._tasks.start_soon(self._work, job)
            await job.done.wait()
            return job.result()
        raise ScorerTimeout(f"{count} pictures were not scored within {seconds:g} seconds")

    async def _work(self, job: "_Job") -> None:
        """Run one job in a task of its own: a running function cannot be stopped, so a job that overruns its time
        keeps its slot.
        """
        self._jobs.add(job)
        try:
            await job.run()
        finally:
            self._jobs = {each for each in self._jobs if each is not job or each.is_running}
            self._limiter.release_on_behalf_of(job)


class _Job:
    """The pictures of one request, while they are scored."""

    def __init__(
        self, function: ImageFunction, folder: Path | None, request: ImageRequest, metadata: list[dict[str, Any]]
    ) -> None:
        self._function, self._folder, self._request, self._metadata = function, folder, request, metadata
        self._reply: ImageReply | None = None
        self._failure: VerifierError | None = None
        self.done = anyio.Event()
        self.is_running = False
        """Whether a call is running in the job's thread."""

    def result(self) -> ImageReply:
        """The reply; raises the failure if there is none."""
        if self._reply is None:
            raise self._failure or VerifierError("the scoring of pictures was broken off")
        return self._reply

    async def run(self) -> None:
        """Score the pictures; an exception becomes the failure of this request only."""
        try:
            places, problems, given = await self._in_thread(self._read)
            said: Any = {}
            if places:
                said = await self._in_thread(partial(self._function, *given))
                if inspect.isawaitable(said):
                    said = await said
            self._reply = await self._in_thread(partial(laid_out, said, places, problems))
        except VerifierError as error:
            self._failure = error
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # of what was awaited, which is anybody's
            self._failure = failed(error)
        finally:
            self.done.set()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        def working() -> T:
            self.is_running = True
            try:
                return work()
            except VerifierError:
                raise
            except BaseException as error:  # not even what means to end a process ends this one
                raise failed(error) from error
            finally:
                self.is_running = False

        return await anyio.to_thread.run_sync(working, abandon_on_cancel=True)

    def _read(self) -> tuple[list[int], list[str | None], tuple[list[Any], list[str], list[dict[str, Any]]]]:
        reader = PictureReader(self._folder)
        places: list[int] = []
        pictures: list[Any] = []
        problems: list[str | None] = [None] * len(self._request.images)
        for place, image in enumerate(self._request.images):
            try:
                pictures.append(reader.read(image))
                places.append(place)
            except BadPicture as error:
                problems[place] = str(error)
        prompts = [self._request.prompts[place] for place in places]
        return places, problems, (pictures, prompts, [self._metadata[place] for place in places])


@asynccontextmanager
async def open_image_scorer(name: str, folder: Path | None = None, at_once: int = 1) -> AsyncGenerator[ImageScorer]:
    """Open a scorer of pictures that calls the function `name`; up to `at_once` requests are scored at a time.

    Raises:
        ConfigError: there is no such function, or no such folder.
    """
    if folder is not None and not await anyio.Path(folder).is_dir():
        raise ConfigError(f"there is no folder {str(folder)!r}")
    if importlib.util.find_spec("PIL") is None:
        raise ConfigError(f"pictures need Pillow, which is not installed; run `{pip_install('images')}`")
    function = await anyio.to_thread.run_sync(find_scorer, name)
    async with anyio.create_task_group() as tasks:
        yield ImageScorer(function, folder, tasks, at_once)
        tasks.cancel_scope.cancel()
