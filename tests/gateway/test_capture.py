"""Every model call of an agent from outside is a turn; what it trains on is what our own loop would have given."""

import json
from typing import Any

import anyio
import pytest

from rollouthub import BadRow, Limits, ModelReply, Outcome, Rollout, Stop, segments
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.generation import ModelRequest, Sampling
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.limits import Deadlines
from rollouthub.messages import Delta, assistant
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.plugins.agents import find_agent
from rollouthub.plugins.environments import find_environment
from rollouthub.protocols import SeatAddress
from rollouthub.rollout import BROKEN_OFF, AgentRef, EnvironmentRef, TaskRef, Usage
from tests.gateway.outside import GatewayHarness, harness, words


def told(answer: Any) -> dict[str, Any]:
    """The message of a chat completion."""
    return answer["choices"][0]["message"]


async def loop(made: GatewayHarness, address: SeatAddress, tools: list[dict[str, Any]]) -> None:
    """A tool loop as anybody would write it, over the two URLs."""
    _, listed = await made.rpc(address.agent_url, "server/discover")
    messages: list[dict[str, Any]] = [{"role": "user", "content": listed["result"]["instructions"]}]
    while True:
        status, answer = await made.chat(address, messages, tools=tools)
        if status != 200:
            return
        said = told(answer)
        messages.append({key: said[key] for key in ("role", "content", "tool_calls") if said.get(key) is not None})
        if not said.get("tool_calls"):
            return
        for call in said["tool_calls"]:
            function = call["function"]
            result = await made.call(address, function["name"], **json.loads(function["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": words(result)})


async def test_a_captured_run_trains_on_what_our_own_loop_would() -> None:
    found = find_environment("arithmetic")
    model = MockModel(ModelConfig(name="mock/solver"))
    async with (
        open_in_process("arithmetic", found.environment, configured(found, {})) as host,
        harness(host=host) as made,
    ):
        card = await anext(aiter(host.tasks("test" if "test" in host.info.splits else host.info.splits[0], 0)))
        assert not isinstance(card, BadRow)
        info = host.info
        own = find_agent("tool_loop", {})
        context = SampleContext(
            run_id="run",
            host=host,
            environment=EnvironmentRef(name=info.name, version=info.version, digest=info.digest),
            agent=own,
            agent_ref=AgentRef(name=own.name, version=own.version),
            model=model,
            sampling=Sampling(),
            limits=Limits(),
            deadlines=Deadlines(),
        )
        task = TaskRef(split=card.split, id=card.public.id, digest=card.digest)
        ours = await Attempt(
            Sample(context, card, task, "group", "group-0", 0, 1, None), 0, 0.0, lambda attempt: None
        ).play()
        offered = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
            }
            for tool in info.tools
            if tool.name != "get_task"
        ]
        theirs = await made.play(lambda address: loop(made, address, offered), model=model)
    assert ours.reward == theirs.reward == 1.0
    assert [turn.response for turn in theirs.turns] == [turn.response for turn in ours.turns]
    assert [[call.arguments for call in turn.tool_calls] for turn in theirs.turns] == [
        [call.arguments for call in turn.tool_calls] for turn in ours.turns
    ]
    rows = [segment.model_copy(update={"rollout_id": ""}) for segment in segments(theirs)]
    assert rows == [segment.model_copy(update={"rollout_id": ""}) for segment in segments(ours)]
    assert rows
    assert theirs.trainable


async def test_a_call_that_is_tried_again_is_one_turn() -> None:
    async with harness(["one", "two", "three"]) as made:
        said: list[str] = []

        async def play(address: SeatAddress) -> None:
            for headers in ({}, {"x-stainless-retry-count": "1"}, {}):
                _, answer = await made.chat(address, "same", headers=headers)
                said.append(told(answer)["content"])

        rollout = await made.play(play)
    assert said == ["one", "one", "two"]
    assert [turn.response.text for turn in rollout.turns] == ["one", "two"]


class Waiting:
    """A model that answers when it is told to."""

    name = "test/waiting"

    def __init__(self) -> None:
        self.asked, self.go, self.calls = anyio.Event(), anyio.Event(), 0

    async def generate(self, request: ModelRequest) -> ModelReply:
        """The answer, once it may."""
        self.calls += 1
        self.asked.set()
        await self.go.wait()
        return ModelReply(message=assistant(f"answer {self.calls}"), usage=Usage(output_tokens=1))


async def test_who_hangs_up_ends_the_call_and_who_comes_back_is_one_turn() -> None:
    model = Waiting()
    async with harness() as made:

        async def play(address: SeatAddress) -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(made.chat, address, "same")
                await model.asked.wait()
                tasks.cancel_scope.cancel()
            model.go.set()
            status, _ = await made.chat(address, "same", headers={"x-stainless-retry-count": "1"})
            assert status == 200

        rollout = await made.play(play, model=model)
    assert len(rollout.turns) == 1


async def test_a_model_call_in_flight_ends_with_its_seat_and_leaves_a_turn_without_words() -> None:
    model = Waiting()
    answers: list[Any] = []
    ended: list[Rollout] = []
    async with harness() as made, anyio.create_task_group() as tasks:

        async def ask(address: SeatAddress) -> None:
            answers.append(await made.chat(address))

        async def play(address: SeatAddress) -> None:
            tasks.start_soon(ask, address)
            await model.asked.wait()

        ended.append(await made.play(play, model=model))
    rollout = ended[0]
    assert (rollout.outcome, rollout.gaps) == (Outcome.SCORED, ("model_calls",))
    assert [(turn.response.text, turn.finish_reason) for turn in rollout.turns] == [("", BROKEN_OFF)]
    assert answers[0][0] == 403
    assert answers[0][1]["error"]["code"] == "episode_closed"


async def test_a_sub_agent_and_a_compaction_are_branches() -> None:
    async with harness(["a", "b", "c", "d"]) as made:

        async def play(address: SeatAddress) -> None:
            main = [{"role": "user", "content": "task"}]
            await made.chat(address, main)
            await made.chat(address, [{"role": "system", "content": "You are a sub-agent."}, *main])
            main += [{"role": "assistant", "content": "a"}, {"role": "user", "content": "on"}]
            await made.chat(address, main)
            await made.chat(address, [{"role": "user", "content": "summary of it all"}])

        rollout = await made.play(play)
    assert [turn.parent_turn for turn in rollout.turns] == [None, None, 0, None]


@pytest.mark.parametrize(
    ("limits", "stop", "code"),
    [
        (Limits(max_turns=1), Stop.TURN_LIMIT, "turn_limit"),
        (Limits(max_tokens=5), Stop.TOKEN_LIMIT, "token_limit"),
    ],
)
async def test_a_limit_is_a_proper_error_of_the_api(limits: Limits, stop: Stop, code: str) -> None:
    async with harness(["one"]) as made:
        answers: list[Any] = []

        async def play(address: SeatAddress) -> None:
            answers.extend([await made.chat(address, f"call {number}") for number in range(3)])
            await address.over()

        rollout = await made.play(play, limits=limits)
    assert [status for status, _ in answers] == [200, 403, 403]
    assert answers[1][1]["error"]["code"] == code
    assert (rollout.outcome, rollout.stop) == (Outcome.SCORED, stop)
    assert len(rollout.turns) == 1


async def test_what_broke_behind_the_model_api_is_on_the_record_and_not_for_the_agent() -> None:
    secret = "http://10.1.2.3:8000 refused sk-provider-key"
    async with harness([ModelError(secret, retryable=True)]) as made:
        answers: list[Any] = []

        async def play(address: SeatAddress) -> None:
            answers.append(await made.chat(address))

        rollout = await made.play(play)
    status, body = answers[0]
    assert status == 502
    assert "10.1.2.3" not in str(body)
    assert rollout.outcome is Outcome.MODEL_FAILED
    assert secret in rollout.faults[0].message


async def test_a_conversation_that_does_not_fit_is_told_apart_and_the_agent_may_go_on() -> None:
    async with harness([ContextLimitError("too long"), "shorter"]) as made:
        answers: list[Any] = []

        async def play(address: SeatAddress) -> None:
            answers.extend([await made.chat(address, "long" * 9), await made.chat(address, "short")])

        rollout = await made.play(play)
    assert answers[0][1]["error"]["code"] == "context_length_exceeded"
    assert answers[1][0] == 200
    assert (rollout.outcome, rollout.stop) == (Outcome.SCORED, Stop.FINISHED)


async def test_sampling_is_the_runs_and_shape_is_the_agents() -> None:
    async with harness(["one"]) as made:

        async def play(address: SeatAddress) -> None:
            await made.chat(
                address,
                temperature=1.9,
                top_p=0.1,
                seed=4,
                logit_bias={"5": 100},
                max_tokens=7,
                stop=["END"],
                response_format={"type": "json_object"},
            )

        rollout = await made.play(play)
        assert made.model is not None
        sampling = made.model.requests[0].sampling
    assert (sampling.temperature, sampling.top_p, sampling.seed) == (None, None, None)
    assert (sampling.max_tokens, sampling.stop, sampling.extra) == (
        7,
        ("END",),
        {"response_format": {"type": "json_object"}},
    )
    assert rollout.turns[0].sampling["max_tokens"] == 7


class Dictating:
    """A model that says words one by one, and never comes to an end."""

    name = "test/dictating"

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Speak on."""
        assert request.stream is not None
        for _ in range(3):
            await request.stream.write(Delta(text="word "))
        await anyio.sleep_forever()
        raise AssertionError


async def test_who_reads_a_stream_and_leaves_before_its_end_has_used_a_turn() -> None:
    async with harness() as made:

        async def play(address: SeatAddress) -> None:
            body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
            url = f"{address.llm_url}/chat/completions"
            for _ in range(2):
                async with made.http.post(url, json=body) as response:
                    assert response.status == 200
                    async for line in response.content:
                        if b"word" in line:
                            break
            status, answer = await made.chat(address, "on")
            assert (status, answer["error"]["code"]) == (403, "turn_limit")

        rollout = await made.play(play, model=Dictating(), limits=Limits(max_turns=2))
    assert (rollout.outcome, rollout.stop, rollout.gaps) == (Outcome.SCORED, Stop.TURN_LIMIT, ("model_calls",))


class Costly:
    """A model whose answers cost a dollar and ten tokens, and may wait."""

    name = "test/costly"

    def __init__(self) -> None:
        self.begun = 0
        self.at_once = self.most_at_once = 0

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer after the others had their chance to begin."""
        self.begun += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        self.at_once -= 1
        return ModelReply(message=assistant("x"), usage=Usage(output_tokens=10), cost=1.0)


@pytest.mark.parametrize(
    ("limits", "stop"),
    [(Limits(max_tokens=20), Stop.TOKEN_LIMIT), (Limits(max_cost=2.0), Stop.COST_LIMIT)],
)
async def test_calls_side_by_side_do_not_outrun_a_limit(limits: Limits, stop: Stop) -> None:
    model = Costly()
    async with harness() as made:

        async def play(address: SeatAddress) -> None:
            async with anyio.create_task_group() as calls:
                for number in range(12):
                    calls.start_soon(made.chat, address, f"call {number}")

        rollout = await made.play(play, model=model, limits=limits)
    assert (rollout.stop, model.begun, model.most_at_once) == (stop, 2, 1)
    assert sum(turn.usage.output_tokens for turn in rollout.turns) == 20


async def test_who_hangs_up_again_and_again_reaches_the_limit() -> None:
    model = Waiting()
    async with harness() as made:

        async def play(address: SeatAddress) -> None:
            for number in range(3):
                model.asked = anyio.Event()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(made.chat, address, f"call {number}")
                    if number < 2:
                        await model.asked.wait()
                        tasks.cancel_scope.cancel()
            await address.over()

        rollout = await made.play(play, model=model, limits=Limits(max_turns=2))
    assert (rollout.outcome, rollout.stop, model.calls) == (Outcome.SCORED, Stop.TURN_LIMIT, 2)


async def test_a_request_that_the_model_refuses_is_the_agents_and_it_is_scored() -> None:
    async with harness(["fine", ModelError("no such format", status=400, retryable=False)]) as made:
        answers: list[Any] = []

        async def play(address: SeatAddress) -> None:
            answers.extend([await made.chat(address, "one"), await made.chat(address, "odd")])

        rollout = await made.play(play)
    assert [status for status, _ in answers] == [200, 400]
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 0.0)


async def test_after_a_limit_no_tool_runs_any_more() -> None:
    async with harness(["one"]) as made:

        async def play(address: SeatAddress) -> None:
            await made.chat(address, "one")
            assert words(await made.call(address, "add")) == "1"
            await made.chat(address, "two")
            assert "turn_limit" in words(await made.call(address, "add"))

        rollout = await made.play(play, limits=Limits(max_turns=1))
    assert [len(turn.tool_calls) for turn in rollout.turns] == [1]
