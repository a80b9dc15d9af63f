"""Lanes of the tests: models in this process that answer, fail or hang as they are told."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from rollouthub import Message, ModelError, ModelReply, ModelRequest
from rollouthub.errors import UsageError
from rollouthub.generation import Model
from rollouthub.messages import user
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.retry import Backoff
from rollouthub.models.router import CircuitBreakerSettings, Router, open_router
from rollouthub.rollout import Usage
from rollouthub.values import Float32s, Int32s

Answer = Callable[[ModelRequest], Awaitable[ModelReply]]

STEADY = Backoff(base_seconds=1.0, jitter=lambda: 1.0)
"""Waits of 1, 2, 4 … seconds."""
PRICED: dict[str, Any] = {"price_prompt": 0.0, "price_output": 1e6}
"""A dollar per output token."""


class Lane:
    """A server of a model; what it does may be changed at any time."""

    def __init__(self, name: str = "m", answer: Answer | None = None) -> None:
        self.name = name
        self.answer = answer or says(name)
        self.begun: list[float] = []
        self.sessions: list[str] = []
        self.timeouts: list[float] = []
        self.checks = 0
        self.problem: UsageError | None = None

    async def generate(self, request: ModelRequest) -> ModelReply:
        self.begun.append(anyio.current_time())
        self.sessions.append(request.session)
        self.timeouts.append(request.timeout_seconds)
        return await self.answer(request)

    async def check(self, timeout_seconds: float) -> None:
        self.checks += 1
        if self.problem is not None:
            raise self.problem


def says(text: str, usage: Usage | None = None, cost: float | None = None, seconds: float = 0.0) -> Answer:
    """An answer, with token ids, after a while."""

    async def answer(request: ModelRequest) -> ModelReply:
        if seconds:
            await anyio.sleep(seconds)
        return ModelReply(
            Message(role="assistant", content=text),
            usage=usage or Usage(prompt_tokens=10, output_tokens=5),
            cost=cost,
            prompt_token_ids=Int32s([1]),
            output_token_ids=Int32s([2]),
            output_logprobs=Float32s([-1.0]),
            policy_version=3,
        )

    return answer


def fails(status: int | None = 500, *, retryable: bool = True, after: float | None = None) -> Answer:
    """A failure at once."""

    async def answer(request: ModelRequest) -> ModelReply:
        raise ModelError(f"HTTP {status}", status=status, retryable=retryable, retry_after_seconds=after)

    return answer


async def hangs(request: ModelRequest) -> ModelReply:
    """No answer in the call's time."""
    await anyio.sleep(request.timeout_seconds)
    raise ModelError("no answer in time")


def question(session: str = "", *, timeout_seconds: float = 600.0, text: str = "What?", **more: Any) -> ModelRequest:
    """A short request."""
    return ModelRequest([user(text)], timeout_seconds=timeout_seconds, session=session, **more)


def url(number: int) -> str:
    return f"http://10.0.0.{number + 1}/v1"


@asynccontextmanager
async def routed(*lanes: Lane, breaker: CircuitBreakerSettings | None = None, **config: Any) -> AsyncGenerator[Router]:
    """A router over these lanes, by the clock of the event loop; fallbacks take `Lane`s by the name of their model."""
    stand_ins: dict[str, Lane] = config.pop("stand_ins", {})

    @asynccontextmanager
    async def open_lane(config: ModelConfig, base_url: str | None, _: Credentials) -> AsyncGenerator[Model]:
        assert config.max_tries == 1
        yield stand_ins[config.name] if base_url is None else lanes[int(base_url.split(".")[3].split("/")[0]) - 1]

    first, *others = [url(number) for number in range(len(lanes))]
    whole = ModelConfig(name="hosted_vllm/m", base_url=first, replicas=tuple(others), **config)
    async with open_router(
        whole, Credentials(), open_lane, backoff=STEADY, breaker=breaker, now=anyio.current_time
    ) as router:
        yield router


async def answers(router: Router, count: int, **asked: Any) -> list[str]:
    """What so many calls in a row are answered."""
    return [(await router.generate(question(**asked))).message.text for _ in range(count)]
