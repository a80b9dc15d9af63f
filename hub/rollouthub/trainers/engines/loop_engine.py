"""`LoopEngine`: calls an engine in the trainer's event loop from the event loop that plays episodes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from rollouthub.errors import ModelError
from rollouthub.generation import Sampling
from rollouthub.models.tokens import Sampled
from rollouthub.trainers.engines.vllm_calls import RequestOutput, SamplingParams, params_of, sampled_of


class LoopEngine:
    """A `TokenEngine` over an engine that belongs to the trainer's event loop."""

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
        """Sample an answer after a prompt of token ids.

        Raises:
            ModelError: the prompt shows pictures or sounds, which this engine cannot be given.
        """
        if media:
            raise ModelError("the engine is handed token ids alone, no pictures or sounds", retryable=False)
        call = self._ask(list(prompt_ids), params_of(self._template, sampling))
        return sampled_of(await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop)))

    async def _ask(self, prompt_ids: list[int], params: Any) -> RequestOutput | None:
        return await self._generate(prompt_ids, params)
