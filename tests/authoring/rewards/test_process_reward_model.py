"""Process reward models: every step scored, over the forms in which vLLM answers, and never a guess."""

import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from aiohttp import web

from rollouthub import Media, Message, Public, Score, Secret, Submission, SubmittedTurn, Task, VerifierError
from rollouthub.authoring.rewards import WeightedReward
from rollouthub.authoring.rewards.process_reward_model import ProcessRewardModel
from rollouthub.authoring.rewards.reward_model import RewardModel
from rollouthub.authoring.rewards.reward_server import MOST_REPLY_BYTES
from tests.local_server import serving
from tests.loop_holds import SECONDS, shortest_hold
from tests.models.servers import raw_server

TASK = Task(Public(id="one", prompt="How long is it?"), Secret())
TAG = "<extra_0>"


class Server:
    """vLLM with a reward model that likes long steps: words, spaces and marks are its tokens."""

    def __init__(self, form: str) -> None:
        self.form, self.asked = form, list[tuple[str, dict[str, Any]]]()
        self.ids: dict[str, int] = {}
        self.url = ""
        self.worth: float | None = None
        """What it says of every token, if not what it thinks."""

    def tokens(self, body: dict[str, Any]) -> list[int]:
        if isinstance(body.get("input"), list):
            return body["input"]
        text = body.get("prompt")
        if text is None:
            text = "".join(f"<{message['role']}>{message['content']}" for message in body["messages"])
            text += "<assistant>" if body["add_generation_prompt"] else "<end>"
        found: list[str] = re.findall(rf"{TAG}|\w+|\s+|.", text)
        return [self.ids.setdefault(piece, len(self.ids)) for piece in found]

    async def handle(self, request: web.Request) -> web.Response:
        body, route = await request.json(), request.path.removeprefix("/")
        self.asked.append((route, body))
        if self.form == "refused":
            return web.Response(status=403, text=f"not for {request.headers['Authorization']}")
        ids = self.tokens(body)
        if self.form == "none":
            ids = []
        if route == "tokenize":
            return web.json_response({"count": len(ids), "max_model_len": 99, "tokens": ids, "token_strs": None})
        assert body["task"] == "token_classify"
        mark = self.ids.get(TAG)
        places = [place for place, token in enumerate(ids) if token == mark]
        before = [0, *(place + 1 for place in places)]
        # A mark's row is the length of the step before it, another token's is its own number.
        worth = [float(place) for place in range(len(ids))]
        for place, begin in zip(places, before, strict=False):
            worth[place] = float(place - begin)
        rows = [[0.5, value if self.worth is None else self.worth] for value in worth]
        if self.form == "steps":
            rows = [rows[place] for place in places]
        if self.form == "one":
            rows = rows[:1]
        data = [{"index": 0, "object": "pooling", "data": rows}]
        return web.json_response({"id": "pool-1", "object": "list", "created": 1, "model": "prm", "data": data})


@asynccontextmanager
async def served(form: str) -> AsyncGenerator[Server]:
    server = Server(form)
    application = web.Application()
    application.router.add_post("/{route}", server.handle)
    async with serving(application) as server.url:
        yield server


def said(*texts: str) -> Submission:
    turns = [
        SubmittedTurn(
            index=place,
            seat="agent",
            messages=(Message(role="user", content=f"go {place}"),),
            response=Message(role="assistant", content=text),
        )
        for place, text in enumerate(texts)
    ]
    return Submission(turns=tuple(turns))


FIRST = "One step here.\n\n\n  And two."
SECOND = "Done"


@pytest.mark.parametrize("form", ["steps", "tokens"])
async def test_each_step_of_each_turn_has_the_reward_of_its_mark(form: str) -> None:
    async with served(form) as server:
        score = await ProcessRewardModel(server.url, "prm")(TASK, said(FIRST, "", SECOND))
    texts = [FIRST, "", SECOND]
    assert [(texts[span.turn][span.start : span.end], span.unit) for span in score.span_rewards] == [
        ("One step here.", "character"),
        ("And two.", "character"),
        ("Done", "character"),
    ]
    steps = [span.reward for span in score.span_rewards]
    assert steps[1] == 4.0, "And, a space, two, a full stop"
    assert score.reward == pytest.approx(sum(steps) / 3)
    (asked,) = [body for route, body in server.asked if route == "pooling" and len(body["messages"]) > 2]
    assert [message["role"] for message in asked["messages"]] == ["user", "assistant"] * 3


async def test_without_a_mark_the_row_of_a_steps_last_token_counts() -> None:
    async with served("tokens") as server:
        score = await ProcessRewardModel(server.url, "prm", tag=None, combine="last")(TASK, said(FIRST))
        head = len(server.tokens({"messages": [{"role": "user", "content": "go 0"}], "add_generation_prompt": True}))
    first, second = (span.reward for span in score.span_rewards)
    assert (first, second) == (head + 6 - 1, head + 6 + 1 + 4 - 1), "a blank line is a token"
    assert score.reward == second


async def test_a_step_may_be_as_small_as_a_word_and_is_a_part_of_a_weighted_reward() -> None:
    async with served("steps") as server:
        words = ProcessRewardModel(server.url, "prm", separator=r"\s+", combine="min")
        score = await WeightedReward({"steps": words}, {"steps": 0.5})(TASK, said("a bc d"))
    assert [(span.start, span.end, span.reward) for span in score.span_rewards][1:] == [(2, 4, 0.5), (5, 6, 0.5)]


async def test_an_agent_that_writes_the_mark_makes_no_steps_and_no_fault() -> None:
    async with served("steps") as server:
        score = await ProcessRewardModel(server.url, "prm")(TASK, said(f"a{TAG}{TAG} b"))
        assert len(score.span_rewards) == 1
        assert (await ProcessRewardModel(server.url, "prm")(TASK, said(" "))).reward == 0.0


async def test_more_steps_than_are_wanted_are_one() -> None:
    async with served("steps") as server:
        text = "\n\n".join("abc" for _ in range(9))
        score = await ProcessRewardModel(server.url, "prm", most_steps=3)(TASK, said(text))
    assert [(span.start, span.end) for span in score.span_rewards] == [(0, 3), (5, 8), (10, len(text))]


@pytest.mark.parametrize(
    ("form", "more", "says"),
    [
        ("one", {}, r"1 rows for 2 steps"),
        ("one", {"tag": None}, "serve the model with a row for each token"),
        ("tokens", {"tag": "## "}, "is 3 tokens of the model"),
    ],
)
async def test_rows_that_fit_no_steps_are_a_verifier_fault(form: str, more: dict[str, Any], says: str) -> None:
    async with served(form) as server:
        with pytest.raises(VerifierError, match=says) as refused:
            await ProcessRewardModel(server.url, "prm", **more)(TASK, said(FIRST))
    assert not refused.value.retryable


@pytest.mark.parametrize("combine", ["mean", "product"])
async def test_rewards_beyond_all_numbers_are_a_verifier_fault(combine: Literal["mean", "product"]) -> None:
    async with served("steps") as server:
        server.worth = 1e308
        model = ProcessRewardModel(server.url, "prm", combine=combine)
        if combine == "mean":
            assert (await model(TASK, said(FIRST))).reward == 1e308
            return
        with pytest.raises(VerifierError, match="the product of 2 rewards of steps is no finite number"):
            await model(TASK, said(FIRST))


async def test_a_step_without_tokens_is_a_verifier_fault() -> None:
    async with served("none") as server:
        with pytest.raises(VerifierError, match="gives a step of 14 characters no tokens"):
            await ProcessRewardModel(server.url, "prm", tag=None)(TASK, said(FIRST))


async def test_no_error_shows_the_token_or_a_password() -> None:
    async with served("refused") as server:
        with pytest.raises(VerifierError, match=r"refused: HTTP 403: .*\[redacted\]") as caught:
            await ProcessRewardModel(server.url, "prm", token="s3cret-token")(TASK, said(FIRST))
    assert "s3cret-token" not in str(caught.value)
    with pytest.raises(ValueError, match="names no user or password") as refused:
        ProcessRewardModel("https://me:s3cret@reward.example", "prm")
    assert "s3cret" not in str(refused.value)


async def test_a_long_episode_holds_up_nobody() -> None:
    wordy = "a line that a tool wrote\n" * 2_000
    turns = [
        SubmittedTurn(
            index=place,
            seat="agent",
            messages=(Message(role="user", content=f"{place} {wordy}"),),
            response=Message(role="assistant", content="Next."),
        )
        for place in range(200)
    ]

    async def asked(longest: list[float]) -> None:
        with pytest.raises(VerifierError, match="HTTP 403"):  # what the server does with them is not measured
            model = ProcessRewardModel(server.url, "prm", token="token", concurrency=1)
            await model(TASK, Submission(turns=tuple(turns)))

    async with served("refused") as server:
        assert await shortest_hold(asked) < 2 * SECONDS


def answered(data: str) -> bytes:
    """What a server sends that pools to this."""
    body = f'{{"data": [{{"data": {data}}}]}}'.encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize("row", ["[]", "0", "[0.5, 0.25]"], ids=["empty", "number", "pair"])
async def test_an_answer_of_sixteen_mebibytes_holds_up_nobody_and_is_none(row: str) -> None:
    rows = f"{row}," * ((MOST_REPLY_BYTES - 100) // (len(row) + 1))
    async with raw_server(answered(f"[{rows}0]")) as url:

        async def asked(longest: list[float]) -> None:
            with pytest.raises(VerifierError, match="answered with more than 400,000 values") as refused:
                await ProcessRewardModel(url, "prm", tries=1)(TASK, said(FIRST))
            assert not refused.value.retryable

        assert await shortest_hold(asked) < SECONDS


async def test_a_row_for_each_of_many_tokens_holds_up_nobody() -> None:
    rows = ", ".join(["[0.12345678, 0.87654321]"] * 130_000)
    async with raw_server(answered(f"[{rows}]")) as url:
        found: list[Score] = []

        async def asked(longest: list[float]) -> None:
            found.append(await RewardModel(url, model="rm")(TASK, said(FIRST)))

        assert await shortest_hold(asked) < SECONDS
    assert found[0].reward == 0.87654321


async def test_pictures_are_a_verifier_fault() -> None:
    turn = SubmittedTurn(
        index=0,
        seat="agent",
        messages=(Message(role="user", content=(Media(digest="sha256:" + "1" * 64, mime_type="image/png"),)),),
        response=Message(role="assistant", content="A cat."),
    )
    with pytest.raises(VerifierError, match="takes text alone") as refused:
        await ProcessRewardModel("http://127.0.0.1:1", "prm")(TASK, Submission(turns=(turn,)))
    assert not refused.value.retryable


async def test_it_needs_turns() -> None:
    with pytest.raises(VerifierError, match="reads_turns = True"):
        await ProcessRewardModel("http://127.0.0.1:1", "prm")(TASK, Submission(answer="4"))


@pytest.mark.live
@pytest.mark.parametrize("tag", ["<tool_call>", None])
async def test_a_real_vllm_scores_steps(tag: str | None) -> None:
    """Needs a model with a row for each token, served as `tiny` (`ROLLOUTHUB_PROCESS_MODEL_URL`)."""
    url = os.environ.get("ROLLOUTHUB_PROCESS_MODEL_URL")
    if url is None:
        pytest.skip("ROLLOUTHUB_PROCESS_MODEL_URL names no process reward model")
    score = await ProcessRewardModel(url, "tiny", tag=tag)(TASK, said(FIRST))
    first, second = score.span_rewards
    assert first.reward != second.reward
