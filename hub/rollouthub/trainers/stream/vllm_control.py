"""Steering vLLM servers while a trainer exchanges their weights.

The routes are those of vLLM 0.32 under `VLLM_SERVER_DEV_MODE=1` (`vllm/entrypoints/rl/online/api_router.py` and
`vllm/entrypoints/serve/dev/`); they take whoever reaches the port for its master, so keep it off open networks. A
paused server keeps new requests in its queue until it is resumed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import aiohttp
import anyio
from pydantic import JsonValue

from rollouthub.errors import SupplyError
from rollouthub.models.address import normal_base_url
from rollouthub.trainers.stream.generation_control import InFlight

_MODES: Mapping[InFlight, str] = {"finish": "wait", "abort": "abort", "keep": "keep"}
_NOT_FOUND = 404


class VllmControl:
    """Every replica of one model, told the same."""

    def __init__(
        self, base_urls: str | Sequence[str], *, api_key: str | None = None, timeout_seconds: float = 120.0
    ) -> None:
        """`base_urls` as a run takes them; `timeout_seconds` bounds each call, the waiting of a pause included.

        Raises:
            ConfigError: one is no URL.
        """
        given = (base_urls,) if isinstance(base_urls, str) else tuple(base_urls)
        self._roots = tuple(normal_base_url(url).removesuffix("/v1") for url in given)
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._timeout_seconds = timeout_seconds

    # --- what a supply asks -----------------------------------------------------------------------------------------

    async def pause(self, in_flight: InFlight) -> None:
        """Generate nothing more. `abort` ends what is in flight early; whoever asked tries again, and waits in line.

        Raises:
            SupplyError: a server did not.
        """
        await self._tell_all("pause", {"mode": _MODES[in_flight]})

    async def resume(self) -> None:
        """Go on.

        Raises:
            SupplyError: a server did not.
        """
        await self._tell_all("resume")

    async def updated(self, version: int) -> None:
        """Forget what the old weights computed for prefixes, and tell the servers their new version.

        Raises:
            SupplyError: a server did not.
        """
        await self.reset_prefix_cache()
        await self._tell_all("update_weight_version", body={"new_version": str(version)})

    # --- ways to bring weights in, for `update` -----------------------------------------------------------------------

    async def reload_weights(self, path: str | None = None) -> None:
        """Load the weights of a checkpoint, which every server can read, in place; by default the one it started with.

        Raises:
            SupplyError: a server did not.
        """
        await self.call_workers("reload_weights", kwargs={} if path is None else {"weights_path": path})

    async def call_workers(
        self, method: str, *, args: Sequence[str] = (), kwargs: Mapping[str, str] | None = None
    ) -> list[JsonValue]:
        """Call a method of every worker (vLLM's `collective_rpc`), such as one of a worker extension; what each server
        answers.

        Raises:
            SupplyError: a server did not.
        """
        body = {"method": method, "args": list(args), "kwargs": dict(kwargs or {})}
        return await self._tell_all("collective_rpc", body=body)

    async def transfer(
        self,
        step: Literal["init_weight_transfer_engine", "start_weight_update", "update_weights", "finish_weight_update"],
        body: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """One step of a transfer straight into the servers' memory (NCCL, IPC), as vLLM's weight transfer has them.

        Raises:
            SupplyError: a server did not.
        """
        await self._tell_all(step, body=dict(body or {}))

    async def sleep(self, level: Literal[0, 1, 2] = 1) -> None:
        """Give the accelerator's memory to the trainer; the server needs `--enable-sleep-mode`.

        Raises:
            SupplyError: a server did not.
        """
        await self._tell_all("sleep", {"level": str(level), "mode": "wait"})

    async def wake_up(self, *tags: str) -> None:
        """Take it back: all of it, or `weights` first and `kv_cache` later.

        Raises:
            SupplyError: a server did not.
        """
        await self._tell_all("wake_up", [("tags", tag) for tag in tags])

    async def reset_prefix_cache(self) -> None:
        """Forget what was computed for prefixes; that of running requests is computed anew.

        Raises:
            SupplyError: a server did not.
        """
        answers = await self._tell_all("reset_prefix_cache", {"reset_running_requests": "true"})
        if refused := [root for root, answer in zip(self._roots, answers, strict=True) if answer != {"success": True}]:
            raise SupplyError(f"vLLM at {', '.join(refused)} did not forget its prefixes; pause it first")

    async def are_paused(self) -> list[bool]:
        """Whether each server is.

        Raises:
            SupplyError: a server did not say.
        """
        answers = await self._tell_all("is_paused", verb="GET")
        return [isinstance(answer, dict) and answer.get("is_paused") is True for answer in answers]

    async def versions(self) -> list[str]:
        """Each server's own word for the version of its weights; `default` before any was told.

        Raises:
            SupplyError: a server did not say.
        """
        answers = await self._tell_all("weight_info", verb="GET")
        return [str(answer.get("weight_version")) if isinstance(answer, dict) else "" for answer in answers]

    # --- the wire -----------------------------------------------------------------------------------------------------

    async def _tell_all(
        self,
        route: str,
        query: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        *,
        body: Mapping[str, Any] | None = None,
        verb: str = "POST",
    ) -> list[JsonValue]:
        """Tell every server at once; the first problem is raised when all have answered."""
        answers: list[JsonValue] = [None] * len(self._roots)
        problems: list[str] = []

        async def tell(session: aiohttp.ClientSession, place: int, root: str) -> None:
            try:
                async with session.request(verb, f"{root}/{route}", params=query or None, json=body) as response:
                    text = await response.text()
                    if response.status == _NOT_FOUND:
                        problems.append(f"{root} has no /{route}: start vLLM with VLLM_SERVER_DEV_MODE=1")
                    elif not response.ok:
                        problems.append(f"{root}/{route} answered {response.status}: {' '.join(text.split())[:300]}")
                    elif text:
                        answers[place] = await response.json()
            except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                problems.append(f"{root}/{route}: {type(error).__name__} {error}".strip())

        timeout = aiohttp.ClientTimeout(total=self._timeout_seconds)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=self._headers) as session,
            anyio.create_task_group() as calls,
        ):
            for place, root in enumerate(self._roots):
                calls.start_soon(tell, session, place, root)
        if problems:
            raise SupplyError(f"could not steer vLLM: {'; '.join(problems)}")
        return answers
