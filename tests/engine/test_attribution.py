"""What broke is named even where an agent hides it, wraps it or trips over it."""

from collections.abc import Sequence
from typing import Any, cast

import anyio
import pytest
from mcp_types import CallToolResult, ImageContent

from rollouthub import Limits, Message, ModelError, Outcome, Score, Stop, Submission, tool
from rollouthub.errors import ContextLimitError, EpisodeStop, SandboxOverrun
from rollouthub.messages import assistant
from rollouthub.protocols import Seat
from rollouthub_agents.null import Null
from rollouthub_agents.oracle import Oracle
from rollouthub_agents.tool_loop import ToolLoop

from .conftest import Counter, Player, TellModel, calls


class Smudge(Counter):
    """Paints what is no picture."""

    @tool
    async def paint(self) -> CallToolResult:
        """No picture."""
        return CallToolResult(content=[ImageContent(data="a", mime_type="image/png")])


class Silent(Counter):
    """Its user breaks."""

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        raise RuntimeError("the user is away")

    def reference(self) -> Sequence[Message]:
        raise RuntimeError("no reference can be made")


class Overrun(Counter):
    """Its tool is a program that ends its own sandbox, as a tool or as the user's words; its verifier another one."""

    @tool
    async def fill(self) -> str:
        """Use up all memory."""
        raise SandboxOverrun("it used up its memory")

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        raise SandboxOverrun("it used up its memory")

    async def verify(self, submission: Submission) -> Score:
        if submission.answer == "fill":
            raise SandboxOverrun("it used up its memory")
        return Score(reward=1.0)


class Careless:
    """An agent that ends its sandbox, and fails of that."""

    name, version = "careless", "1"

    async def play(self, seat: Seat) -> Stop:
        filling = calls(("fill", "{}"))
        seat.say((), filling)
        await seat.call_tools(filling.tool_requests)
        raise RuntimeError("nothing works any more")


@pytest.mark.parametrize("said", [[calls(("fill", "{}")), "done"], ["done"], [calls(("submit", '{"answer": "fill"}'))]])
async def test_an_agent_that_ends_its_sandbox_has_0_and_no_other_try(attempt: Player, said: list[Any]) -> None:
    rollout = await attempt(ToolLoop(), TellModel(said), environment=Overrun).play()
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 0.0)
    assert {(fault.boundary, fault.retryable) for fault in rollout.faults} == {("agent", False)}
    assert rollout.score is not None
    assert "used up its memory" in (rollout.score.feedback or "")


async def test_an_agent_that_fails_of_the_sandbox_it_ended_has_0(attempt: Player) -> None:
    rollout = await attempt(Careless(), environment=Overrun).play()
    assert (rollout.outcome, rollout.reward) == (Outcome.SCORED, 0.0)


class SetUp(Overrun):
    """Ends its sandbox before anybody acted."""

    async def setup(self) -> None:
        raise SandboxOverrun("it used up its memory")


async def test_before_the_agent_acts_the_end_of_a_sandbox_is_nobodys_score(attempt: Player) -> None:
    rollout = await attempt(Null(), environment=SetUp).play()
    assert (rollout.outcome, rollout.reward) == (Outcome.SANDBOX_FAILED, None)


async def test_an_agent_that_trips_over_a_broken_tool_has_not_failed(attempt: Player) -> None:
    class Strict(Null):
        async def play(self, seat: Seat) -> Stop:
            said = await seat.generate(seat.messages)
            (answer,) = await seat.call_tools(said.tool_requests)
            raise ValueError(answer.text)

    rollout = await attempt(Strict(), TellModel([calls(("add", "{}"))]), breaks_in="tool").play()
    assert rollout.outcome is Outcome.ENVIRONMENT_FAILED
    assert [fault.boundary for fault in rollout.faults] == ["environment", "agent"]


async def test_a_fault_in_one_of_several_calls_is_the_environments(attempt: Player) -> None:
    model = TellModel([calls(("paint", "{}"), ("add", "{}")), "done"])
    rollout = await attempt(ToolLoop(), model, environment=Smudge).play()
    assert rollout.outcome is Outcome.ENVIRONMENT_FAILED


async def test_a_stop_in_an_agents_own_task_group_is_a_stop(attempt: Player) -> None:
    class Forking(Null):
        async def play(self, seat: Seat) -> Stop:
            async with anyio.create_task_group() as group:
                for _ in range(2):
                    group.start_soon(ToolLoop().play, seat)
            return Stop.FINISHED

    rollout = await attempt(Forking(), TellModel([calls(("add", "{}"))]), limits=Limits(max_turns=4)).play()
    assert (rollout.outcome, rollout.stop) == (Outcome.SCORED, Stop.TURN_LIMIT)
    assert len(rollout.turns) == 4


async def test_a_model_fault_in_an_agents_own_task_group_is_the_models(attempt: Player) -> None:
    class Forking(Null):
        async def play(self, seat: Seat) -> Stop:
            async with anyio.create_task_group() as group:
                group.start_soon(ToolLoop().play, seat)
            return Stop.FINISHED

    rollout = await attempt(Forking(), TellModel([ModelError("down", status=500)])).play()
    assert rollout.outcome is Outcome.MODEL_FAILED
    assert rollout.faults[0].status == 500


class Hiding(Null):
    """Gives up quietly when anything breaks."""

    async def play(self, seat: Seat) -> Stop:
        try:
            said = await seat.generate(seat.messages)
            await seat.reply((said,))
        except Exception:
            pass
        return Stop.FINISHED


class Wrapping(Null):
    """Says in its own words what broke."""

    async def play(self, seat: Seat) -> Stop:
        try:
            said = await seat.generate(seat.messages)
            await seat.reply((said,))
        except Exception as error:
            raise RuntimeError("something went wrong") from error
        return Stop.FINISHED


@pytest.mark.parametrize("agent", [Hiding(), Wrapping()])
async def test_a_fault_an_agent_hides_is_not_scored(attempt: Player, agent: Null) -> None:
    rollout = await attempt(agent, TellModel([ModelError("down", status=500)])).play()
    assert rollout.outcome is Outcome.MODEL_FAILED
    rollout = await attempt(agent, TellModel(["hello"]), environment=Silent).play()
    assert rollout.outcome is Outcome.ENVIRONMENT_FAILED
    assert [fault.boundary for fault in rollout.faults] == ["environment"]


async def test_a_model_call_an_agent_tries_again_itself_is_no_fault(attempt: Player) -> None:
    class Patient(Null):
        async def play(self, seat: Seat) -> Stop:
            for _ in range(2):
                try:
                    await seat.generate(seat.messages)
                except ModelError:
                    continue
            return Stop.FINISHED

    rollout = await attempt(Patient(), TellModel([ModelError("down"), "hello"])).play()
    assert rollout.outcome is Outcome.SCORED


async def test_a_limit_an_agent_hides_is_still_the_stop(attempt: Player) -> None:
    class Greedy(Null):
        async def play(self, seat: Seat) -> Stop:
            for _ in range(3):
                try:
                    await seat.generate(seat.messages)
                except Exception:
                    break
            return Stop.FINISHED

    rollout = await attempt(Greedy(), TellModel(["hello"]), limits=Limits(max_turns=1)).play()
    assert (rollout.outcome, rollout.stop) == (Outcome.SCORED, Stop.TURN_LIMIT)


async def test_an_agent_that_never_lets_a_stop_pass_does_not_hold_up_the_rest(attempt: Player) -> None:
    class Deaf(Null):
        async def play(self, seat: Seat) -> Stop:
            for _ in range(10_000_000):  # for ever, as far as a test is concerned
                try:
                    await seat.generate(seat.messages)
                except Exception:
                    continue
            return Stop.FINISHED

    with anyio.fail_after(30):
        rollout = await attempt(Deaf(), TellModel(["hi"]), limits=Limits(max_turns=1, max_seconds=0.1)).play()
    assert rollout.outcome is Outcome.SCORED


async def test_a_reference_that_cannot_be_made_is_the_environments_fault(attempt: Player) -> None:
    rollout = await attempt(Oracle(), environment=Silent).play()
    assert rollout.outcome is Outcome.ENVIRONMENT_FAILED


async def test_an_agent_that_does_not_say_why_it_stopped_has_failed(attempt: Player) -> None:
    class Vague(Null):
        async def play(self, seat: Seat) -> Stop:
            return cast(Stop, None)

    rollout = await attempt(Vague()).play()
    assert rollout.outcome is Outcome.AGENT_FAILED


async def test_an_agent_that_says_what_is_no_message_has_failed(attempt: Player) -> None:
    class Blurting(Null):
        async def play(self, seat: Seat) -> Stop:
            seat.say(cast(list[Message], ["what?"]), assistant("hello"))
            return Stop.FINISHED

    rollout = await attempt(Blurting()).play()
    assert rollout.outcome is Outcome.AGENT_FAILED


@pytest.mark.parametrize("depth", [100, 190, 200, 230, 300, 900])
async def test_deeply_nested_arguments_are_the_models_and_scored(attempt: Player, depth: int) -> None:
    model = TellModel([calls(("add", '{"step":' * depth + "1" + "}" * depth)), "done"])
    rollout = await attempt(ToolLoop(), model).play()
    assert rollout.outcome is Outcome.SCORED
    assert rollout.turns[0].tool_calls[0].is_error
    assert type(rollout).model_validate_json(rollout.model_dump_json()) == rollout


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "1e999", "-0.0"])
async def test_absurd_numbers_are_the_models_and_scored(attempt: Player, number: str) -> None:
    model = TellModel([calls(("add", '{"step":' + number + "}")), "done"])
    rollout = await attempt(ToolLoop(), model).play()
    assert rollout.outcome is Outcome.SCORED
    assert type(rollout).model_validate_json(rollout.model_dump_json()) == rollout


async def test_a_call_cut_by_the_time_limit_is_a_gap(attempt: Player) -> None:
    model = TellModel([calls(("add", "{}"), ("wait", "{}"))])
    with anyio.fail_after(30):
        rollout = await attempt(ToolLoop(), model, limits=Limits(max_seconds=1)).play()
    assert [call.name for call in rollout.turns[0].tool_calls] == ["add"]
    assert "tool_calls" in rollout.gaps
    assert rollout.timings.tool > 0


async def test_parallel_generations_do_not_pass_the_turn_limit(attempt: Player) -> None:
    class Sampling(Null):
        async def play(self, seat: Seat) -> Stop:
            async with anyio.create_task_group() as group:
                for _ in range(6):
                    group.start_soon(seat.generate, seat.messages)
            return Stop.FINISHED

    rollout = await attempt(Sampling(), TellModel(["hello"]), limits=Limits(max_turns=2)).play()
    assert len(rollout.turns) <= 2
    assert (rollout.outcome, rollout.stop) == (Outcome.SCORED, Stop.TURN_LIMIT)


async def test_an_agent_may_shorten_its_conversation_and_go_on(attempt: Player) -> None:
    class Shortening(Null):
        async def play(self, seat: Seat) -> Stop:
            try:
                await seat.generate(seat.messages)
            except EpisodeStop:
                await seat.generate(seat.messages[-1:])
            return Stop.FINISHED

    rollout = await attempt(Shortening(), TellModel([ContextLimitError("too long"), "hello"])).play()
    assert (rollout.outcome, rollout.stop) == (Outcome.SCORED, Stop.FINISHED)


async def test_what_an_agent_does_after_it_submitted_changes_nothing(attempt: Player) -> None:
    class Tripping(Null):
        async def play(self, seat: Seat) -> Stop:
            said = await seat.generate(seat.messages)
            await seat.call_tools(said.tool_requests)
            raise ValueError("too late")

    class Lingering(Tripping):
        async def play(self, seat: Seat) -> Stop:
            try:
                return await super().play(seat)
            except ValueError:
                await anyio.sleep_forever()
                raise

    submission = calls(("submit", '{"answer": "2"}'))
    for agent, limits in ((Tripping(), Limits()), (Lingering(), Limits(max_seconds=1))):
        with anyio.fail_after(30):
            rollout = await attempt(agent, TellModel([submission]), limits=limits).play()
        assert (rollout.outcome, rollout.stop, rollout.answer) == (Outcome.SCORED, Stop.SUBMITTED, "2")


async def test_a_stop_that_an_agent_raises_itself_is_a_stop(attempt: Player) -> None:
    class Weary(Null):
        async def play(self, seat: Seat) -> Stop:
            raise EpisodeStop(Stop.TURN_LIMIT)

    rollout = await attempt(Weary(), TellModel([])).play()
    assert (rollout.outcome, rollout.stop) == (Outcome.SCORED, Stop.TURN_LIMIT)
