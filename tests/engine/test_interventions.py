"""What a person says to an agent while it plays: when its model hears it, and what the record says."""

from collections.abc import Callable, Sequence

import anyio
import pytest

from rollouthub import (
    Limits,
    Message,
    ModelError,
    ModelReply,
    ModelRequest,
    Outcome,
    Rollout,
    Seat,
    Stop,
    ToolRequest,
)
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.interventions import Interventions
from rollouthub.engine.new_verdict import scored_again
from rollouthub.export.segment import segments
from rollouthub.messages import assistant, user
from rollouthub.protocols import SeatAddress
from rollouthub.rollout import Usage
from rollouthub.values import Float32s, Int32s
from rollouthub_agents.null import Null
from rollouthub_agents.oracle import Oracle
from rollouthub_agents.react import ReAct
from rollouthub_agents.single_turn import SingleTurn
from rollouthub_agents.tool_loop import ToolLoop

from .conftest import Player, TellModel, calls

ADD = calls(("add", '{"step": 1}'))
WAIT = calls(("wait", "{}"))


async def until(claim: Callable[[], object]) -> None:
    """Wait until something holds."""
    with anyio.fail_after(30):
        while not claim():
            await anyio.lowlevel.checkpoint()


class Outsider(ToolLoop):
    """Plays from outside."""

    name = "outsider"

    async def play_exposed(self, seat: Seat, address: SeatAddress) -> Stop:
        """Not in these tests."""
        raise AssertionError


class SlowModel(TellModel):
    """Answers each call when its turn comes; tokens are the characters of what it read and said."""

    def __init__(self, replies: Sequence[Message], *, stuck: Sequence[int] = ()) -> None:
        super().__init__(replies)
        self._said, self._stuck = list(replies), set(stuck)
        self.cut = 0

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Hang where it is told to, by the number of the call."""
        self.requests.append(request)
        if len(self.requests) - 1 in self._stuck:
            try:
                await anyio.sleep_forever()
            finally:
                self.cut += 1
        await anyio.lowlevel.checkpoint()
        reply = self._said.pop(0)
        prompt, said = tokens(request.messages), tokens([reply])
        return ModelReply(
            message=reply,
            finish_reason="stop",
            usage=Usage(prompt_tokens=len(prompt), output_tokens=len(said)),
            prompt_token_ids=Int32s(prompt),
            output_token_ids=Int32s(said),
            output_logprobs=Float32s([-0.5] * len(said)),
        )


def tokens(messages: Sequence[Message]) -> list[int]:
    """A template whose text for a conversation begins with that for its beginning."""
    written = (f"<{each.role}>{each.text}{[call.name for call in each.tool_requests]}" for each in messages)
    return [ord(letter) for letter in "".join(written)]


async def told(played: Attempt, when: Callable[[], object], *texts: str) -> Rollout:
    """The record of an attempt that is told something at a moment."""
    records = list[Rollout]()

    async def play() -> None:
        records.append(await played.play())

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            await until(when)
            for text in texts:
                assert played.intervene(text)
    return records[0]


def texts(messages: Sequence[Message]) -> list[str]:
    return [f"{message.role}: {message.text}" for message in messages]


async def test_what_a_model_is_saying_is_cut_short_and_it_goes_on_with_what_it_was_told(attempt: Player) -> None:
    model = SlowModel([ADD, ADD, assistant("done")], stuck=[1])
    played = attempt(ToolLoop(), model)
    rollout = await told(played, lambda: len(model.requests) == 2, "try\x1b[31m harder\u202e, 1 < 2")
    assert (rollout.outcome, rollout.reward, model.cut, len(rollout.turns)) == (Outcome.SCORED, 1.0, 1, 3)
    first, second, third = rollout.turns
    assert texts(second.messages) == ["tool: 1", "user: try\x1b[31m harder\u202e, 1 < 2"]
    assert (second.parent_turn, third.parent_turn) == (first.index, second.index)
    assert texts(third.messages) == ["tool: 2"]
    assert texts(model.requests[-1].messages)[2:4] == ["tool: 1", "user: try\x1b[31m harder\u202e, 1 < 2"]


async def test_the_record_says_who_was_told_what_and_is_not_learnt_from(attempt: Player) -> None:
    model = SlowModel([ADD, assistant("done")], stuck=[0])
    rollout = await told(attempt(ToolLoop(), model), lambda: model.requests, "add one")
    ((at, seat, text),) = [(said.at, said.seat, said.text) for said in rollout.told]
    assert 0 <= at <= rollout.timings.total
    assert (seat, text) == ("agent", "add one")
    assert (rollout.trainable, rollout.trainable_reason) == (
        False,
        "a person helped: it was told something while it played",
    )
    assert "model_calls" in rollout.gaps
    assert Rollout.model_validate_json(rollout.model_dump_json()) == rollout
    assert rollout.score is not None
    assert not scored_again(rollout, rollout.score, {"agent"}).trainable


async def test_without_a_word_a_record_is_what_it_was(attempt: Player) -> None:
    rollout = await attempt(ToolLoop(), SlowModel([ADD, assistant("done")])).play()
    assert (rollout.told, rollout.trainable, rollout.gaps) == ((), True, ())
    older = rollout.model_dump(mode="json")
    del older["told"]
    assert Rollout.model_validate(older) == rollout


async def test_rows_of_tokens_go_on_through_what_was_said(attempt: Player) -> None:
    model = SlowModel([ADD, ADD, assistant("done")], stuck=[1])
    rollout = await told(attempt(ToolLoop(), model), lambda: len(model.requests) == 2, "psst")
    (row,) = segments(rollout)
    last = rollout.turns[-1]
    assert last.prompt_token_ids is not None
    assert last.output_token_ids is not None
    assert list(row.token_ids) == [*last.prompt_token_ids, *last.output_token_ids]
    conversation = [message for turn in rollout.turns for message in (*turn.messages, turn.response)]
    assert list(row.token_ids) == tokens(conversation)


async def test_what_is_said_while_a_tool_runs_waits_for_the_next_answer(attempt: Player) -> None:
    model = SlowModel([calls(("wait", "{}"), ("add", "{}")), assistant("done")])
    states = list[str]()

    class Ending(ToolLoop):
        """Gives up on a tool that does not end."""

        async def play(self, seat: Seat) -> Stop:
            conversation = list(seat.messages)
            conversation.append(await seat.generate(conversation))
            with anyio.CancelScope() as scope:
                scopes.append(scope)
                await seat.call_tools(conversation[-1].tool_requests)
            conversation.append(user("the tool was too slow"))
            await seat.generate(conversation)
            return Stop.FINISHED

    scopes = list[anyio.CancelScope]()

    def track(moved: Attempt) -> None:
        states.append(moved.state)

    played = attempt(Ending(), model, track=track)
    records = list[Rollout]()

    async def play() -> None:
        records.append(await played.play())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play)
        await until(lambda: "tool" in states)
        assert played.intervene("one")
        assert played.intervene("two")
        assert len(model.requests) == 1
        scopes[0].cancel()
    (rollout,) = records
    assert texts(rollout.turns[1].messages) == ["user: the tool was too slow", "user: one", "user: two"]
    assert [said.text for said in rollout.told] == ["one", "two"]


@pytest.mark.parametrize("agent", [SingleTurn(), ReAct(), ToolLoop()])
async def test_every_loop_of_ours_can_be_told(attempt: Player, agent: SingleTurn | ReAct | ToolLoop) -> None:
    model = SlowModel([assistant("Final Answer: done")], stuck=[0])
    rollout = await told(attempt(agent, model), lambda: model.requests, "hurry")
    assert rollout.outcome is Outcome.SCORED
    assert texts(rollout.turns[0].messages)[-1] == "user: hurry"


async def test_an_agent_can_be_told_before_it_is_seated(attempt: Player) -> None:
    model = SlowModel([assistant("done")])
    played = attempt(ToolLoop(), model)
    assert played.intervene("early")
    rollout = await played.play()
    assert texts(rollout.turns[0].messages)[-1] == "user: early"


async def test_what_no_model_was_asked_with_is_not_in_the_record(attempt: Player) -> None:
    model = SlowModel([WAIT])
    played = attempt(ToolLoop(), model, limits=Limits(max_seconds=1))
    rollout = await told(played, lambda: played.state == "tool", "too late for you")
    assert (rollout.stop, rollout.told) == (Stop.TIME_LIMIT, ())


async def test_limits_hold_for_who_is_told(attempt: Player) -> None:
    model = SlowModel([ADD, ADD, ADD], stuck=[1])
    played = attempt(ToolLoop(), model, limits=Limits(max_turns=2))
    rollout = await told(played, lambda: len(model.requests) == 2, "go on for ever")
    assert (rollout.stop, len(rollout.turns), len(model.requests)) == (Stop.TURN_LIMIT, 2, 3)


async def test_an_answer_that_comes_all_the_same_is_not_used_and_counts(attempt: Player) -> None:
    class Stubborn(SlowModel):
        async def generate(self, request: ModelRequest) -> ModelReply:
            with anyio.CancelScope(shield=not self.requests):
                return await super().generate(request)
            raise AssertionError("this scope is not cancelled itself")

    model = Stubborn([assistant("unheard"), assistant("heard")])
    played = attempt(ToolLoop(), model)
    rollout = await told(played, lambda: model.requests, "wait")
    assert [turn.response.text for turn in rollout.turns] == ["heard"]
    assert played.recorder.output_tokens > rollout.turns[0].usage.output_tokens


async def test_a_cancelled_attempt_is_cancelled_whatever_it_was_told(attempt: Player) -> None:
    model = SlowModel([], stuck=range(9))
    played = attempt(ToolLoop(), model)
    records = list[Rollout]()

    async def play() -> None:
        records.append(await played.play())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play)
        await until(lambda: model.requests)
        assert played.intervene("stay")
        assert played.cancel()
    assert records[0].outcome is Outcome.CANCELLED
    assert records[0].told == () or [said.text for said in records[0].told] == ["stay"]


async def test_a_model_that_fails_after_it_was_told_fails_as_always(attempt: Player) -> None:
    class Failing(SlowModel):
        async def generate(self, request: ModelRequest) -> ModelReply:
            if len(self.requests) == 1:
                raise ModelError("down")
            return await super().generate(request)

    model = Failing([], stuck=[0])
    rollout = await told(attempt(ToolLoop(), model), lambda: model.requests, "sorry")
    assert rollout.outcome is Outcome.MODEL_FAILED
    assert [said.text for said in rollout.told] == ["sorry"]


async def test_nothing_can_be_said_when_the_agent_is_gone(attempt: Player) -> None:
    said = list[bool]()

    def track(moved: Attempt) -> None:
        if moved.state in ("verify", "close"):
            said.append(moved.intervene("come back"))

    rollout = await attempt(ToolLoop(), SlowModel([assistant("done")]), track=track).play()
    assert said == [False, False]
    assert rollout.told == ()


@pytest.mark.parametrize(
    ("agent", "model", "why"),
    [
        (Oracle(), TellModel(["x"]), "agent oracle plays what is written, and asks no model"),
        (
            Outsider(),
            TellModel(["x"]),
            "agent outsider plays from outside the hub, and keeps its conversation to itself",
        ),
        (Null(), None, "agent null asks no model of this run"),
        (ToolLoop(), TellModel(["x"]), None),
    ],
)
async def test_who_hears_nothing_says_why(
    attempt: Player, agent: Oracle | Null | ToolLoop, model: TellModel | None, why: str | None
) -> None:
    assert attempt(agent, model).why_no_interventions == why


async def test_calls_side_by_side_are_all_told(attempt: Player) -> None:
    class Twins(ToolLoop):
        async def play(self, seat: Seat) -> Stop:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(seat.generate, [*seat.messages, user("a")])
                tasks.start_soon(seat.generate, [*seat.messages, user("b")])
            return Stop.FINISHED

    model = SlowModel([assistant("one"), assistant("two")], stuck=[0, 1])
    rollout = await told(attempt(Twins(), model), lambda: len(model.requests) == 2, "both")
    assert [texts(turn.messages)[-1] for turn in rollout.turns] == ["user: both"] * 2
    assert [said.text for said in rollout.told] == ["both"]


def test_words_stay_where_they_were_said_when_an_agent_shortens_its_conversation() -> None:
    said, answer = Interventions(), assistant("yes")
    opening, later = [user("task"), assistant("hm"), user("go on")], user("more")
    said.add("psst")
    (waiting,) = said.waiting
    said.answered(said.waiting, answer, 3)
    assert said.within([*opening, answer, later]) == [*opening, waiting, answer, later]
    assert said.within([opening[0], answer, later]) == [opening[0], waiting, answer, later]
    assert said.within([opening[0], user("in short: yes"), later]) == [opening[0], user("in short: yes"), later]
    assert said.waiting == ()


def test_calls_of_a_conversation_told_twice_keep_their_order() -> None:
    said, first, second = Interventions(), assistant("1", ToolRequest(id="a", name="t", arguments="{}")), assistant("2")
    said.add("one")
    one = said.waiting
    said.answered(one, first, 1)
    conversation = [user("task"), first, user("result")]
    said.add("two")
    two = said.waiting
    said.answered(two, second, len(said.within(conversation)))
    assert said.within([*conversation, second]) == [user("task"), *one, first, user("result"), *two, second]
