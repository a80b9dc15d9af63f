"""The command line and variables that start a server for one episode, with placeholders replaced."""

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from rollouthub.errors import ConfigError, TaskError
from rollouthub.plugins.manifest import ServerSection
from rollouthub.task import Public
from rollouthub_servers.mcp_server.processes import MARK
from rollouthub_servers.mcp_server.program_place import ProgramPlace
from rollouthub_servers.mcp_server.scratch import Scratch

CONTAINER_WORKDIR = "/work"
_PLACEHOLDER = re.compile(r"\{(workdir|folder|python|seed|task\.[A-Za-z_]\w*)\}")


@dataclass(frozen=True)
class Launch:
    """A program to start."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(repr=False)
    cwd: Path
    mark: str
    stop_seconds: float
    afterwards: tuple[str, ...] = ()
    """A command that removes what remains after the process has ended; empty if there is none."""


def launch_of(server: ServerSection, place: ProgramPlace, scratch: Scratch, public: Public, seed: int) -> Launch:
    """How to start the server of one episode.

    Raises:
        TaskError: the task lacks a metadata key that the command names.
    """
    workdir = CONTAINER_WORKDIR if server.image is not None else str(scratch.workdir)
    values = {"workdir": workdir, "folder": str(place.folder), "python": place.python, "seed": str(seed)}

    def fill(text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: values.get(match[1]) or _of_task(public, match[1]), text)

    own = {name: fill(value) for name, value in server.env.items()}
    if server.image is not None:
        argv, afterwards = _container(server.image, [fill(word) for word in server.args], own, scratch)
        return Launch(argv, _engine_env(), scratch.workdir, scratch.mark, server.stop_seconds, afterwards)
    assert server.command is not None
    argv = tuple(fill(word) for word in server.command)
    return Launch(argv, _clean_env(place, scratch) | own, scratch.workdir, scratch.mark, server.stop_seconds)


def _clean_env(place: ProgramPlace, scratch: Scratch) -> dict[str, str]:
    """Environment variables of a foreign program; only PATH and LANG are taken from the hub's own."""
    return {
        **place.variables,
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": str(scratch.home),
        "TMPDIR": str(scratch.temporary),
        MARK: scratch.mark,
    }


def _engine_env() -> dict[str, str]:
    """Variables with which the container engine's client finds its engine; the container gets none of them."""
    wanted = ("PATH", "HOME", "XDG_RUNTIME_DIR")
    return {key: value for key, value in os.environ.items() if key in wanted or key.startswith("DOCKER_")}


def check_engine(image: str) -> str:
    """Path of the container engine's client.

    Raises:
        ConfigError: none is installed.
    """
    if engine := shutil.which("docker"):
        return engine
    raise ConfigError(
        f"server.image = {image!r} needs a container engine, and there is no `docker` on the PATH; "
        "install one, or start the server with `command`"
    )


def _container(
    image: str, args: list[str], env: dict[str, str], scratch: Scratch
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    name = f"rollouthub-{scratch.mark}"
    variables = [word for key, value in {"HOME": "/tmp", **env}.items() for word in ("--env", f"{key}={value}")]
    options = (
        *("--rm", "--interactive", "--init", "--name", name, "--label", "rollouthub.episode=1", "--pull", "never"),
        *("--network", "none", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"),
        *("--memory", "1g", "--pids-limit", "256", "--tmpfs", "/tmp:rw,nosuid,nodev,size=64m"),
        *("--user", f"{os.getuid()}:{os.getgid()}"),
        *("--mount", f"type=bind,source={scratch.workdir},target={CONTAINER_WORKDIR}", "--workdir", CONTAINER_WORKDIR),
        *variables,
    )
    engine = check_engine(image)
    return (engine, "run", *options, image, *args), (engine, "rm", "--force", "--volumes", name)


def _of_task(public: Public, name: str) -> str:
    key = name.partition(".")[2]
    if key == "id":
        return public.id
    if key not in public.metadata:
        known = ", ".join(public.metadata) or "none"
        raise TaskError(
            f"task {public.id!r} has no {key!r} in its metadata for {{{name}}}; it has: {known}", retryable=False
        )
    value: JsonValue = public.metadata[key]
    if isinstance(value, str | int | float):
        return str(value)
    raise TaskError(
        f"task {public.id!r}: metadata {key!r} = {value!r} is no text or number for {{{name}}}", retryable=False
    )
