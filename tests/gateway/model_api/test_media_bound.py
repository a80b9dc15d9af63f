"""What a model call may cost the hub, whatever an agent sends with it."""

import base64
import json
import tracemalloc

import anyio
import pytest

from rollouthub import Limits, ModelReply
from rollouthub.gateway.model_api import model_api
from rollouthub.gateway.model_api.dialects import dialect_of, make_ready
from rollouthub.generation import ModelRequest
from rollouthub.http.exchange import open_pool
from rollouthub.messages import assistant
from rollouthub.protocols import SeatAddress
from tests.gateway.outside import harness

PATHS = ("chat/completions", "responses", "messages")
CALLS, PICTURE_BYTES = 6, 2 * 2**20


async def test_media_of_an_episode_are_bounded_even_past_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_api, "MOST_MEDIA_BYTES", 2000)
    async with harness(["hello"]) as made:
        statuses: list[int] = []

        async def play(address: SeatAddress) -> None:
            for number in (0, 1, 2, 1):
                picture = base64.b64encode(bytes([number]) * 900).decode()
                shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
                status, _ = await made.chat(address, [{"role": "user", "content": [shown]}])
                statuses.append(status)

        await made.play(play, limits=Limits(max_turns=1))
    assert statuses == [200, 403, 413, 403]


class Thinking:
    """A model that answers when all have asked."""

    name = "test/thinking"

    def __init__(self) -> None:
        self.asked = 0
        self.has_all, self.may_answer = anyio.Event(), anyio.Event()

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Wait."""
        self.asked += 1
        if self.asked == CALLS:
            self.has_all.set()
        await self.may_answer.wait()
        return ModelReply(message=assistant("dark"), finish_reason="stop")


def body_of(path: str, number: int) -> bytes:
    """A request that shows a large picture."""
    data = base64.b64encode(bytes([number]) * PICTURE_BYTES).decode()
    url = f"data:image/png;base64,{data}"
    if path == "responses":
        part = {"type": "input_image", "detail": "auto", "image_url": url}
        return json.dumps({"model": "any", "input": [{"role": "user", "content": [part]}], "store": False}).encode()
    if path == "messages":
        part = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    else:
        part = {"type": "image_url", "image_url": {"url": url}}
    return json.dumps({"model": "any", "messages": [{"role": "user", "content": [part]}], "max_tokens": 9}).encode()


@pytest.mark.parametrize("path", PATHS)
async def test_while_a_model_thinks_nothing_but_the_pictures_stays_of_the_requests(path: str) -> None:
    model, bodies = Thinking(), [body_of(path, number) for number in range(CALLS)]
    held: list[int] = []

    async def play(address: SeatAddress) -> None:
        async def ask(body: bytes) -> None:
            answer = await pool.exchange("POST", f"{address.llm_url}/{path}", body, seconds=30)
            assert answer.status == 200, answer.words

        async with anyio.create_task_group() as agents:
            for body in bodies:
                agents.start_soon(ask, body)
            await model.has_all.wait()
            held.append(tracemalloc.get_traced_memory()[0])
            model.may_answer.set()

    await make_ready(path)
    dialect = dialect_of(path)
    assert dialect is not None
    dialect.read(body_of(path, 0))  # what that loads is no request's
    async with harness() as made, open_pool() as pool:
        tracemalloc.start()
        try:
            await made.play(play, model=model)
        finally:
            tracemalloc.stop()
    assert held[0] < 1.5 * CALLS * PICTURE_BYTES
