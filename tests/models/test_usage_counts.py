"""Counts and costs that a server's usage gives and that are none: no figure of a record, and no way around a limit."""

from typing import Any

import pytest
from aiohttp import web

from rollouthub import ModelError
from rollouthub.generation import ModelReply
from rollouthub.models.config import Api, Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.prices import Price
from rollouthub.models.resolve import open_lane
from tests.models.openai_calls import streamed
from tests.models.servers import ask, serving

KEYS = Credentials({"OPENAI_API_KEY": "hush-hush-hush"})
NONE = {
    "negative": "-1",
    "a fraction": "1.5",
    "a boolean": "true",
    "words": '"7"',
    "a list": "[7]",
    "more than there are": "2147483648",
    "a thousand trillion trillion": "1" + "0" * 30,
    "no number": "NaN",
    "infinite": "1e999",
}
LITELLMS = {"a boolean": "1", "words": "7"}
"""What litellm's library takes for the counts that they resemble, before the hub sees them."""
LANES: dict[str, tuple[Lane, Api | None, bool]] = {
    "direct": ("direct", None, False),
    "direct, streamed": ("direct", None, True),
    "litellm": ("litellm", None, False),
    "chat": ("openai", "chat", False),
    "chat, streamed": ("openai", "chat", True),
    "responses": ("openai", "responses", False),
    "responses, streamed": ("openai", "responses", True),
}
every_lane = pytest.mark.parametrize("lane", list(LANES))
# As in test_parity: litellm serialises garbage through pydantic.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")


async def answered(lane: str, usage: str, **config: Any) -> ModelReply:
    """The reply of a lane to an answer with this usage, as the chat API names its fields."""
    name, api, is_streamed = LANES[lane]

    async def chat(request: web.Request) -> web.StreamResponse:
        said = '"choices": [{"index": 0, "finish_reason": "stop", "%s": {"role": "assistant", "content": "hi"}}]'
        if is_streamed:
            text = f'data: {{{said % "delta"}, "usage": {usage}}}\n\ndata: [DONE]\n\n'
            return web.Response(text=text, content_type="text/event-stream")
        return web.Response(text=f'{{{said % "message"}, "usage": {usage}}}', content_type="application/json")

    async def responses(request: web.Request) -> web.StreamResponse:
        counts = usage.replace("prompt_tokens", "input_tokens").replace("completion_tokens", "output_tokens")
        item = '{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}'
        whole = f'{{"object": "response", "status": "completed", "output": [{item}], "usage": {counts}}}'
        if is_streamed:
            text = f'data: {{"type": "response.completed", "response": {whole}}}\n\n'
            return web.Response(text=text, content_type="text/event-stream")
        return web.Response(text=whole, content_type="application/json")

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_post("/v1/responses", responses)
    model_config = ModelConfig(name="openai/served", lane=name, api=api, max_tries=1, **config)
    async with serving(app) as url, open_lane(model_config, url, KEYS) as model:
        return (await streamed(model))[0] if is_streamed else await model.generate(ask())


FIELDS = {
    "prompt": '{"prompt_tokens": %s, "completion_tokens": 2}',
    "output": '{"prompt_tokens": 2, "completion_tokens": %s}',
    "cached": '{"prompt_tokens": 2, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": %s}}',
    "reasoning": '{"prompt_tokens": 2, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": %s}}',
}


@every_lane
@pytest.mark.parametrize("count", list(NONE))
@pytest.mark.parametrize("field", list(FIELDS))
async def test_an_answer_with_a_count_that_is_none_is_no_answer(lane: str, count: str, field: str) -> None:
    usage = FIELDS[field] % NONE[count]
    if lane == "litellm" and (resembles := LITELLMS.get(count)) is not None:
        assert (await answered(lane, usage)).usage == (await answered(lane, FIELDS[field] % resembles)).usage
        return
    with pytest.raises(ModelError) as caught:
        await answered(lane, usage)
    assert (caught.value.status, caught.value.retryable) == (200, True)


@every_lane
@pytest.mark.parametrize("cost", ["-1", "-0.001", "1e308", "1e30", "1e999", "NaN", "true", '"1"'])
async def test_a_cost_that_is_none_is_not_recorded(lane: str, cost: str) -> None:
    with pytest.raises(ModelError) as caught:
        await answered(lane, f'{{"prompt_tokens": 2, "completion_tokens": 2, "cost": {cost}}}')
    assert (caught.value.status, caught.value.retryable) == (200, True)


@every_lane
async def test_more_cached_tokens_than_the_prompt_has_cost_no_less_than_nothing(lane: str) -> None:
    """Cached tokens are cheaper: a prompt of less than none would make the others free."""
    reply = await answered(lane, FIELDS["cached"] % "2147483647", price_prompt=1e6, price_output=1e6)
    assert (reply.usage.prompt_tokens, reply.usage.cached_tokens) == (2, 2)
    assert reply.cost == 4.0


def test_cached_tokens_beyond_the_prompt_take_nothing_off_its_price() -> None:
    price = Price(10.0, 40.0, 1.0)
    assert price.cost(10, 10, 2**31 - 1) == price.cost(10, 10, 10) > 0
