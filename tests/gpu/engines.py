"""The servers that parts ask: vLLM with one model at a time, or the hub's stand-in for an engine."""

import json
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import aiohttp
import anyio
from anyio.abc import Process

from rollouthub.cluster.models.model_spec import ModelSpec
from rollouthub.cluster.models.server_command import build_command, find_program
from rollouthub.cluster.models.vllm_line import is_cpu_build
from rollouthub.errors import ConfigError
from rollouthub.processes import PYTHON
from tests.gpu.programs import ROOT, last_words, running
from tests.gpu.rows import PartError
from tests.ports import free_port

EngineName = Literal["vllm", "policy"]
"""`policy` is `python -m rollouthub.trainers.policy`: a small stand-in with vLLM's routes for new weights."""
START_SECONDS = 600.0
_POLL_SECONDS = 0.5
_GPU_ARGUMENTS = (
    *("--dtype", "bfloat16", "--gpu-memory-utilization", "0.45"),  # the trainer is on the same GPU
    *("--max-num-seqs", "1024", "--enable-sleep-mode"),
)
_CPU_ARGUMENTS = ("--max-num-seqs", "256")
_ARGUMENTS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
_VARIABLES = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_INSECURE_SERIALIZATION": "1", "VLLM_CPU_KVCACHE_SPACE": "2"}


@dataclass(frozen=True)
class Served:
    """A model that a server has now."""

    name: str
    folder: Path
    url: str
    """The base URL, with `/v1`."""
    start_seconds: float


class Engines:
    """Serves one model at a time, and starts a server only where another model is asked for, or the last one died."""

    def __init__(self, engine: EngineName, program: str | None, *, is_cpu: bool, logs: Path) -> None:
        """`program` is the vllm executable, or the Python beside it; by default the one beside this interpreter, or on
        PATH.

        Raises:
            ConfigError: it is not there, or not a build for CPUs where one is asked for.
        """
        self.engine, self.is_cpu = engine, is_cpu
        self.program = _vllm(program, is_cpu=is_cpu) if engine == "vllm" else None
        self._logs = logs
        self._stack = AsyncExitStack()
        self._served: Served | None = None
        self.starts: list[Served] = []
        """Every server that was started."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end()

    @property
    def has_ipc(self) -> bool:
        """Whether weights can go through vLLM's own transfer, which needs a GPU, and vLLM in this interpreter."""
        return self.engine == "vllm" and not self.is_cpu and find_spec("vllm") is not None

    async def end(self) -> None:
        """End the server that runs, if any."""
        self._served = None
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    async def serve(self, name: str, folder: Path, *, context: int, arguments: tuple[str, ...] = ()) -> Served:
        """A server with the model in a folder, under this name; the one that runs where it has it.

        Raises:
            PartError: the server did not start.
        """
        served = self._served
        if served is not None and (served.name, served.folder) == (name, folder) and await _is_healthy(served.url):
            return served
        await self.end()
        began = anyio.current_time()
        port, log = free_port(), self._logs / f"server-{name}.log"
        url = f"http://127.0.0.1:{port}/v1"
        command, environment = self._command(name, folder, port, context, arguments)
        said = self._stack.enter_context(log.open("ab"))
        process = await self._stack.enter_async_context(
            running(command, said, stdout=said, environment=environment, directory=ROOT)
        )
        with anyio.move_on_after(START_SECONDS):
            await _come_up(process, url)
        if not await _is_healthy(url):
            await self.end()
            raise PartError(f"the server of {name} did not come up: {last_words(log)}")
        self._served = Served(name, folder, url, anyio.current_time() - began)
        self.starts.append(self._served)
        return self._served

    def _command(
        self, name: str, folder: Path, port: int, context: int, arguments: tuple[str, ...]
    ) -> tuple[list[str], Mapping[str, str]]:
        if self.program is None:
            served = ("--name", name, "--port", str(port))
            return [*PYTHON, "-m", "rollouthub.trainers.policy", str(folder), *served], dict(os.environ)
        given = (*_ARGUMENTS, *(_CPU_ARGUMENTS if self.is_cpu else _GPU_ARGUMENTS), "--max-model-len", str(context))
        if self.has_ipc:
            given = (*given, "--weight-transfer-config", json.dumps({"backend": "ipc"}))
        spec = ModelSpec(
            name=name,
            source=str(folder.absolute()),
            command=str(self.program),
            arguments=(*given, *arguments),
            variables=_VARIABLES,
            folder=str(self._logs),
            cluster="",
        )
        made = build_command(spec, "127.0.0.1", port, {}, os.environ)
        return list(made.argv), made.environment


def _vllm(program: str | None, *, is_cpu: bool) -> Path:
    if program is not None and Path(program).name.startswith("python"):
        program = str(Path(program).parent / "vllm")
    found = find_program("vllm", program)
    if is_cpu and not is_cpu_build(found):
        raise ConfigError(f"{found} is no build for CPUs, which --cpu needs; name another with --vllm")
    if not is_cpu and is_cpu_build(found):
        raise ConfigError(f"{found} is a build for CPUs; give --cpu, or name another with --vllm")
    return found


async def _come_up(process: Process, url: str) -> None:
    """Wait until a server answers, or its process has ended."""
    while process.returncode is None:
        if await _is_healthy(url):
            return
        await anyio.sleep(_POLL_SECONDS)


async def _is_healthy(url: str) -> bool:
    limit = aiohttp.ClientTimeout(total=10)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.get(f"{url}/models") as response,
        ):
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False
