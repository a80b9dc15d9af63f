"""The container engine behind a wall of containers: one that answers, and mounts this machine's files."""

import csv
import io
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rollouthub.errors import HubError
from rollouthub_sandboxes.engine.address import addresses
from rollouthub_sandboxes.process.visible_paths import this_machine
from rollouthub_sandboxes.walls.empty_image import empty_image, image_name
from rollouthub_sandboxes.walls.places import PROCESSES, TRIAL_SECONDS, memory_bytes, program

_SHARED_MEMORY_BYTES = 64 << 20


class EngineRefused(Exception):
    """The engine's program failed; its message is what that said."""


@dataclass(frozen=True)
class WallEngine:
    """An engine's command line program, with the address that it asks and how it names users."""

    command: tuple[str, ...]
    own_options: tuple[str, ...]
    """Options of this engine alone: those by which a program in a container is this process's user, and others."""

    def call(self, *words: str, stdin: bytes | None = None, variables: Mapping[str, str] | None = None) -> str:
        """Run the program; returns what it printed. Blocks.

        Raises:
            EngineRefused: it failed, or did not end in time.
        """
        call = (*self.command, *words)
        environment = {**os.environ, **(variables or {})}
        try:
            done = subprocess.run(
                call, input=stdin or b"", capture_output=True, timeout=TRIAL_SECONDS, check=False, env=environment
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineRefused(str(error)) from error
        if done.returncode != 0:
            raise EngineRefused(done.stderr.decode(errors="replace").strip()[:400])
        return done.stdout.decode(errors="replace").strip()

    def create(self, options: Sequence[str], image: str, command: Sequence[str], variables: Mapping[str, str]) -> str:
        """Create a container of the empty image, which is made where it is missing; returns the container's id.

        Raises:
            EngineRefused: the engine refuses.
        """
        words = ("create", "--pull", "never", *options, image, *command)
        try:
            return self.call(*words, variables=variables)
        except EngineRefused as refused:
            if "image" not in str(refused).lower():
                raise
        self.call("import", "-", image, stdin=empty_image(this_machine()))
        return self.call(*words, variables=variables)


def wall_options() -> list[str]:
    memory = str(memory_bytes())
    return [
        *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--log-driver", "none"),
        *("--pids-limit", str(PROCESSES), "--memory", memory, "--memory-swap", memory),
        *("--shm-size", str(_SHARED_MEMORY_BYTES), "--ulimit", "core=0:0"),
    ]


def mount(source: Path, target: Path, *more: str) -> list[str]:
    """The option that mounts a path. It is a line of CSV: a comma in a name would end the name, and begin an option."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(["type=bind", f"source={source}", f"target={target}", *more])
    return ["--mount", line.getvalue()]


@cache
def wall_engine() -> WallEngine | str:
    problems: list[str] = []
    try:
        known = addresses()
    except HubError as error:
        return str(error)
    for address in known:
        name = "podman" if "podman" in address.url else "docker"
        command = program(name)
        if not address.url.startswith("unix://"):
            problems.append(f"the engine at {address.url} is on another machine")
        elif command is None:
            problems.append(f"an engine listens at {address.url}, but its program `{name}` is not installed")
        else:
            try:
                return _tried((command, "--url" if name == "podman" else "--host", address.url), name)
            except EngineRefused as error:
                problems.append(f"{name} says: {error}")
    return "; ".join(problems) or "no container engine answers"


def _tried(command: tuple[str, ...], name: str) -> WallEngine:
    """An engine's program, once the engine was seen to mount a folder that was made just now.

    Podman, which has no daemon with rights of its own, is also seen to start a program.

    Raises:
        EngineRefused: the engine does not answer, sees the files of another machine, or starts nothing.
    """
    engine = WallEngine(command, _own_options(WallEngine(command, ()), name))
    folder = Path(tempfile.mkdtemp(prefix="rollouthub-wall-"))
    try:
        options = [*wall_options(), *engine.own_options, *mount(folder, Path("/tmp"), "readonly")]
        for path in (*this_machine().folders, *this_machine().files):
            options += mount(path.resolve(), path, "readonly")
        created = engine.create(options, image_name(this_machine()), (program("true") or "true",), {})
        try:
            if name == "podman":
                engine.call("start", "--attach", created)
        finally:
            with suppress(EngineRefused):
                engine.call("rm", "--force", created)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return engine


def _own_options(engine: WallEngine, name: str) -> tuple[str, ...]:
    user = f"{os.geteuid()}:{os.getegid()}"
    if name == "podman":
        # Else /run and /var/tmp could be written to without a bound.
        own = ("--user", user, "--read-only-tmpfs=false")
        return (*own, *(("--userns", "keep-id") if os.geteuid() != 0 else ()))
    said = engine.call("info", "--format", "{{json .SecurityOptions}}")
    try:
        options = [str(option) for option in json.loads(said) or ()]
    except ValueError:
        options = []
    if any("name=rootless" in option for option in options):
        return ("--user", "0:0")  # who is root there is this user here
    return ("--user", user, *(("--userns", "host") if any("name=userns" in option for option in options) else ()))
