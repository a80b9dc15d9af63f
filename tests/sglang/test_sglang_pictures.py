"""Pictures on both lanes of a real SGLang whose model sees.

`ROLLOUTHUB_SGLANG_SEEING_URL` names a server of 0.5.23 or later of a model of Qwen2-VL's kind, as `tiny`
(`ROLLOUTHUB_SGLANG_MODEL`). On a CPU its first picture takes longer than a call's time.
"""

import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import anyio
import pytest

from rollouthub import Message, ModelReply, Sampling
from rollouthub.export.segment import sampled_ids, segments
from rollouthub.generation import Model
from rollouthub.messages import Delta, ReplyStream, ToolRequest, assistant, user
from rollouthub.models.config import Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_lane
from rollouthub.models.tokens import open_sglang_engine
from rollouthub.store import open_run
from rollouthub.trainers.pictures.shown_pictures import shown_bytes
from rollouthub.values import Int32s
from tests.cli.conftest import Hub, hub
from tests.models.servers import ask
from tests.sglang.showing import WIDTHS
from tests.trainers.gallery import drawn
from tests.vllm.test_vllm_pictures import FIRST, NOISE, SECOND, shown

__all__ = ["hub"]

pytestmark = pytest.mark.live

EPISODES = 4
NAME = os.environ.get("ROLLOUTHUB_SGLANG_MODEL", "tiny")
NOBODY = Credentials({})
BOTH: tuple[Lane, ...] = ("tokens", "direct")
GREEDY = Sampling(temperature=0.0, max_tokens=12)


@pytest.fixture
def url() -> str:
    """The base URL of an SGLang whose model sees; skipped aloud where there is none."""
    found = os.environ.get("ROLLOUTHUB_SGLANG_SEEING_URL")
    if not found:
        pytest.skip("ROLLOUTHUB_SGLANG_SEEING_URL names no SGLang server whose model takes pictures")
    return found


def config(url: str, lane: Lane) -> ModelConfig:
    return ModelConfig(name=f"sglang/{NAME}", base_url=url, lane=lane)


async def answer(model: Model, *conversation: Message, **more: ReplyStream) -> ModelReply:
    """Its greedy answer."""
    return await model.generate(ask(*conversation, sampling=GREEDY, timeout_seconds=300, **more))


def plain(reply: ModelReply) -> tuple[Int32s | None, Int32s | None, object, str]:
    return reply.prompt_token_ids, reply.output_token_ids, reply.output_logprobs, reply.message.text


async def test_both_lanes_and_a_stream_show_the_model_the_same_pictures(url: str) -> None:
    async def listen(delta: Delta) -> None:
        pass

    call = ToolRequest(id="call_1", name="look", arguments="{}")
    looked = Message(role="tool", content=shown(SECOND).content, tool_call_id=call.id)
    conversations = [
        [shown(FIRST)],
        [shown(FIRST, SECOND), assistant("Red."), shown(FIRST)],
        [user("Look."), Message(role="assistant", content="", tool_requests=(call,)), looked],
    ]
    async with open_lane(config(url, "tokens"), None, NOBODY) as tokens:
        async with open_lane(config(url, "direct"), None, NOBODY) as direct:
            for conversation in conversations:
                sent = plain(await answer(tokens, *conversation))
                assert sent == plain(await answer(direct, *conversation))
                assert sent == plain(await answer(direct, *conversation, stream=ReplyStream(listen)))
        red, noise = await answer(tokens, shown(FIRST)), await answer(tokens, shown(NOISE))
    assert red.prompt_token_ids == noise.prompt_token_ids
    assert red.output_logprobs != noise.output_logprobs, "a picture of the same size is another picture"


async def test_an_engine_of_ids_that_hold_all_tokens_of_a_picture_shows_the_same(url: str) -> None:
    async with open_lane(config(url, "tokens"), None, NOBODY) as model:
        reply = await answer(model, shown(FIRST, SECOND))
    assert reply.prompt_token_ids is not None
    assert reply.output_token_ids is not None
    prompt = reply.prompt_token_ids.tolist()
    mark = max((len(list(run)), token) for token, run in groupby(prompt))[1]
    async with open_sglang_engine(url, mark=mark) as engine:
        with anyio.fail_after(60):
            sampled = await engine.sample(prompt, GREEDY, session="s", media={"a": FIRST, "b": SECOND})
    assert sampled.token_ids == reply.output_token_ids.tolist()


def longest_runs(ids: Sequence[int], count: int) -> list[int]:
    """The lengths of the `count` longest runs of one id, in their order: those of pictures."""
    runs = [len(list(run)) for _, run in groupby(ids)]
    kept = sorted(sorted(range(len(runs)), key=lambda place: -runs[place])[:count])
    return [runs[place] for place in kept]


@pytest.mark.parametrize("lane", BOTH)
def test_a_run_records_the_ids_that_the_model_saw_of_its_pictures(
    hub: Hub, url: str, tmp_path: Path, lane: Lane
) -> None:
    done = hub(
        "run", str(Path(__file__).with_name("showing.py")), "-m", f"sglang/{NAME}", "--base-url", url,
        "--lane", lane, "--limit", str(EPISODES), "-c", "4", "--max-tokens", "12", "--temperature", "0",
        "-o", "run", "--json", timeout=600,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["outcomes"] == {"scored": EPISODES}
    with open_run(tmp_path / "run") as reader:
        rollouts = list(reader.rollouts())
    pictures = [drawn(width) for width in WIDTHS]
    assert {path.read_bytes() for path in (tmp_path / "run").glob("media/*")} == set(pictures)
    for rollout in rollouts:
        assert rollout.trainable, rollout.trainable_reason
        rows = segments(rollout)
        rebuilt = sampled_ids(rows)
        for turn in rollout.turns:
            assert turn.token_source == "engine"
            assert turn.output_token_ids is not None
            assert turn.output_logprobs is not None
            assert 0 < len(turn.output_token_ids) == len(turn.output_logprobs)
            assert rebuilt[turn.index] == turn.output_token_ids
        if lane == "tokens":
            assert len(rows) == 1
        last = rollout.turns[-1]
        assert last.prompt_token_ids is not None
        # 28 by 28 pixels are a token, and each picture is 56 high.
        assert longest_runs(last.prompt_token_ids.tolist(), len(WIDTHS)) == [2 * width // 28 for width in WIDTHS]
        assert shown_bytes(rollout, last.index, tmp_path / "run") == pictures
