"""Prepares a run's programs and images once, so that a missing one is reported before the first episode."""

import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rollouthub.errors import ConfigError, SandboxError
from rollouthub.hosting.local.episode_sandboxes import open_provider
from rollouthub.sandbox import GIB, CommandNotStarted, Resources, SandboxProvider, SandboxSpec
from rollouthub_agents.external.config import ExternalConfig
from rollouthub_agents.external.host_program import HostPlaces
from rollouthub_agents.external.program_place import Place, Places
from rollouthub_agents.external.programs import find_program
from rollouthub_agents.external.recipe import Recipe
from rollouthub_agents.external.sandboxed_program import HOME, SandboxPlaces
from rollouthub_agents.external.templates import fill

logger = logging.getLogger(__name__)

PROBE_SECONDS = 60.0
PIDS = 1024
_CONTAINER_BYTES = 4 * GIB
_UNBOUNDED_BYTES = 1 << 46
"""Bytes of address space that serve as no limit: runtimes reserve terabytes without using them."""
_IS_THERE = 'command -v -- "$1" >/dev/null'


@asynccontextmanager
async def open_places(config: ExternalConfig, recipe: Recipe) -> AsyncGenerator[tuple[Places, Recipe]]:
    """Prepare where the program runs; yields the places, and the recipe with the program's name there.

    Raises:
        ConfigError: the program, its image or its isolation is not available.
    """
    async with AsyncExitStack() as stack:
        if config.kind == "none":
            recipe = recipe.at(_on_this_machine(recipe.program))
            here = HostPlaces(config.stdout_bytes)
            _expect(await _problem(here, recipe), recipe, "this machine")
            yield here, recipe
        else:
            provider = await stack.enter_async_context(open_provider(config.kind))
            await _prepare(provider, _spec(config))
            opened = await (_in_containers if config.kind == "docker" else _in_namespaces)(provider, config, recipe)
            yield opened


def _on_this_machine(program: str) -> str:
    """Make an existing program path absolute; a bare name, or a path relative to the copied files, stays as it is."""
    return str(Path(program).absolute()) if "/" in program and Path(program).exists() else program


async def _in_containers(provider: SandboxProvider, config: ExternalConfig, recipe: Recipe) -> tuple[Places, Recipe]:
    places = SandboxPlaces(provider, _spec(config), config.stdout_bytes, is_image=config.image is not None)
    where = f"the image {config.image!r}" if config.image else "the base image; name one with image=…"
    _expect(await _problem(places, recipe), recipe, where)
    return places, recipe


async def _in_namespaces(provider: SandboxProvider, config: ExternalConfig, recipe: Recipe) -> tuple[Places, Recipe]:
    """Use the sandbox's own program if it has it; else mount this machine's, with the folders it needs."""
    shown = tuple(_folder(path) for path in config.shows)
    places = SandboxPlaces(provider, _spec(config, shown), config.stdout_bytes, is_image=False)
    problem = await _problem(places, recipe)
    if problem is None:
        return places, recipe
    try:
        program = find_program(recipe.program)
    except ConfigError as error:
        raise _unusable(str(error), recipe) from error
    if program is None:
        raise _unusable(f"{problem} in the sandbox, which has the system's programs, nor on this machine", recipe)
    recipe, shown = recipe.at(str(program.path)), tuple(dict.fromkeys((*map(str, program.folders), *shown)))
    search = ":".join(map(str, program.search))
    places = SandboxPlaces(provider, _spec(config, shown), config.stdout_bytes, search, is_image=False)
    where = f"the sandbox, which shows {', '.join(shown)}; `shows` names more"
    _expect(await _problem(places, recipe), recipe, where)
    return places, recipe


def _spec(config: ExternalConfig, shown: tuple[str, ...] = ()) -> SandboxSpec:
    memory = config.memory_bytes or (_CONTAINER_BYTES if config.kind == "docker" else _UNBOUNDED_BYTES)
    return SandboxSpec(
        image=config.image,
        resources=Resources(cpus=config.cpus, memory_bytes=memory, pids=PIDS),
        scratch=("/tmp", HOME),
        environment={"HOME": HOME, "LANG": "C.UTF-8"},
        shown=shown,
    )


def _folder(path: str) -> str:
    folder = Path(path).absolute()
    if not folder.exists() or folder == Path("/"):
        raise ConfigError(f"shows names {path!r}, which is {'everything' if folder.exists() else 'not there'}")
    return str(folder)


async def _prepare(provider: SandboxProvider, spec: SandboxSpec) -> None:
    try:
        await provider.prepare(spec)
    except SandboxError as error:
        raise ConfigError(f"the agent has no sandbox of {spec.image or 'the base image'}: {error}") from error


async def _problem(places: Places, recipe: Recipe) -> str | None:
    """Why the program cannot run there; None if it can."""
    try:
        async with places.open() as place:
            _check_walls(place)
            await place.write(recipe.files, place.workdir)
            try:
                found = await place.run(["/bin/sh", "-c", _IS_THERE, "sh", recipe.program], {}, PROBE_SECONDS)
            except CommandNotStarted:
                return None  # an image without a shell: the first episode tells
            if found.exit_status != 0:
                return f"there is no program {recipe.program!r}"
            return await _probe(place, recipe)
    except SandboxError as error:
        raise ConfigError(f"the agent has no place to run in: {error}") from error


async def _probe(place: Place, recipe: Recipe) -> str | None:
    """Check that a profile's program runs, and warn if its version is not the tested one."""
    profile = recipe.profile
    if profile is None:
        return None
    words = [fill(word, {"program": recipe.program}) for word in profile.probe]
    done = await place.run(words, {"HOME": place.home, "LANG": "C.UTF-8"}, PROBE_SECONDS)
    if done.exit_status != 0:
        said = (done.stderr.text or done.stdout.text).strip()[-500:]
        return f"{recipe.program!r} does not run: {said or f'it ended with {done.exit_status}'}"
    if profile.version not in done.stdout.text:
        found = done.stdout.text.strip()[:80]
        logger.warning("%s was tested with version %s; this is %r", profile.title, profile.version, found)
    return None


def _check_walls(place: Place) -> None:
    if place.sandbox is not None and place.sandbox.ref.network == "host":
        raise ConfigError(
            "the network cannot be cut from processes here, so an agent would reach more than its two URLs; install "
            "bubblewrap, or use sandbox=docker, or let it reach everything with sandbox=none"
        )


def _expect(problem: str | None, recipe: Recipe, where: str) -> None:
    if problem is not None:
        raise _unusable(f"{problem} in {where}", recipe)


def _unusable(problem: str, recipe: Recipe) -> ConfigError:
    profile = recipe.profile
    return ConfigError(problem if profile is None else f"{problem}; install {profile.title} with: {profile.install}")
