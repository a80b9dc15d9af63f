"""Controls SGLang servers while a trainer updates their weights.

The routes are those of SGLang 0.5.23 (`sglang/srt/entrypoints/http_server.py`, their bodies in
`sglang/srt/managers/io_struct.py`). They accept commands from anyone who can reach the port, unless the server has an
`--admin-api-key`: keep it off open networks. A paused server queues new requests until it is resumed.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import JsonValue

from rollouthub.trainers.stream.controlled_servers import ControlledServers
from rollouthub.trainers.stream.generation_control import InFlight

_MODES: Mapping[InFlight, str] = {"finish": "retract", "abort": "abort", "keep": "retract"}
"""`retract` puts running requests back into the queue, to be computed anew with the new weights; `in_place` would go on
with what the old weights computed, and keeps the cache from being flushed. SGLang has no way to wait for answers: with
`finish` the supply has waited for its own calls, and what others ask is retracted.
"""
MemoryTag = Literal["weights", "kv_cache"]


class SglangControl:
    """Controls all replicas of one model together."""

    def __init__(
        self, base_urls: str | Sequence[str], *, api_key: str | None = None, timeout_seconds: float = 120.0
    ) -> None:
        """`base_urls` are the servers' URLs, not their router's; `timeout_seconds` limits each call.

        Raises:
            ConfigError: a URL is invalid.
        """
        hint = "it is no SGLang server, or an old one; a router does not pass this on, so name the servers"
        self._servers = ControlledServers("SGLang", hint, base_urls, api_key, timeout_seconds)

    async def pause(self, in_flight: InFlight) -> None:
        """Stop generating. `abort` ends calls in flight early; their callers retry, and are queued until generation
        resumes.

        Raises:
            SupplyError: a server did not pause.
        """
        await self._servers.send("pause_generation", body={"mode": _MODES[in_flight]})

    async def resume(self) -> None:
        """Generate again.

        Raises:
            SupplyError: a server did not resume.
        """
        await self._servers.send("continue_generation", body={})

    async def updated(self, version: int) -> None:
        """Clear the prefix cache of the old weights, and set the servers' weight version.

        Raises:
            SupplyError: a server refused.
        """
        await self.flush_cache()
        body = {"new_version": str(version), "abort_all_requests": False}
        await self._servers.send("update_weight_version", body=body)

    async def update_weights_from_disk(self, path: str) -> None:
        """Load a checkpoint's weights in place. Every server must be able to read `path`, and lists it as the model's
        name from then on.

        Raises:
            SupplyError: a server refused.
        """
        await self._servers.send("update_weights_from_disk", body={"model_path": path})

    async def transfer(
        self,
        step: Literal[
            "init_weights_update_group",
            "begin_weight_update",
            "update_weights_from_distributed",
            "update_weights_from_tensor",
            "update_weights_from_ipc",
            "end_weight_update",
            "destroy_weights_update_group",
        ],
        body: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Perform one step of SGLang's weight transfer into the servers' memory (NCCL, tensors, IPC).

        Raises:
            SupplyError: a server refused.
        """
        await self._servers.send(step, body=dict(body or {}))

    async def flush_cache(self) -> None:
        """Clear the prefix cache; a server with running requests refuses: pause it first.

        Raises:
            SupplyError: a server refused.
        """
        await self._servers.send("flush_cache", answers_json=False)

    async def release_memory(self, *tags: MemoryTag) -> None:
        """Free the servers' accelerator memory for the trainer: all, or by tag; `--enable-memory-saver` is needed.

        Raises:
            SupplyError: a server refused.
        """
        await self._servers.send("release_memory_occupation", body={"tags": list(tags) or None})

    async def resume_memory(self, *tags: MemoryTag) -> None:
        """Take the accelerator memory back: all, or by tag `weights` first and `kv_cache` later.

        Raises:
            SupplyError: a server refused.
        """
        await self._servers.send("resume_memory_occupation", body={"tags": list(tags) or None})

    async def load_adapter(self, name: str, path: str) -> None:
        """Load a LoRA adapter from a folder that every server can read.

        `/load_lora_adapter` of SGLang 0.5.23 (`LoadLoRAAdapterReqInput`, `sglang/srt/managers/io_struct.py`) needs
        `--enable-lora`, or `--lora-paths` at the start, and no data parallelism in the server.

        Raises:
            SupplyError: a server refused, for example because it has an adapter of this name.
        """
        await self._servers.send("load_lora_adapter", body={"lora_name": name, "lora_path": path})

    async def unload_adapter(self, name: str) -> None:
        """Unload an adapter. SGLang takes no new requests for it, and waits until those in flight are answered
        (`_unload_lora_adapter_locked`, `sglang/srt/managers/tokenizer_control_mixin.py` of 0.5.23).

        Raises:
            SupplyError: a server refused, has no adapter of this name, or was not done in time.
        """
        await self._servers.send("unload_lora_adapter", body={"lora_name": name})

    async def are_healthy(self) -> list[bool]:
        """Whether each server answers `/health` well, for which an idle one generates a token."""
        return await self._servers.are_healthy()

    async def versions(self) -> list[str]:
        """Each server's weight version, as text; `default` if none was set.

        Raises:
            SupplyError: a server did not answer.
        """
        answers = await self._servers.send("model_info", verb="GET")
        return [str(answer.get("weight_version")) if isinstance(answer, dict) else "" for answer in answers]
