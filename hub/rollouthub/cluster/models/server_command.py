"""Builds the command of a model server: its program, arguments and environment."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rollouthub.cluster.models import sglang_line, vllm_line
from rollouthub.cluster.models.model_spec import SERVER_KEY_VARIABLE, ModelSpec
from rollouthub.errors import ConfigError, UsageError
from rollouthub.models.serving_engine import Engine
from rollouthub.plugins.extras import pip_install
from rollouthub.processes import clean_environment

OURS: dict[Engine, Mapping[str, str]] = {"vllm": vllm_line.OURS, "sglang": sglang_line.OURS}
"""Engine → its server arguments that the caller may not pass, with what to do instead."""
TOOLS: dict[Engine, str] = {"vllm": vllm_line.TOOLS, "sglang": sglang_line.TOOLS}
"""Engine → the server argument without which no tools are called."""
_LINES = {"vllm": vllm_line.vllm_line, "sglang": sglang_line.sglang_line}


@dataclass(frozen=True)
class Command:
    """The command line that starts a model server, its environment variables, private files and directory."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    directory: str = os.path.sep
    files: dict[str, str] = field(default_factory=dict[str, str])
    """Path → content of files that hold secrets; they are there while the server runs, for its user alone."""

    def __repr__(self) -> str:
        return f"Command({' '.join(self.argv)})"  # the environment and the files hold the key


def find_program(engine: Engine, given: str | None) -> Path:
    """Path of the server program.

    Raises:
        ConfigError: it was not found.
    """
    if given is not None:
        found = shutil.which(given)
        if found is None:
            raise ConfigError(
                f"{given!r} is no program that can be run; give --command the path of the {engine} executable"
            )
        return Path(found).absolute()
    beside = Path(sys.executable).parent / engine
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(engine)
    if found is None:
        raise ConfigError(
            f"no {engine} is installed: none is beside {sys.executable} or on PATH; "
            f"{_installation(engine)}, or give --command the path of one"
        )
    return Path(found).absolute()


def _installation(engine: Engine) -> str:
    if engine == "vllm":
        return pip_install("vllm")
    return (
        "install it into an environment of its own, because it pins other packages than the hub's (pip install sglang)"
    )


def uses_cpus(engine: Engine, program: Path | None, arguments: Sequence[str]) -> bool:
    """Whether a server computes on CPUs even where there are GPUs."""
    if engine == "sglang":
        return sglang_line.is_on_cpus(arguments)
    return program is not None and vllm_line.is_cpu_build(program)


def check_arguments(engine: Engine, arguments: Sequence[str]) -> None:
    """Refuse server arguments that the hub sets itself.

    Raises:
        UsageError: an argument is refused; the message says what to do instead.
    """
    for argument in arguments:
        name = argument.partition("=")[0].replace("_", "-")
        if name in OURS[engine]:
            raise UsageError(f"{name} cannot be given to the server as it is: {OURS[engine][name]}")


def build_command(
    spec: ModelSpec, host: str, port: int, secrets: Mapping[str, str], environ: Mapping[str, str]
) -> Command:
    """The command of one server; `environ` is the environment of the process that starts it.

    Raises:
        ConfigError: the server program was not found on this node.
    """
    line = _LINES[spec.engine](spec, find_program(spec.engine, spec.command), host, port, secrets)
    clean = {name: value for name, value in clean_environment(environ).items() if not _is_rays(name)}
    others = {name: value for name, value in secrets.items() if name != SERVER_KEY_VARIABLE}
    key = {name: value for name, value in line.variables.items() if name == SERVER_KEY_VARIABLE}
    directory = spec.directory if Path(spec.directory).is_dir() else os.path.sep
    environment = line.variables | clean | dict(spec.variables) | others | key
    return Command((*line.argv, *spec.arguments), environment, directory, line.files)


def _is_rays(name: str) -> bool:
    """Whether a variable of this process must not reach a server: Ray's own, PYTHONPATH and the server key."""
    return name.startswith("RAY_") or name in ("PYTHONPATH", SERVER_KEY_VARIABLE)
