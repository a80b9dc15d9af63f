"""The wall of a container engine: a container of an empty image, over which this machine's system is laid read-only."""

import logging
import os
import secrets
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
import anyio.to_thread

from rollouthub.errors import ConfigError
from rollouthub.hosting.wall.view import View
from rollouthub_sandboxes.engine.labels import labels, this_process
from rollouthub_sandboxes.process.process_isolation import account_files
from rollouthub_sandboxes.walls.empty_image import image_name
from rollouthub_sandboxes.walls.places import TMP_BYTES, Places, guarded_in, search_path
from rollouthub_sandboxes.walls.wall_engine import EngineRefused, WallEngine, mount, wall_engine, wall_options

logger = logging.getLogger(__name__)

PURPOSE = "environment"
REMOVE_SECONDS = 20.0
_LONGEST_SECONDS = 30 * 86400.0


@dataclass(frozen=True)
class _InContainer:
    command: tuple[str, ...]
    engine: WallEngine
    container: str

    def process(self, started: int) -> int | None:
        """The pid of the container's first process; None where the engine is not asked in vain."""
        with suppress(EngineRefused, ValueError):
            pid = int(self.engine.call("inspect", "--format", "{{.State.Pid}}", self.container))
            return pid if pid > 0 and Path(f"/proc/{pid}").exists() else None
        return None


class ContainerWall:
    """Puts servers into containers of an engine."""

    kind: Literal["container"] = "container"

    def __init__(self, engine: WallEngine) -> None:
        self._engine = engine

    def lacks(self, view: View) -> str | None:
        """See `Wall`."""
        return None

    @asynccontextmanager
    async def enclosed(
        self, command: Sequence[str], view: View, folder: Path, variables: Mapping[str, str]
    ) -> AsyncGenerator[_InContainer]:
        """Put a command behind the wall; see `Wall`. After the context, its container is gone."""
        name = f"rollouthub-environment-{secrets.token_hex(8)}"
        try:
            await anyio.to_thread.run_sync(self._create, name, command, view, folder, variables)
        except EngineRefused as error:
            raise ConfigError(
                f"{view.name} cannot be put into a container: {error}\n--wall bubblewrap needs no engine, and --trust "
                "runs it as a plain process of yours"
            ) from error
        try:
            yield _InContainer((*self._engine.command, "start", "--attach", "--interactive", name), self._engine, name)
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(REMOVE_SECONDS):
                await anyio.to_thread.run_sync(self._remove, name, abandon_on_cancel=True)

    def _create(
        self, name: str, command: Sequence[str], view: View, folder: Path, variables: Mapping[str, str]
    ) -> None:
        places = Places.of(view, folder)
        accounts = folder / ".accounts"
        accounts.mkdir(exist_ok=True)
        given = {**variables, "PATH": search_path(command)}
        options = ["--name", name, "--rm", "--interactive", "--hostname", "environment", *wall_options()]
        for label, value in labels(this_process(), PURPOSE, time.time() + _LONGEST_SECONDS, PURPOSE).items():
            options += ["--label", f"{label}={value}"]
        options += ["--network", "bridge" if "network" in view.openings else "none", *self._engine.own_options]
        options += ["--tmpfs", f"/tmp:rw,mode=1777,size={TMP_BYTES}"]
        for path in places.mounted:
            if path == places.empty:
                options += ["--tmpfs", f"{path}:rw,mode=755,size=4k"]
            else:
                options += mount(path.resolve(), path, *(() if path in places.writable else ("readonly",)))
        for path in account_files(accounts, os.geteuid()):
            if path.name in ("passwd", "group", "nsswitch.conf"):  # the engine makes the others
                options += mount(path, Path("/etc", path.name), "readonly")
        if places.engine is not None:
            options += [*mount(places.engine, places.engine), "--group-add", str(places.engine.stat().st_gid)]
        for variable in given:
            options += ["--env", variable]
        first, *rest = guarded_in(command)
        options += ["--workdir", str(view.workdir), "--entrypoint", first]
        self._engine.create(options, image_name(places.machine), rest, given)

    def _remove(self, name: str) -> None:
        try:
            self._engine.call("rm", "--force", name)
        except EngineRefused as error:
            if "no such container" not in str(error).lower() and "already in progress" not in str(error):
                logger.warning("the container %s of an environment's server was not removed: %s", name, error)


async def container_wall() -> ContainerWall | str:
    """The wall of the first engine that answers and sees this machine's files, or why there is none."""
    engine = await anyio.to_thread.run_sync(wall_engine)
    return engine if isinstance(engine, str) else ContainerWall(engine)
