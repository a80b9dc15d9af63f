"""Provides an image: found locally, mapped to another one, pulled, or built."""

import hashlib
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio import CapacityLimiter, to_thread

from rollouthub.errors import ConfigError, SandboxError
from rollouthub.hosting.image_progress import Readiness
from rollouthub.sandbox import Build
from rollouthub_sandboxes.engine.api import Json
from rollouthub_sandboxes.engine.engine import Engine, EngineError
from rollouthub_sandboxes.images.build_context import Context, read_context
from rollouthub_sandboxes.images.build_lock import cache_folder, image_lock, note_use
from rollouthub_sandboxes.images.dockerfile import apart, external_images, rewrite
from rollouthub_sandboxes.images.image_map import OWN_BASE, FromMap, load_from_map
from rollouthub_sandboxes.images.reference import ImageRef
from rollouthub_sandboxes.images.stream import BuildFailed, Progress, Say, build, pull

BASE = Build(context=Path(__file__).parent / "base")
"""The build of the hub's base image, used by sandboxes that name no image."""
MARK, ABOUT = "rollouthub", "rollouthub.image"
"""Labels of images built by the hub; the second holds details as JSON. They are few, since each label is a build
step.
"""
BASE_NAME, BUILD_NAME = "rollouthub/base", "rollouthub/build"
PULL_SECONDS = 1800.0
BUILDS_AT_ONCE = 2
NO_NETWORK = "It was built without a network; --build-network bridge (or --set build_network=bridge) gives builds one."
_FORM = "1"
"""Part of every content hash; a new value has all images built anew."""


@dataclass(frozen=True, slots=True)
class _Had:
    """An image that is present on the engine, and the name it was found by."""

    name: str
    digest: str
    config: Json


async def ensure_image(
    engine: Engine,
    image: str | Build | None,
    *,
    from_map: FromMap | None = None,
    cache: Path | None = None,
    say: Say | None = None,
) -> ImageRef:
    """Make an image available on an engine, pulled or built if need be; for None, the hub's own base image.

    Raises:
        ConfigError: the folder to build from, or the mapping table, is invalid.
        SandboxError: the image cannot be pulled or built; the message says why and what to try.
    """
    return await Images(engine, from_map=from_map, cache=cache, say=say).ensure(image)


class Images:
    """Provides the images of one engine, each once: later changes of a build folder are not seen. Two builds run at
    a time.
    """

    def __init__(
        self, engine: Engine, *, from_map: FromMap | None = None, cache: Path | None = None, say: Say | None = None
    ) -> None:
        """The mapping table and the cache folder default to this machine's; `say` is called with each line of a
        build.
        """
        self._engine = engine
        self._from_map = from_map
        self._cache = cache or cache_folder()
        self._say: Say = say or _silent
        self._locks: dict[str, anyio.Lock] = {}
        self._had: dict[str, ImageRef] = {}
        self._builders = CapacityLimiter(BUILDS_AT_ONCE)
        self._readiness = Readiness()

    async def ensure(self, image: str | Build | None) -> ImageRef:
        """Like `ensure_image`, but an image provided before is returned at once."""
        self._table()
        wanted = BASE if image is None else image
        key = wanted if isinstance(wanted, str) else wanted.model_dump_json()
        if key not in self._had:
            async with self._readiness.one_more(image), self._locks.setdefault(key, anyio.Lock()):
                if key not in self._had:
                    if isinstance(wanted, str):
                        self._had[key] = await self._named(wanted)
                    else:
                        self._had[key] = await self._built(wanted, ())
                return self._had[key]
        return self._had[key]

    def _table(self) -> FromMap:
        """The mapping table, read when the first image is wanted, so that its errors are not taken for a missing
        engine.
        """
        if self._from_map is None:
            self._from_map = load_from_map()
        return self._from_map

    def forget(self) -> None:
        """Forget which images are present, so that each is looked for again; to be called when one was removed."""
        self._had.clear()

    async def _named(self, name: str) -> ImageRef:
        had = await self._resolve(name, ())
        replaced = {} if had.name == name else {name: had.name}
        return _reference(had, replaced)

    async def _resolve(self, name: str, below: tuple[str, ...]) -> _Had:
        """The image of exactly this name if it is present, else the mapping table's replacement, else one pulled by
        this name.
        """
        found = await self._inspect(name)
        if found is not None:
            return found
        used = self._table().find(name)
        if used == OWN_BASE:
            base = await self._built(BASE, below)
            return await self._inspect(base.reference) or _gone(base.reference)
        if used is not None and used != name:
            return await self._inspect(used) or await self._pull(used, f"it stands in for {name!r}")
        return await self._pull(name, None)

    async def _inspect(self, name: str) -> _Had | None:
        try:
            details = await self._engine.call_again(self._engine.api.inspect_image, name)
        except EngineError as error:
            if error.status == 404:
                return None
            raise
        return _Had(name, str(details["Id"]), details.get("Config") or {})

    async def _pull(self, name: str, why: str | None) -> _Had:
        progress = Progress(self._say)
        try:
            with anyio.fail_after(PULL_SECONDS):
                await pull(self._engine, name, progress)
        except TimeoutError as error:
            raise SandboxError(f"the image {name!r} was not pulled within {PULL_SECONDS:g} s") from error
        except EngineError as error:
            table = self._table().file or "images.toml"
            raise SandboxError(
                f"the image {name!r}{f' ({why})' if why else ''} is not present and cannot be pulled: {error}; "
                f"name one that stands in for it under [from] in {table}, or build it: "
                f"hub images build DIR --tag {name}",
                retryable=error.status is None,
            ) from error
        return await self._inspect(name) or _gone(name)

    async def _built(self, wanted: Build, below: tuple[str, ...]) -> ImageRef:
        folder = str(wanted.context)
        if folder in below:
            raise ConfigError(
                f"the mapping table {self._table().file} lets an image stand in for one that it is made from itself: "
                f"{' → '.join((*below, folder))}"
            )
        context = await to_thread.run_sync(read_context, wanted.context, wanted.dockerfile)
        try:
            with anyio.fail_after(wanted.timeout_seconds):
                return await self._build_once(wanted, context, (*below, folder))
        except TimeoutError as error:
            raise SandboxError(
                f"the image of {folder!r} was not built within {wanted.timeout_seconds:g} s", retryable=False
            ) from error

    async def _build_once(self, wanted: Build, context: Context, below: tuple[str, ...]) -> ImageRef:
        bases = {
            name: await self._resolve(name, below) for name in external_images(context.dockerfile, wanted.arguments)
        }
        replaced = {name: had.name for name, had in bases.items() if had.name != name}
        dockerfile = rewrite(context.dockerfile, wanted.arguments, lambda name: replaced.get(name, name))
        if wanted.network != "bridge":  # what a step could not reach may be missing in what it left
            dockerfile = apart(dockerfile, f"rollouthub.build-network={wanted.network}")
        fingerprint = await to_thread.run_sync(context.fingerprint)
        digests = {name: had.digest for name, had in bases.items()}
        parts = [_FORM, fingerprint, dockerfile, json.dumps([dict(wanted.arguments), digests], sort_keys=True)]
        content = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:24]
        tag = f"{BASE_NAME if wanted.context == BASE.context else BUILD_NAME}:{content}"
        async with image_lock(self._cache, content):
            note_use(self._cache, content)
            had = await self._inspect(tag)
            if had is None:
                about = {
                    "content": content,
                    "source": str(wanted.context),
                    "replaced": replaced,
                    "built": int(time.time()),
                }
                labels = {MARK: "1", ABOUT: json.dumps(about)}
                async with self._builders:
                    await self._build(wanted, context, dockerfile, tag, labels)
                had = await self._inspect(tag) or _gone(tag)
        return _reference(had, replaced)

    async def _build(self, wanted: Build, context: Context, dockerfile: str, tag: str, labels: dict[str, str]) -> None:
        progress = Progress(self._say)
        with tempfile.NamedTemporaryFile(prefix="rollouthub-context-", suffix=".tar") as packed:
            name = await to_thread.run_sync(_pack, context, Path(packed.name), dockerfile)
            try:
                await build(
                    self._engine,
                    Path(packed.name),
                    dockerfile=name,
                    tag=tag,
                    arguments=wanted.arguments,
                    labels=labels,
                    network=wanted.network,
                    progress=progress,
                )
            except BuildFailed as error:
                hint = "" if wanted.network == "bridge" else f"\n{NO_NETWORK}"
                raise BuildFailed(f"the build of {str(wanted.context / wanted.dockerfile)!r} {error}{hint}") from error


def _pack(context: Context, target: Path, dockerfile: str) -> str:
    with target.open("wb") as file:
        return context.pack(file, dockerfile)


def _reference(had: _Had, replaced: dict[str, str]) -> ImageRef:
    user, workdir = str(had.config.get("User") or ""), str(had.config.get("WorkingDir") or "")
    return ImageRef(had.name, had.digest, replaced, user, workdir)


def _gone(name: str) -> _Had:
    raise SandboxError(f"the image {name!r} was there a moment ago and is gone; were images pruned meanwhile?")


def _silent(_: str) -> None:
    pass
