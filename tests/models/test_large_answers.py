"""A model's answer of four mebibytes holds up nobody: not when it is read, nor when it is recorded and stored.

One that lists more than is read is no answer.
"""

import json
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

import rollouthub
from rollouthub.bench.overhead_cell import Count
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run import play_run
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import ModelError
from rollouthub.models.credentials import Credentials
from rollouthub.models.direct.answer_bounds import MOST_CALLS
from tests.loop_holds import SECONDS, SIZE, shortest_hold

from .listening import Listener, streamed
from .servers import ask, direct, raw_server


class Watch(Count):
    """Forgets what opening the run took."""

    def __init__(self, longest: list[float]) -> None:
        super().__init__()
        self._longest = longest

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """From here on it counts."""
        self._longest[0] = 0.0


def answer_of(text: str) -> bytes:
    """What a server sends that says this."""
    usage = {"prompt_tokens": 1, "completion_tokens": len(text) // 4, "total_tokens": 1 + len(text) // 4}
    return sent({"id": "1", "object": "chat.completion", "model": "m", "usage": usage}, content=text)


def sent(answer: dict[str, Any], *, is_stream: bool = False, **message: Any) -> bytes:
    """The bytes of an answer whose message has these fields."""
    said = {"delta" if is_stream else "message": {"role": "assistant", **message}}
    body = json.dumps({**answer, "choices": [{"index": 0, "finish_reason": "stop", **said}]})
    if is_stream:
        body = f"data: {body}\n\ndata: [DONE]\n\n"
    kind = "text/event-stream" if is_stream else "application/json"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n{body}".encode()


@pytest.mark.parametrize("mark", ["7 ", "\n", "é"])
async def test_an_answer_of_four_mebibytes_holds_up_nobody(mark: str, tmp_path: Path) -> None:
    async with raw_server(answer_of(mark * (SIZE // (len(json.dumps(mark)) - 2)))) as url:

        async def play(longest: list[float]) -> None:
            count = Watch(longest)
            await play_run(
                make_plan(
                    RunRequest(
                        environments=("arithmetic",),
                        agent="single_turn",
                        model="hosted_vllm/m",
                        base_url=(url,),
                        limit=1,
                    )
                ),
                Path(mkdtemp(dir=tmp_path)),
                given="",
                resume=False,
                credentials=Credentials({}),
                observer=count,
                stop=StopSignal(),
            )
            assert (count.committed_count, count.scored) == (1, 1)

        held = await shortest_hold(play)
        assert 0.0 < held < SECONDS


CALL = {"type": "function", "function": {"name": "add", "arguments": "{}"}}


@pytest.mark.parametrize("count", [MOST_CALLS + 1, SIZE // len(json.dumps({"index": 10_000, **CALL}) + ", ")])
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
async def test_an_answer_that_lists_thousands_of_calls_is_none(is_stream: bool, count: int) -> None:
    calls = [{"index": place, **CALL} for place in range(count)]
    said = sent({}, is_stream=is_stream, tool_calls=calls)
    async with raw_server(said) as url, direct(url, max_tries=1) as model:

        async def play(longest: list[float]) -> None:
            with pytest.raises(ModelError, match=r"more than (1,000 tool calls|50,000 values)"):
                await model.generate(streamed(ask(), Listener()) if is_stream else ask())

        held = await shortest_hold(play)
        assert held < SECONDS


@pytest.mark.parametrize("agent", ["single_turn", "tool_loop"])
async def test_a_policy_that_lists_thousands_of_calls_has_failed_and_gets_no_other_try(
    agent: str, tmp_path: Path
) -> None:
    calls = [{"index": place, **CALL} for place in range(MOST_CALLS + 1)]
    async with raw_server(sent({}, is_stream=False, tool_calls=calls)) as url:
        run = await rollouthub.aevaluate(
            "arithmetic",
            "hosted_vllm/m",
            base_url=(url,),
            agent=agent,
            limit=1,
            directory=tmp_path / "run",
            credentials=Credentials({}),
        )
    (row,) = run.rollouts(effective=False).to_pylist()
    assert (row["outcome"], row["attempt"]) == ("agent_failed", 0)
    assert row["fault"] == "agent:AgentError"
    assert "1,000 tool calls" in run.summary.fault_examples["agent:AgentError"]


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
async def test_an_answer_may_have_many_token_ids_and_a_thousand_calls(is_stream: bool) -> None:
    calls = [{"index": place, **CALL} for place in range(MOST_CALLS)]
    said = sent({"prompt_token_ids": list(range(200_000))}, is_stream=is_stream, tool_calls=calls)
    async with raw_server(said) as url, direct(url, max_tries=1) as model:
        reply = await model.generate(streamed(ask(), Listener()) if is_stream else ask())
    assert reply.prompt_token_ids is not None
    assert (len(reply.message.tool_requests), len(reply.prompt_token_ids)) == (MOST_CALLS, 200_000)
