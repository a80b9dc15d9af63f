"""`LoopEngine`: an engine that a trainer hands out in its own event loop, asked from the one that episodes run in."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from rollouthub.errors import ModelError
from rollouthub.models.tokens import Sampled
from rollouthub.protocols import Sampling
from rollouthub.trainers.engines.vllm_calls import RequestOutput, SamplingParams, params_of, sampled_of


class LoopEngine:
    """An engine that lives in the trainer's event loop, asked from ours."""

    def __init__(
        self,
        generate: Callable[[list[int], Any], Awaitable[RequestOutput | None]],
        template: SamplingParams,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._generate, self._template, self._loop = generate, template, loop

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample after a prompt.

        Raises:
            ModelError: the prompt shows pictures or sounds, for which this way has no place.
        """
        if media:
            raise ModelError("the engine is handed token ids alone, no pictures or sounds", retryable=False)
        call = self._ask(list(prompt_ids), params_of(self._template, sampling))
        return sampled_of(await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop)))

    async def _ask(self, prompt_ids: list[int], params: Any) -> RequestOutput | None:
        return await self._generate(prompt_ids, params)
