"""What one process of a run says of itself."""

import os
import shutil
import subprocess
import sys
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from rollouthub import SandboxedConfig, SandboxError, SandboxSpec
from rollouthub.errors import ConfigError
from rollouthub.generation import ModelRequest
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.episode_sandboxes import CountedSandboxes
from rollouthub.hosting.open_host import open_in_process
from rollouthub.messages import user
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_model
from rollouthub.sandbox import Sandbox
from rollouthub.sandbox import Snapshot as Files
from rollouthub.telemetry.metrics.gpu import Gpus
from rollouthub.telemetry.metrics.loop_lag import PERIOD_SECONDS, LoopLag
from rollouthub.telemetry.metrics.machine_usage import usage
from rollouthub.telemetry.metrics.network import network_bytes
from rollouthub.telemetry.metrics.process_figures import SandboxLoad, decode, encode
from rollouthub.telemetry.metrics.process_snapshot import take_snapshot
from tests.hosting.local.test_episode_sandbox import Yard, break_sandboxes
from tests.hosting.local.worlds import World
from tests.models.servers import mock_server
from tests.telemetry.collectors import until


async def test_a_models_servers_are_shown_without_what_is_secret_in_their_addresses() -> None:
    async with (
        mock_server() as base,
        open_model(ModelConfig(name="hosted_vllm/served", base_url=base), Credentials()) as model,
    ):
        await model.generate(ModelRequest((user("1 + 1"),)))
        taken = decode(encode(take_snapshot("worker-1", models={"policy": model})))
    (backend,), (load,) = taken.backends, taken.models
    assert (backend.place, backend.calls, backend.errors, backend.is_up) == (base, 1, 0, True)
    assert (load.waiting, load.in_flight, load.limit > 0) == (0, 0, True)


async def test_sandboxes_are_counted_whoever_makes_them() -> None:
    async with open_in_process("yard", Yard, SandboxedConfig(sandbox="process")) as host:
        assert isinstance(host, InProcessHost)
        provider = host.sandboxes
        assert provider is not None
        async with provider.open(SandboxSpec()):
            (held,) = take_snapshot("hub", hosts=[host]).sandboxes
        with suppress(SandboxError):
            async with provider.open(SandboxSpec()) as sandbox:
                break_sandboxes()
                await sandbox.exec("true")
        with pytest.raises(ConfigError):
            async with provider.open(SandboxSpec(image="missing")):
                pass
        (after,) = take_snapshot("hub", hosts=[host]).sandboxes
    assert held == SandboxLoad("yard", "process", live=1, opened=1, failed=0, died=0)
    assert after == SandboxLoad("yard", "process", live=0, opened=2, failed=1, died=1)


@dataclass
class Pool:
    """What a warm pool says of itself."""

    warm: int = 4
    making: int = 2
    ending: int = 1


class Pooled:
    """A provider with a pool, which opens nothing here."""

    name = "pooled"
    statistics = Pool()

    async def prepare(self, spec: SandboxSpec) -> None:
        """Nothing to prepare."""

    def open(self, spec: SandboxSpec, *, snapshot: Files | None = None) -> AbstractAsyncContextManager[Sandbox]:
        """Not here."""
        raise NotImplementedError


def test_a_provider_with_a_pool_says_what_is_in_it() -> None:
    host = InProcessHost("world", World, sandboxes=CountedSandboxes(Pooled()))
    (load,) = take_snapshot("hub", hosts=[host]).sandboxes
    assert (load.warm, load.starting, load.ending) == (4, 2, 1)


def test_a_process_knows_what_it_uses(tmp_path: Path) -> None:
    before = usage()
    with (tmp_path / "file").open("wb") as file:
        file.write(bytes(2**20))
    after = usage()
    assert after.cpu_seconds >= before.cpu_seconds > 0
    assert after.resident_bytes > 2**20
    assert (after.written_bytes or 2**20) >= (before.written_bytes or 0)


async def test_a_loop_that_is_held_up_is_seen_to_be_late() -> None:
    lag = LoopLag()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lag.watch)
        await until(lambda: lag.histogram.count)
        seen, end = lag.histogram.count, anyio.current_time() + 2.5 * PERIOD_SECONDS
        while anyio.current_time() < end:
            pass  # hold it up
        await until(lambda: lag.histogram.count > seen)
        tasks.cancel_scope.cancel()
    assert lag.histogram.total >= PERIOD_SECONDS


def test_without_a_graphics_processor_there_is_nothing_to_say(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    gpus = Gpus("no_such_library", tmp_path / "no driver")
    assert (len(gpus), gpus.look(), take_snapshot("hub", gpus=gpus.look()).gpus) == (0, [], [])
    assert not caplog.messages


def test_a_driver_without_the_package_is_a_warning_that_says_what_to_install(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(Gpus("no_such_library", tmp_path)) == 0
    [said] = caplog.messages
    assert "GPUs are not measured" in said
    assert "[gpu]" in said


def test_the_package_is_found_by_its_own_name(tmp_path: Path) -> None:
    """NVIDIA's package is not here: a module of its name has its functions, as `nvml.py` writes them down."""
    shutil.copy(Path(__file__).with_name("nvml.py"), tmp_path / "pynvml.py")
    code = "from rollouthub.telemetry.metrics.gpu import Gpus; print([gpu.name for gpu in Gpus().look()])"
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, timeout=60)
    assert done.stdout == "['H100']\n", done.stderr


NETWORK = """\
Inter-|   Receive                                                |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 1000000 1 0 0 0 0 0 0 1000000 1 0 0 0 0 0 0
  eth0: 100 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0
  eth1:20 1 0 0 0 0 0 0 3 1 0 0 0 0 0 0
docker0: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0
"""


def test_network_cards_are_counted_and_in_a_container_its_own_link(tmp_path: Path) -> None:
    counts, devices = tmp_path / "dev", tmp_path / "net"
    counts.write_text(NETWORK)
    assert network_bytes(counts, devices) == (220, 110)
    for card in ("eth0", "eth1"):
        (devices / card / "device").mkdir(parents=True)
    assert network_bytes(counts, devices) == (120, 10)
    assert network_bytes(tmp_path / "elsewhere", devices) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_a_snapshot_has_what_this_machines_network_carried() -> None:
    taken = take_snapshot("hub")
    assert (taken.received_bytes, taken.sent_bytes) != (None, None)


def test_a_graphics_processor_is_asked_through_its_library() -> None:
    gpus = Gpus("tests.telemetry.nvml")
    first, *others = gpus.look()
    assert len(gpus) == 2
    assert others == []  # the second does not answer
    assert (first.name, first.used_share, first.memory_used_bytes, first.memory_bytes) == ("H100", 0.25, 10, 100)
