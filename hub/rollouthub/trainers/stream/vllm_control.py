"""Controls vLLM servers while a trainer updates their weights.

The routes are those of vLLM 0.32 under `VLLM_SERVER_DEV_MODE=1` (`vllm/entrypoints/rl/online/api_router.py` and
`vllm/entrypoints/serve/dev/`). They accept commands from anyone who can reach the port, so keep it off open networks. A
paused server queues new requests until it is resumed.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from rollouthub.errors import SupplyError
from rollouthub.trainers.stream.controlled_servers import ControlledServers
from rollouthub.trainers.stream.generation_control import InFlight

_MODES: Mapping[InFlight, str] = {"finish": "wait", "abort": "abort", "keep": "keep"}
_NO_LORA = "start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"


class VllmControl:
    """Controls all replicas of one model together."""

    def __init__(
        self, base_urls: str | Sequence[str], *, api_key: str | None = None, timeout_seconds: float = 120.0
    ) -> None:
        """`base_urls` are URLs in the form that a run takes; `timeout_seconds` limits each call, including the waiting
        of a pause.

        Raises:
            ConfigError: a URL is invalid.
        """
        hint = "start vLLM with VLLM_SERVER_DEV_MODE=1"
        self._servers = ControlledServers("vLLM", hint, base_urls, api_key, timeout_seconds)

    # --- what a supply asks -----------------------------------------------------------------------------------------

    async def pause(self, in_flight: InFlight) -> None:
        """Stop generating. `abort` ends calls in flight early; their callers retry, and are queued until generation
        resumes.

        Raises:
            SupplyError: a server did not pause.
        """
        await self._servers.send("pause", {"mode": _MODES[in_flight]})

    async def resume(self) -> None:
        """Generate again.

        Raises:
            SupplyError: a server did not resume.
        """
        await self._servers.send("resume")

    async def updated(self, version: int) -> None:
        """Clear the prefix cache of the old weights, and set the servers' weight version.

        Raises:
            SupplyError: a server refused.
        """
        await self.reset_prefix_cache()
        await self._servers.send("update_weight_version", body={"new_version": str(version)})

    # --- ways to bring weights in, for `update` -----------------------------------------------------------------------

    async def reload_weights(self, path: str | None = None) -> None:
        """Load a checkpoint's weights in place; by default those of the checkpoint the server started with. Every
        server must be able to read `path`.

        Raises:
            SupplyError: a server refused.
        """
        await self.call_workers("reload_weights", kwargs={} if path is None else {"weights_path": path})

    async def call_workers(
        self, method: str, *, args: Sequence[str] = (), kwargs: Mapping[str, str] | None = None
    ) -> list[JsonValue]:
        """Call a method of every worker (vLLM's `collective_rpc`), such as one of a worker extension. Returns each
        server's answer.

        Raises:
            SupplyError: a server refused.
        """
        body = {"method": method, "args": list(args), "kwargs": dict(kwargs or {})}
        return await self._servers.send("collective_rpc", body=body)

    async def transfer(
        self,
        step: Literal["init_weight_transfer_engine", "start_weight_update", "update_weights", "finish_weight_update"],
        body: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Perform one step of vLLM's weight transfer into the servers' memory (NCCL, IPC).

        Raises:
            SupplyError: a server refused.
        """
        await self._servers.send(step, body=dict(body or {}))

    async def sleep(self, level: Literal[0, 1, 2] = 1) -> None:
        """Free the servers' accelerator memory for the trainer; vLLM must run with `--enable-sleep-mode`.

        Raises:
            SupplyError: a server refused.
        """
        await self._servers.send("sleep", {"level": str(level), "mode": "wait"})

    async def wake_up(self, *tags: str) -> None:
        """Take the accelerator memory back: all, or by tag `weights` first and `kv_cache` later.

        Raises:
            SupplyError: a server refused.
        """
        await self._servers.send("wake_up", [("tags", tag) for tag in tags])

    async def reset_prefix_cache(self) -> None:
        """Clear the prefix cache; running requests recompute their prefixes.

        Raises:
            SupplyError: a server refused.
        """
        answers = await self._servers.send("reset_prefix_cache", {"reset_running_requests": "true"})
        if refused := [
            root for root, answer in zip(self._servers.roots, answers, strict=True) if answer != {"success": True}
        ]:
            raise SupplyError(f"vLLM at {', '.join(refused)} did not forget its prefixes; pause it first")

    # --- LoRA adapters ----------------------------------------------------------------------------------------------

    async def load_adapter(self, name: str, path: str) -> None:
        """Load a LoRA adapter from a folder that every server can read; it is then served as a model of this name.

        `/v1/load_lora_adapter` of vLLM 0.32 (`vllm/entrypoints/serve/lora/api_router.py`) needs `--enable-lora` and
        VLLM_ALLOW_RUNTIME_LORA_UPDATING=1.

        Raises:
            SupplyError: a server refused, for example because it has an adapter of this name.
        """
        body = {"lora_name": name, "lora_path": path}
        await self._servers.send("v1/load_lora_adapter", body=body, answers_json=False, missing=_NO_LORA)

    async def unload_adapter(self, name: str) -> None:
        """Serve an adapter no longer; requests in flight end with it.

        Raises:
            SupplyError: a server refused, or has no adapter of this name.
        """
        await self._servers.send(
            "v1/unload_lora_adapter", body={"lora_name": name}, answers_json=False, missing=_NO_LORA
        )

    # --- states -----------------------------------------------------------------------------------------------------

    async def are_healthy(self) -> list[bool]:
        """Whether each server answers `/health` well."""
        return await self._servers.are_healthy()

    async def are_paused(self) -> list[bool]:
        """Whether each server is paused.

        Raises:
            SupplyError: a server did not answer.
        """
        answers = await self._servers.send("is_paused", verb="GET")
        return [isinstance(answer, dict) and answer.get("is_paused") is True for answer in answers]

    async def versions(self) -> list[str]:
        """Each server's weight version, as text; `default` if none was set.

        Raises:
            SupplyError: a server did not answer.
        """
        answers = await self._servers.send("weight_info", verb="GET")
        return [str(answer.get("weight_version")) if isinstance(answer, dict) else "" for answer in answers]
