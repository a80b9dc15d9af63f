"""Answers of an endpoint with millions of values that no model wrote: refused in time that grows with their bytes."""

import json

import pytest
from aiohttp import web

from rollouthub import Message, ModelError, picture
from rollouthub.generation import Sampling
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_lane
from rollouthub.models.tokens import open_sglang_engine
from tests.engine.picture_world import png
from tests.local_server import serving
from tests.loop_holds import SECONDS, SIZE, shortest_hold
from tests.models.listening import Listener, streamed
from tests.models.servers import ask, direct, raw_server
from tests.models.tokens.chatml import ChatMl, odd_ids
from tests.models.tokens.vllm_routes import VllmRoutes, sampled

HELD = 4 * SECONDS
WORDS = [*odd_ids("go", 3), ChatMl().end]
KEYS = Credentials({"HOSTED_VLLM_API_KEY": "k" * 8, "SGLANG_API_KEY": "k" * 8})


def many(value: str) -> str:
    """A list of this value, of four mebibytes."""
    return f"[{f'{value},' * (SIZE // (len(value) + 1) - 1)}{value}]"


MESSAGES, NAMES, PLACES = many('{"message":{}}'), many('""'), many('{"offset":0,"length":0}')
WHOLE = {
    "choices": f'{{"choices": {many("{}")}}}',
    "choices with a message": f'{{"choices": {MESSAGES}}}',
    "an id": f'{{"choices": [{{"message": {{}}}}], "id": {many("0")}}}',
    "ids of the prompt": f'{{"choices": [{{"message": {{}}}}], "prompt_token_ids": {many("0")}}}',
    "ids of the answer": f'{{"choices": [{{"message": {{}}, "token_ids": {many("0")}}}]}}',
    "lists of ids": f'{{"choices": [{{"message": {{}}}}], "sglext": {{"output_ids": {many("[]")}}}}}',
    "versions": f'{{"choices": [{{"message": {{}}}}], "metadata": {{"weight_versions": {many("{}")}}}}}',
}


def http(body: str, kind: str = "application/json") -> bytes:
    """An answer with this body."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return (head + body).encode()


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", list(WHOLE))
async def test_an_answer_of_millions_of_values_is_refused_at_once(name: str, is_stream: bool) -> None:
    body = WHOLE[name]
    if is_stream:
        body = body.replace('"message"', '"delta"')
    said = http(f"data: {body}\n\ndata: [DONE]\n\n", "text/event-stream") if is_stream else http(body)
    async with raw_server(said) as url, direct(url, max_tries=1) as model:

        async def play(longest: list[float]) -> None:
            with pytest.raises(ModelError) as caught:
                await model.generate(streamed(ask(), Listener()) if is_stream else ask())
            assert caught.value.status == 200

        assert await shortest_hold(play) < HELD


async def test_ids_that_come_in_many_chunks_are_counted_together() -> None:
    ids = ",".join(["0"] * 500_000)
    chunk = f'data: {{"choices": [{{"index": 0, "delta": {{"content": "a"}}, "token_ids": [{ids}]}}]}}\n\n'
    said = http(chunk * 5 + "data: [DONE]\n\n", "text/event-stream")
    async with raw_server(said) as url, direct(url, max_tries=1) as model:
        with pytest.raises(ModelError, match="2,000,000 token ids"):
            await model.generate(streamed(ask(), Listener()))


class Answers(VllmRoutes):
    """vLLM's routes, one of which answers otherwise."""

    rendered = ""

    async def _render(self, request: web.Request) -> web.Response:
        if self.rendered:
            return web.Response(text=self.rendered, content_type="application/json")
        return await super()._render(request)


GENERATED = {
    "choices": f'{{"choices": {many("{}")}}}',
    "ids": f'{{"choices": [{{"token_ids": {many("0")}}}]}}',
    "versions": f'{{"choices": [{{"token_ids": [1], "weight_versions": {many("{}")}}}]}}',
}
RENDERED = {
    "ids": f'{{"token_ids": {many("0")}, "sampling_params": {{}}}}',
    "names of pictures": f'{{"token_ids": [1], "features": {{"mm_hashes": {{"image": {NAMES}}}, '
    '"mm_placeholders": {}}, "sampling_params": {}}',
    "places of pictures": f'{{"token_ids": [1], "features": {{"mm_hashes": {{}}, "mm_placeholders": '
    f'{{"image": {PLACES}}}}}, "sampling_params": {{}}}}',
    "inputs of pictures": f'{{"token_ids": [1], "features": {{"mm_hashes": {{}}, "mm_placeholders": {{}}, '
    f'"kwargs_data": {{"image": {many("0")}}}}}, "sampling_params": {{}}}}',
}
PARAMETERS = {
    "values": f'{{"token_ids": [1], "sampling_params": {{"stop_token_ids": {many("0")}}}}}',
    "depth": f'{{"token_ids": [1], "sampling_params": {{"a": {"[" * 100_000}{"]" * 100_000}}}}}',
}


async def refused(routes: VllmRoutes, *messages: Message) -> None:
    """A call of vLLM's lane of token ids, which fails without holding up the loop."""
    async with routes.serve() as url:
        config = ModelConfig(name="hosted_vllm/served", base_url=url, lane="tokens", max_tries=1)
        async with open_lane(config, None, KEYS) as model:

            async def play(longest: list[float]) -> None:
                with pytest.raises(ModelError) as caught:
                    await model.generate(ask(*messages))
                assert caught.value.status == 200

            assert await shortest_hold(play) < HELD


@pytest.mark.parametrize("name", list(GENERATED))
async def test_what_vllm_samples(name: str) -> None:
    await refused(VllmRoutes(*(web.Response(text=GENERATED[name]) for _ in range(9))))


@pytest.mark.parametrize("name", list(RENDERED))
async def test_what_vllm_renders(name: str) -> None:
    routes = Answers(sampled(WORDS))
    routes.rendered = RENDERED[name]
    await refused(routes, Message(role="user", content=(picture(png(1)),)))


@pytest.mark.parametrize("name", list(PARAMETERS))
async def test_the_parameters_that_vllm_converts(name: str) -> None:
    routes = Answers(sampled(WORDS))
    routes.rendered = PARAMETERS[name]
    await refused(routes)


SAMPLED = {
    "lists": f'{{"meta_info": {{"finish_reason": {{"type": "stop"}}, "output_token_logprobs": {many("[]")[:-1]},'
    f"{many('[]')[1:-1]}]}}}}",
    "numbers": f'{{"prompt_token_ids": {",".join(["[0"] + ["0"] * 9_000_000)}], "meta_info": {{}}}}',
}


@pytest.mark.parametrize("name", list(SAMPLED))
async def test_what_sglang_samples(name: str) -> None:
    async def generate(request: web.Request) -> web.Response:
        return web.Response(text=SAMPLED[name], content_type="application/json")

    app = web.Application()
    app.router.add_post("/generate", generate)
    async with serving(app) as url, open_sglang_engine(url) as engine:
        with pytest.raises(ModelError, match="2,000,000 token ids"):
            await engine.sample([1], Sampling(), session="", media={})


async def test_a_finish_reason_and_an_id_without_an_end_are_not_recorded() -> None:
    said = {"id": "i" * 10**6, "choices": [{"message": {"content": "hi"}, "finish_reason": "f" * 10**6}]}
    async with raw_server(http(json.dumps(said))) as url, direct(url) as model:
        reply = await model.generate(ask())
    assert (reply.message.text, reply.finish_reason, reply.response_id) == ("hi", "f" * 64, None)
