"""Pictures over the tokens lane of a real vLLM whose model sees, started with --enable-scale-out."""

import io
import os
from random import Random

import pytest
from PIL import Image

from rollouthub import Message, Sampling, Text, picture
from rollouthub.generation import Model
from rollouthub.messages import assistant, user
from tests.models.servers import ask
from tests.models.test_media_tokens import drawn
from tests.vllm.test_vllm_tokens import live, plain

pytestmark = pytest.mark.live

FIRST, SECOND = drawn(84, 56), drawn(56, 112, "JPEG")


def noise() -> bytes:
    """A picture of the first one's size, and of other colours."""
    file = io.BytesIO()
    Image.frombytes("RGB", (84, 56), Random(0).randbytes(84 * 56 * 3)).save(file, "PNG")
    return file.getvalue()


NOISE = noise()


@pytest.fixture
def url() -> str:
    """The base URL of a vLLM whose model sees; skipped aloud where there is none."""
    found = os.environ.get("ROLLOUTHUB_VLLM_SEEING_URL")
    if not found:
        pytest.skip("ROLLOUTHUB_VLLM_SEEING_URL names no vLLM server whose model takes pictures")
    return found


def shown(*raws: bytes) -> Message:
    """Pictures between words."""
    return Message(role="user", content=(Text(text="See:"), *map(picture, raws), Text(text="What?")))


async def test_both_lanes_show_the_model_the_same_pictures(url: str) -> None:
    conversations = [[shown(FIRST)], [shown(FIRST, SECOND), assistant("Red."), shown(FIRST)]]
    async with live(url, "tokens") as tokens, live(url, "direct") as direct:
        for conversation in conversations:
            for sampling in (Sampling(temperature=0.0, max_tokens=16), Sampling(seed=3, max_tokens=16)):
                request = ask(*conversation, sampling=sampling, timeout_seconds=60)
                assert plain(await tokens.generate(request)) == plain(await direct.generate(request))
        greedy = Sampling(temperature=0.0, max_tokens=16)
        others = [await tokens.generate(ask(shown(raw), sampling=greedy, timeout_seconds=60)) for raw in (FIRST, NOISE)]
    assert others[0].prompt_token_ids == others[1].prompt_token_ids
    assert others[0].output_logprobs != others[1].output_logprobs, "a picture of the same size is another picture"


async def test_later_pictures_stand_behind_the_ids_that_were_sampled(url: str) -> None:
    """What was sampled differs from what its text encodes to, and the model still sees each picture at its place."""
    async with live(url, "tokens") as model:
        conversation, row = [shown(FIRST)], list[int]()
        for turn in range(3):
            reply = await said(model, conversation, turn)
            assert reply[0][: len(row)] == row
            row = [*reply[0], *reply[1]]
            conversation = [*conversation, reply[2], shown(SECOND) if turn == 0 else user("Go on.")]


async def said(model: Model, conversation: list[Message], seed: int) -> tuple[list[int], list[int], Message]:
    """Prompt ids, sampled ids and message of an answer."""
    sampling = Sampling(temperature=1.5, seed=seed, max_tokens=12)
    reply = await model.generate(ask(*conversation, sampling=sampling, session="s", timeout_seconds=60))
    assert reply.prompt_token_ids is not None
    assert reply.output_token_ids is not None
    return reply.prompt_token_ids.tolist(), reply.output_token_ids.tolist(), reply.message
