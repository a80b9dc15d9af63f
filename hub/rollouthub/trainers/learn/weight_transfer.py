"""Ways of the learner's weights into the engines that generate: a checkpoint on disk, or vLLM's own transfer."""

import shutil
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio.to_thread

from rollouthub.errors import ConfigError
from rollouthub.models.address import normal_base_url
from rollouthub.trainers.learn.learner import Learner
from rollouthub.trainers.stream.generation_control import GenerationControl


class WeightTransfer(Protocol):
    """Brings weights to the engines, which are paused meanwhile."""

    @property
    def control(self) -> GenerationControl | None:
        """What pauses the engines; None if the supply alone holds its calls."""
        ...

    async def send(self, learner: Learner) -> None:
        """Bring the learner's present weights to all engines."""
        ...


class NoTransfer:
    """For an engine around the learner's own model, such as `serve_policy`: nothing has to be sent."""

    control: GenerationControl | None = None

    async def send(self, learner: Learner) -> None:
        """Do nothing."""


class CheckpointTransfer:
    """Writes the weights to a folder that every engine can read, and has them loaded.

    control = VllmControl(urls)  # or SglangControl(urls)
    CheckpointTransfer("/shared/weights", control.reload_weights, control)  # or control.update_weights_from_disk
    """

    def __init__(
        self, folder: Path | str, load: Callable[[str], Awaitable[object]], control: GenerationControl | None = None
    ) -> None:
        """`load` has the engines load the folder that it is given."""
        self.control = control
        self._folder, self._load = Path(folder).absolute(), load
        self._before: Path | None = None

    async def send(self, learner: Learner) -> None:
        """Write the weights of this version, and keep the version before, which an engine may still read."""
        target = self._folder / f"version-{learner.version:06d}"
        await anyio.to_thread.run_sync(learner.save_weights, target)
        await self._load(str(target))
        for other in self._folder.glob("version-*"):
            if other not in (target, self._before):  # later ones, too: a run that was taken up again counts anew
                await anyio.to_thread.run_sync(shutil.rmtree, other)
        self._before = target


class VllmTransfer:
    """Sends the weights into one vLLM server's memory by vLLM's own transfer, over NCCL or, on the same GPU, CUDA IPC.

    The server needs `VLLM_SERVER_DEV_MODE=1` and `--weight-transfer-config '{"backend":"nccl"}'` (or `"ipc"`, with
    `VLLM_ALLOW_INSECURE_SERIALIZATION=1`), and this interpreter vLLM. Read in vLLM 0.32:
    `vllm/distributed/weight_transfer/{factory,clients,nccl_engine,ipc_engine}.py`.
    """

    def __init__(
        self,
        base_url: str,
        control: GenerationControl,
        *,
        backend: Literal["nccl", "ipc"] = "nccl",
        workers: int = 1,
        master_address: str = "127.0.0.1",
        master_port: int = 29_600,
    ) -> None:
        """`workers` counts the server's GPUs; its workers meet the learner at the master's address (NCCL).

        Raises:
            ConfigError: the URL is invalid, or the backend unknown.
        """
        if backend not in ("nccl", "ipc"):
            raise ConfigError(f"backend {backend!r} is neither nccl nor ipc")
        self.control = control
        self._root = normal_base_url(base_url).removesuffix("/v1")
        self._backend, self._workers = backend, workers
        self._master = (master_address, master_port)
        self._engine: Any = None

    async def send(self, learner: Learner) -> None:
        """Send all weights; the first time, meet the server's workers before.

        Raises:
            ConfigError: the learner is sharded, or learns an adapter: take a `CheckpointTransfer`.
        """
        if learner.ranks.count > 1 or learner.is_lora:
            kind = "an adapter's" if learner.is_lora else "a sharded learner's"
            raise ConfigError(f"vLLM's own transfer cannot send {kind} weights: take a CheckpointTransfer")
        await anyio.to_thread.run_sync(self._send, learner)

    def _send(self, learner: Learner) -> None:
        if self._engine is None:
            self._engine = self._opened(learner)
        self._engine.send_weights()

    def _opened(self, learner: Learner) -> Any:
        name = "vllm.distributed.weight_transfer"
        factory: Any = import_module(f"{name}.factory").WeightTransferTrainerFactory
        client: Any = import_module(f"{name}.clients").HTTPVLLMWeightSyncClient(self._root)
        source: Any = import_module(f"{name}.base").ModuleSource(learner.model)
        if self._backend == "ipc":
            begin: Any = import_module(f"{name}.ipc_engine").IPCTrainerInitInfo(rank=0)
        else:
            address, port = self._master
            begin = import_module(f"{name}.nccl_engine").NCCLTrainerInitInfo(
                rank=0, master_address=address, master_port=port, world_size=1 + self._workers
            )
        return factory.trainer_init(begin, client=client, source=source)
