"""`human`: what is typed, played in a small world."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import anyio
import pytest

from rollouthub import Limits, Message, Outcome, Stop
from rollouthub.engine.attempt import Attempt
from rollouthub.messages import user
from rollouthub_agents.human import Human, HumanConfig
from rollouthub_agents.human.schema_value import Unfit, values_of
from tests.engine.conftest import Counter, Player, attempt

__all__ = ["attempt"]


class Typed:
    """A person whose hands a test moves."""

    def __init__(self, ours: int, theirs: int) -> None:
        self._ours = ours
        self.agent = Human(HumanConfig(), theirs)

    def type(self, text: str) -> None:
        """Type."""
        os.write(self._ours, text.encode())


@contextmanager
def person(typed: str = "", *, leaves: bool = False) -> Generator[Typed]:
    """Somebody who has typed this already, and then goes or stays."""
    theirs, ours = os.pipe()
    os.write(ours, typed.encode())
    if leaves:
        os.close(ours)
    try:
        yield Typed(ours, theirs)
    finally:
        os.close(theirs)
        if not leaves:
            os.close(ours)


async def test_calls_are_recorded_as_any_agents(attempt: Player, capsys: pytest.CaptureFixture[str]) -> None:
    with person('add {"step": 2}\nadd -1\n1\n\nsub\nall done\n') as someone:
        rollout = await attempt(someone.agent).play()
    assert (rollout.reward, rollout.answer, rollout.stop) == (1.0, "all done", Stop.SUBMITTED)
    calls = [(call.name, call.arguments) for turn in rollout.turns for call in turn.tool_calls]
    assert calls == [("add", {"step": 2}), ("add", {"step": -1}), ("add", {}), ("submit", {"answer": "all done"})]
    assert [turn.parent_turn for turn in rollout.turns] == [None, 0, 1, 2]
    shown = capsys.readouterr()
    assert "only upwards" in shown.err
    assert "reward" not in shown.err
    assert shown.out == ""


async def test_words_answer_where_nobody_answers_them(attempt: Player) -> None:
    with person('say\n"""\none\ntwo\n"""\n') as someone:
        rollout = await attempt(someone.agent).play()
    assert rollout.stop is Stop.FINISHED
    assert rollout.turns[-1].response.text == "one\ntwo"


class Chat(Counter):
    """Somebody who answers."""

    submits = False

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Twice."""
        self.count += 1
        return [user("Go on.")] if self.count < 2 else None


async def test_words_are_said_to_a_user_who_answers(attempt: Player, capsys: pytest.CaptureFixture[str]) -> None:
    with person("say Hello\nsay Bye\n") as someone:
        rollout = await attempt(someone.agent, environment=Chat).play()
    assert (rollout.reward, rollout.stop) == (1.0, Stop.FINISHED)
    assert "Go on." in capsys.readouterr().err


async def test_the_last_turn_ends_the_episode_without_a_prompt(attempt: Player) -> None:
    with person("add\n\n") as someone:
        rollout = await attempt(someone.agent, limits=Limits(max_turns=1)).play()
    assert (rollout.outcome, rollout.stop) == (Outcome.SCORED, Stop.TURN_LIMIT)


async def test_a_time_limit_ends_a_prompt(attempt: Player) -> None:
    with person("add\n\n") as someone:
        rollout = await attempt(someone.agent, limits=Limits(max_seconds=1)).play()
    assert (rollout.outcome, rollout.stop, len(rollout.turns)) == (Outcome.SCORED, Stop.TIME_LIMIT, 1)


async def test_whoever_is_gone_has_discarded(attempt: Player) -> None:
    with person("add\n\n", leaves=True) as someone:
        rollout = await attempt(someone.agent).play()
    assert (rollout.outcome, rollout.stop, rollout.score) == (Outcome.CANCELLED, Stop.CANCELLED, None)
    assert len(rollout.turns) == 1


@pytest.mark.parametrize(("answer", "outcome"), [("h", Outcome.SCORED), ("d", Outcome.CANCELLED)])
async def test_ctrl_c_ends_a_call_and_asks(attempt: Player, answer: str, outcome: Outcome) -> None:
    calling = anyio.Event()

    def track(attempt: Attempt) -> None:
        if attempt.state == "tool":
            calling.set()

    rollouts = list[object]()
    with person("wait\n") as someone:
        assert not someone.agent.interrupt()

        async def play() -> None:
            rollouts.append((await attempt(someone.agent, track=track).play()).outcome)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(play)
                await calling.wait()
                assert someone.agent.interrupt()
                someone.type(f"g\ndone\nwhat\n{answer}\n")
    assert rollouts == [outcome]


@pytest.mark.parametrize(
    ("schema", "line", "value"),
    [
        ({"type": "string"}, "5", "5"),
        ({"type": "string"}, '""', ""),
        ({"type": "integer"}, " 5 ", 5),
        ({"type": "number"}, "-1e3", -1000.0),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"enum": ["a", "b"]}, "2", "b"),
        ({"enum": [3, 2, 1]}, "1", 1),
        ({"const": "only"}, "only", "only"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}, "7", 7),
        ({"type": ["string", "null"]}, "7", "7"),
        ({"$ref": "#/$defs/Size"}, "large", "large"),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "object"}, '{"a": null}', {"a": None}),
        ({"anyOf": [{"type": "integer"}, {"type": "array"}]}, "[1]", [1]),
        ({}, '"x"', "x"),
    ],
)
def test_a_line_becomes_a_value_of_its_type(schema: dict[str, object], line: str, value: object) -> None:
    whole = {"properties": {"it": schema}, "$defs": {"Size": {"enum": ["small", "large"]}}}
    [it] = values_of(whole)
    assert it.parse(line) == value
    assert type(it.parse(line)) is type(value)


@pytest.mark.parametrize(
    ("schema", "line", "reason"),
    [
        ({"type": "integer"}, "5.5", "no whole number"),
        ({"type": "integer"}, "true", "no whole number"),
        ({"type": "integer", "minimum": 1, "maximum": 3}, "4", "at least 1, at most 3"),
        ({"type": "number"}, "NaN", "no number"),
        ({"type": "boolean"}, "perhaps", "neither yes nor no"),
        ({"enum": ["a", "b"]}, "3", "from 1 to 2"),
        ({"type": "array"}, "{}", "no JSON array"),
        ({"type": "object"}, "{", "no JSON"),
        ({"type": "string", "maxLength": 2}, "abc", "at most 2 characters"),
        ({"$ref": "#/properties/it"}, "[", "no JSON"),
    ],
)
def test_a_line_that_is_no_value_is_refused_with_a_reason(schema: dict[str, object], line: str, reason: str) -> None:
    [it] = values_of({"properties": {"it": schema}})
    with pytest.raises(Unfit, match=reason):
        it.parse(line)
