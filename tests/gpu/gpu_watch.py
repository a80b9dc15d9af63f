"""What nvidia-smi says of this machine's GPU: its name and memory once, and its load while something is measured."""

import shutil
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.streams.text import TextReceiveStream

PROGRAM = "nvidia-smi"
EVERY_MS = 200
_LOOK_SECONDS = 20
_END_SECONDS = 5.0


@dataclass(frozen=True)
class GpuFacts:
    """The first GPU of this machine."""

    name: str
    driver: str
    memory_gb: float


@dataclass
class GpuLoad:
    """Samples of a period; without any, there is no GPU that answers."""

    shares: list[float] = field(default_factory=list[float])
    """Percent of the time in which a kernel ran, as the driver tells it."""

    @property
    def mean(self) -> float | None:
        """Percent; None without a sample."""
        return sum(self.shares) / len(self.shares) if self.shares else None


def gpu_facts() -> GpuFacts | None:
    """The GPU's name, driver and memory; None if none answers."""
    fields = _ask("name,driver_version,memory.total")
    if fields is None or len(fields) != 3 or not _is_number(fields[2]):
        return None
    return GpuFacts(fields[0], fields[1], float(fields[2]) / 1024)


def used_gb() -> float | None:
    """Memory in use on the GPU, in GB (2^30 bytes); None if none answers."""
    fields = _ask("memory.used")
    return None if fields is None or not _is_number(fields[0]) else float(fields[0]) / 1024


@asynccontextmanager
async def gpu_load() -> AsyncGenerator[GpuLoad]:
    """Sample the GPU's load while the block runs."""
    load = GpuLoad()
    if shutil.which(PROGRAM) is None:
        yield load
        return
    command = [
        PROGRAM,
        "--id=0",
        "--query-gpu=utilization.gpu",
        "--format=csv,noheader,nounits",
        f"--loop-ms={EVERY_MS}",
    ]
    async with await anyio.open_process(command, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, TextReceiveStream(process.stdout), load)
            try:
                yield load
            finally:
                if process.returncode is None:
                    process.terminate()  # what it said until then is read to its end
                tasks.cancel_scope.deadline = anyio.current_time() + _END_SECONDS


async def _read(lines: TextReceiveStream, load: GpuLoad) -> None:
    rest = ""
    async for text in lines:
        *whole, rest = (rest + text).split("\n")
        load.shares += [float(line) for line in map(str.strip, whole) if _is_number(line)]


def _ask(fields: str) -> list[str] | None:
    if shutil.which(PROGRAM) is None:
        return None
    command = [PROGRAM, "--id=0", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LOOK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return [field.strip() for field in lines[0].split(",")] if done.returncode == 0 and lines else None


def _is_number(text: str) -> bool:
    return text.strip().replace(".", "", 1).isdigit()
