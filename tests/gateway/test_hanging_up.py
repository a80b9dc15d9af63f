"""Agents outside that hang up before the end of an answer: charged, recorded, and stopped like those that do not."""

from typing import Any

import anyio
import pytest

from rollouthub import Limits, ModelReply, Outcome, Rollout, Stop
from rollouthub.generation import ModelRequest
from rollouthub.messages import Delta, assistant
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.protocols import SeatAddress
from rollouthub.rollout import BROKEN_OFF, Usage
from tests.gateway.outside import GatewayHarness, harness

WORDS = 200
LIMITS = Limits(max_cost=0.1)
"""Of which each answer costs 0.03."""


def priced() -> MockModel:
    """Says so many words, for 0.03 dollars."""
    text = " ".join(["word"] * WORDS)
    return MockModel(ModelConfig(name=f"mock/say?text={text}", price_prompt=0.0, price_output=30.0))


def body_of(path: str, number: int) -> dict[str, Any]:
    said = [{"role": "user", "content": f"call {number}"}]
    if path == "responses":
        return {"model": "m", "input": said, "stream": True}
    return {"model": "m", "messages": said, "stream": True, **({"max_tokens": 4096} if path == "messages" else {})}


async def ask(made: GatewayHarness, address: SeatAddress, path: str, *, reads_all: bool) -> int:
    """Call after call until one is refused; how many were answered. The end of a stream is read, or not."""
    for number in range(15):
        async with made.http.post(f"{address.llm_url}/{path}", json=body_of(path, number)) as response:
            if response.status != 200:
                return number
            seen = b""
            async for chunk in response.content.iter_any():
                seen += chunk
                if not reads_all and seen.count(b"word") >= WORDS:
                    response.close()
                    break
    return 15


@pytest.mark.parametrize("path", ["chat/completions", "responses", "messages"])
@pytest.mark.parametrize("reads_all", [True, False], ids=["reads_all", "hangs_up"])
async def test_who_hangs_up_after_the_last_word_is_stopped_by_the_cost_limit_all_the_same(
    path: str, reads_all: bool
) -> None:
    answered: list[int] = []
    async with harness() as made:

        async def play(address: SeatAddress) -> None:
            answered.append(await ask(made, address, path, reads_all=reads_all))

        rollout = await made.play(play, model=priced(), limits=LIMITS)
    assert (answered, rollout.stop) == ([4], Stop.COST_LIMIT)
    assert [turn.cost for turn in rollout.turns] == [pytest.approx(0.03)] * 4  # pyright: ignore[reportUnknownMemberType]
    assert all(turn.response.text.count("word") == WORDS for turn in rollout.turns)


class Slow:
    """A model that waits before its first word, or after its third for ever; priced."""

    name = "test/slow"

    def __init__(self, *, ends: bool) -> None:
        self.asked = anyio.Event()
        self._ends = ends

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """A dollar each."""
        return float(prompt_tokens + output_tokens)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer when it may."""
        self.asked.set()
        if self._ends:
            with anyio.move_on_after(0.3):
                await anyio.sleep_forever()  # meanwhile the hub learns that who asked is gone
            return ModelReply(assistant("whole"), "stop", Usage(output_tokens=10), 10.0)
        assert request.stream is not None
        for word in ("some ", "thing ", "long"):
            await request.stream.write(Delta(text=word))
        await anyio.sleep_forever()
        raise AssertionError


async def hang_up(model: Slow, made: GatewayHarness, *, at: bytes | None, stream: bool) -> Rollout:
    """Ask once, and go: before the first byte, or when this was read. Then ask until a limit."""

    async def play(address: SeatAddress) -> None:
        body = {"model": "m", "messages": [{"role": "user", "content": "x" * 40}], "stream": stream}

        async def post() -> None:
            async with made.http.post(f"{address.llm_url}/chat/completions", json=body) as response:
                async for chunk in response.content.iter_any():
                    if at is not None and at in chunk:
                        response.close()
                        over.set()
                        return

        over = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(post)
            await (model.asked.wait() if at is None else over.wait())
            tasks.cancel_scope.cancel()
        status, answer = await made.chat(address, "again")
        assert (status, answer["error"]["code"]) == (403, "cost_limit")

    return await made.play(play, model=model, limits=Limits(max_cost=10.0))


@pytest.mark.parametrize("stream", [True, False])
async def test_who_hangs_up_before_the_first_byte_pays_for_what_the_model_said(stream: bool) -> None:
    async with harness() as made:
        rollout = await hang_up(Slow(ends=True), made, at=None, stream=stream)
    assert (rollout.outcome, rollout.stop) == (Outcome.SCORED, Stop.COST_LIMIT)
    assert "model_calls" in rollout.gaps
    (turn,) = rollout.turns
    assert (turn.response.text, turn.cost, turn.usage.output_tokens) == ("whole", 10.0, 10)


async def test_what_does_not_end_is_broken_off_and_charged_by_estimate() -> None:
    async with harness() as made:
        rollout = await hang_up(Slow(ends=False), made, at=b"long", stream=True)
    assert (rollout.stop, rollout.gaps) == (Stop.COST_LIMIT, ("model_calls",))
    (turn,) = rollout.turns
    assert (turn.response.text, turn.finish_reason, turn.cost) == ("some thing long", BROKEN_OFF, 13.0)
    assert (turn.usage.prompt_tokens, turn.usage.output_tokens) == (10, 3)
