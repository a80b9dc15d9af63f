"""`LoraAdapters`: a policy whose versions are LoRA adapters, which inference servers load while they generate."""

import uuid
from contextlib import suppress
from typing import Protocol, runtime_checkable

import anyio

from rollouthub.errors import ConfigError, SupplyError
from rollouthub.trainers.stream.generation_control import InFlight


class AdapterControl(Protocol):
    """Loads adapters into inference servers; `VllmControl` and `SglangControl` do."""

    async def load_adapter(self, name: str, path: str) -> None:
        """Load an adapter from a folder that every server can read.

        Raises:
            SupplyError: a server refused.
        """
        ...

    async def unload_adapter(self, name: str) -> None:
        """Unload an adapter.

        Raises:
            SupplyError: a server refused, or was not done in time.
        """
        ...


@runtime_checkable
class AdapterServing(Protocol):
    """A control whose policy is answered by an adapter."""

    @property
    def adapter(self) -> str:
        """The adapter of the newest version; empty for the model itself."""
        ...


def check_adapters(control: object, pool: str) -> None:
    """Check that a supply's calls can ask for the adapter of its control.

    Raises:
        ConfigError: they are made by workers elsewhere.
    """
    if isinstance(control, AdapterServing) and pool == "ray":
        raise ConfigError(
            "the workers of pool = 'ray' would go on asking for the model without its adapter; leave the pool out"
        )


class LoraAdapters:
    """A `GenerationControl` for which each policy version is an adapter with a name of its own.

        adapters = LoraAdapters(VllmControl(urls))
        async with stream_rollouts(model="hosted_vllm/NAME", base_url=urls, control=adapters, …) as supply:
            await supply.publish_weights(update=partial(adapters.load, "/adapters/step-7"), in_flight="keep")

    New calls ask for the newest adapter. Calls in flight end with the adapter they began with, so servers need not
    pause, and no cache has to be cleared: both engines keep the prefixes of each adapter apart (vLLM 0.32 by name and
    path, `_gen_lora_extra_hash_keys` in vllm/v1/core/kv_cache_utils.py; SGLang 0.5.23 by the id of each loading, `Req`
    in sglang/srt/managers/schedule_batch.py).
    """

    def __init__(self, control: AdapterControl, *, kept: int = 4) -> None:
        """`kept` adapters are loaded at most; the oldest is unloaded before another is loaded.

        Raises:
            ConfigError: fewer than two are kept, so that calls in flight would lose theirs.
        """
        if kept < 2:
            raise ConfigError(
                f"kept={kept}: at least 2 adapters must be loaded, the newest and that of calls in flight"
            )
        self._control, self._kept = control, kept
        self._run, self._count = uuid.uuid4().hex[:8], 0
        self._loaded: list[str] = []
        self._adapter = ""

    @property
    def adapter(self) -> str:
        """The adapter of the newest version; empty for the model itself, until one was published."""
        return self._adapter

    async def load(self, path: str) -> None:
        """Load an adapter from a folder that every server can read, as the `update` of `publish_weights`.

        Raises:
            SupplyError: a server refused, or the oldest adapter could not be unloaded; no version changes.
        """
        while len(self._loaded) >= self._kept:
            await self._control.unload_adapter(self._loaded[0])
            del self._loaded[0]
        self._count += 1
        name = f"policy-{self._run}-{self._count}"
        try:
            await self._control.load_adapter(name, path)
        except BaseException:
            # Some of the servers may have it, and must not keep it.
            with anyio.CancelScope(shield=True), suppress(SupplyError):
                await self._control.unload_adapter(name)
            raise
        self._loaded.append(name)

    async def start(self, path: str) -> None:
        """Load the adapter that plays from the beginning, before a supply is opened.

        Raises:
            SupplyError: as `load`.
        """
        await self.load(path)
        await self.updated(0)

    async def pause(self, in_flight: InFlight) -> None:
        """Leave the servers as they are: nothing that they compute changes."""

    async def resume(self) -> None:
        """Leave the servers as they are."""

    async def updated(self, version: int) -> None:
        """Ask for the adapter that was loaded last from now on.

        Raises:
            SupplyError: none was loaded.
        """
        if not self._loaded:
            raise SupplyError(
                f"version {version} is to be published, and no adapter was loaded: give "
                "publish_weights(update=partial(adapters.load, PATH))"
            )
        self._adapter = self._loaded[-1]
