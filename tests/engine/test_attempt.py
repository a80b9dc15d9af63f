"""One attempt, from setup to close: what breaks is typed, what is limited is scored."""

import anyio
import pytest
from mcp_types import CallToolResult, ImageContent, TextContent

from rollouthub import Limits, Media, ModelError, ModelReply, Outcome, Sampling, Stop, ToolRequest, tool
from rollouthub.engine.attempt import Attempt
from rollouthub.errors import ContextLimitError
from rollouthub.limits import Deadlines
from rollouthub.messages import assistant
from rollouthub.protocols import Seat
from rollouthub.values import Float32s, Int32s
from rollouthub_agents.null import Null
from rollouthub_agents.oracle import Oracle
from rollouthub_agents.single_turn import SingleTurn
from rollouthub_agents.tool_loop import ToolLoop

from .conftest import Counter, Player, TellModel, calls


async def test_tool_loop_plays_and_is_scored(attempt: Player) -> None:
    model = TellModel([calls(("add", "{}")), calls(("add", '{"step": 1}')), "done"])
    rollout = await attempt(ToolLoop(), model).play()
    assert rollout.outcome is Outcome.SCORED
    assert rollout.reward == 1.0
    assert rollout.stop is Stop.FINISHED
    assert [turn.parent_turn for turn in rollout.turns] == [None, 0, 1]
    assert [call.name for turn in rollout.turns for call in turn.tool_calls] == ["add", "add"]
    assert [message.role for message in rollout.turns[1].messages] == ["tool"]
    assert rollout.score is not None
    assert rollout.score.verifier is not None


async def test_parallel_calls_run_at_once_and_keep_their_order(attempt: Player) -> None:
    model = TellModel([calls(("wait", "{}"), ("add", "{}")), "done"])
    playing = attempt(ToolLoop(), model, deadlines=Deadlines(tool_call=0.5))
    with anyio.fail_after(20):
        rollout = await playing.play()
    answers = rollout.turns[1].messages
    assert [answer.tool_call_id for answer in answers] == ["call-0", "call-1"]
    assert "stopped after" in answers[0].text
    assert answers[1].text == "1"
    wait, add = sorted(rollout.turns[0].tool_calls, key=lambda call: call.id)
    assert add.started + add.seconds < wait.started + wait.seconds
    assert wait.is_error
    assert rollout.outcome is Outcome.SCORED


@pytest.mark.parametrize(
    ("place", "outcome", "phase"),
    [
        ("setup", Outcome.ENVIRONMENT_FAILED, "setup"),
        ("tool", Outcome.ENVIRONMENT_FAILED, "agent"),
        ("verify", Outcome.VERIFIER_FAILED, "verify"),
    ],
)
async def test_what_breaks_decides_the_outcome(attempt: Player, place: str, outcome: Outcome, phase: str) -> None:
    rollout = await attempt(Oracle(), breaks_in=place).play()
    assert rollout.outcome is outcome
    assert rollout.score is None
    assert rollout.reward is None
    assert rollout.faults[0].phase == phase
    assert f"broken in {place}" in rollout.faults[0].message


async def test_a_rude_close_leaves_the_score_standing(attempt: Player) -> None:
    rollout = await attempt(Oracle(), breaks_in="close").play()
    assert rollout.reward == 1.0
    assert [fault.phase for fault in rollout.faults] == ["close"]


async def test_a_tool_fault_is_a_fixed_sentence_to_the_model(attempt: Player) -> None:
    model = TellModel([calls(("add", "{}")), "done"])
    rollout = await attempt(ToolLoop(), model, breaks_in="tool").play()
    said = rollout.turns[1].messages[0].text
    assert "broken" not in said
    assert "fault in the environment" in said


async def test_a_tool_error_speaks_to_the_model_and_is_scored(attempt: Player) -> None:
    model = TellModel([calls(("add", '{"step": -1}')), "done"])
    rollout = await attempt(ToolLoop(), model).play()
    assert rollout.turns[1].messages[0].text == "only upwards"
    assert rollout.turns[0].tool_calls[0].is_error
    assert rollout.outcome is Outcome.SCORED


@pytest.mark.parametrize(
    "arguments", ["{not json", "[1]", '{"step": "1"}', '{"stepp": 1}', '{"step": NaN}', '"\\ud800"', "[" * 5000]
)
async def test_malformed_arguments_are_the_models_and_scored(attempt: Player, arguments: str) -> None:
    model = TellModel([calls(("add", arguments)), "done"])
    rollout = await attempt(ToolLoop(), model).play()
    assert rollout.outcome is Outcome.SCORED
    assert rollout.reward == 0.0
    assert rollout.turns[0].tool_calls[0].is_error
    assert type(rollout).model_validate_json(rollout.model_dump_json()) == rollout


async def test_an_unknown_tool_is_the_models_and_scored(attempt: Player) -> None:
    rollout = await attempt(ToolLoop(), TellModel([calls(("ad", "{}")), "done"])).play()
    assert "unknown tool 'ad'" in rollout.turns[1].messages[0].text
    assert rollout.outcome is Outcome.SCORED


async def test_model_failure_is_not_the_agents(attempt: Player) -> None:
    rollout = await attempt(ToolLoop(), TellModel([ModelError("no answer", status=500)])).play()
    assert rollout.outcome is Outcome.MODEL_FAILED
    assert rollout.faults[0].boundary == "model"
    assert rollout.faults[0].status == 500
    assert rollout.faults[0].retryable


async def test_a_crashing_agent_is_an_agent_failure(attempt: Player) -> None:
    class Crashing(Null):
        name = "crashing"

        async def play(self, seat: Seat) -> Stop:
            raise ZeroDivisionError("oops")

    rollout = await attempt(Crashing()).play()
    assert rollout.outcome is Outcome.AGENT_FAILED
    assert "ZeroDivisionError: oops" in rollout.faults[0].message


@pytest.mark.parametrize(
    ("limits", "stop", "turns"),
    [
        (Limits(max_turns=3), Stop.TURN_LIMIT, 3),
        (Limits(max_tokens=10), Stop.TOKEN_LIMIT, 2),
        (Limits(max_cost=0.5), Stop.COST_LIMIT, 1),
    ],
)
async def test_a_limit_stops_the_agent_and_is_scored(attempt: Player, limits: Limits, stop: Stop, turns: int) -> None:
    told = calls(("add", "{}"))
    reply = await TellModel([told]).generate(None)  # pyright: ignore[reportArgumentType]  # the request is only kept
    priced = ModelReply(message=told, finish_reason="tool_calls", usage=reply.usage, cost=0.75)
    rollout = await attempt(ToolLoop(), TellModel([priced]), limits=limits).play()
    assert rollout.stop is stop
    assert len(rollout.turns) == turns
    assert rollout.outcome is Outcome.SCORED


async def test_the_time_limit_is_scored_but_the_agent_deadline_is_a_failure(attempt: Player) -> None:
    model = TellModel([calls(("wait", "{}"))])
    with anyio.fail_after(5):
        limited = await attempt(ToolLoop(), model, limits=Limits(max_seconds=0.05)).play()
        stuck = await attempt(ToolLoop(), model, deadlines=Deadlines(agent=0.05)).play()
    assert (limited.outcome, limited.stop) == (Outcome.SCORED, Stop.TIME_LIMIT)
    assert stuck.outcome is Outcome.AGENT_FAILED


async def test_the_hard_deadline_ends_everything(attempt: Player) -> None:
    with anyio.fail_after(5):
        rollout = await attempt(
            ToolLoop(), TellModel([calls(("wait", "{}"))]), deadlines=Deadlines(episode=0.05)
        ).play()
    assert rollout.outcome is Outcome.ENVIRONMENT_FAILED
    assert "not over after" in rollout.faults[0].message


async def test_token_limit_caps_what_is_asked_of_the_model(attempt: Player) -> None:
    model = TellModel([calls(("add", "{}"))])
    await attempt(ToolLoop(), model, limits=Limits(max_tokens=12, max_response_tokens=8)).play()
    assert [request.sampling.max_tokens for request in model.requests] == [8, 7, 2]


async def test_a_full_context_is_a_stop(attempt: Player) -> None:
    rollout = await attempt(ToolLoop(), TellModel([calls(("add", "{}")), ContextLimitError("too long")])).play()
    assert (rollout.outcome, rollout.stop) == (Outcome.SCORED, Stop.CONTEXT_LIMIT)
    assert rollout.reward == 0.5


async def test_a_cut_answer_stops_at_the_token_limit(attempt: Player) -> None:
    cut = ModelReply(message=assistant("I was going to"), finish_reason="length")
    rollout = await attempt(SingleTurn(), TellModel([cut])).play()
    assert rollout.stop is Stop.TOKEN_LIMIT


async def test_submit_ends_the_episode(attempt: Player) -> None:
    model = TellModel([calls(("submit", '{"answer": "2"}')), calls(("add", "{}"))])
    rollout = await attempt(ToolLoop(), model).play()
    assert rollout.stop is Stop.SUBMITTED
    assert rollout.answer == "2"
    assert len(model.requests) == 1


async def test_null_does_nothing_and_is_scored(attempt: Player) -> None:
    rollout = await attempt(Null()).play()
    assert (rollout.outcome, rollout.reward, rollout.turns) == (Outcome.SCORED, 0.0, ())


async def test_the_oracle_is_never_trainable(attempt: Player) -> None:
    rollout = await attempt(Oracle()).play()
    assert rollout.reward == 1.0
    assert not rollout.trainable
    assert rollout.trainable_reason == "played the reference solution"


async def test_engine_tokens_make_a_rollout_trainable(attempt: Player) -> None:
    ids, logprobs = Int32s([5, 6]), Float32s([-0.1, -0.2])
    reply = ModelReply(
        message=assistant("done"),
        finish_reason="stop",
        prompt_token_ids=Int32s([1, 2, 3]),
        output_token_ids=ids,
        output_logprobs=logprobs,
        policy_version=4,
    )
    rollout = await attempt(ToolLoop(), TellModel([reply])).play()
    assert rollout.trainable
    assert rollout.turns[0].token_source == "engine"
    assert rollout.turns[0].output_token_ids == ids
    assert (rollout.policy_version_min, rollout.policy_version_max) == (4, 4)
    assert not rollout.gaps


async def test_versions_of_single_tokens_are_recorded_and_span_the_rollout(attempt: Player) -> None:
    ids, logprobs, versions = Int32s([7, 8, 9]), Float32s([-0.1, -0.2, -0.3]), Int32s([4, 4, 6])
    reply = ModelReply(
        message=assistant("done"),
        finish_reason="stop",
        prompt_token_ids=Int32s([1]),
        output_token_ids=ids,
        output_logprobs=logprobs,
        policy_version=4,
        policy_versions=versions,
    )
    rollout = await attempt(ToolLoop(), TellModel([reply])).play()
    assert rollout.turns[0].policy_versions == versions
    assert (rollout.policy_version_min, rollout.policy_version_max) == (4, 6)


async def test_text_without_ids_is_recorded_as_a_gap(attempt: Player) -> None:
    rollout = await attempt(ToolLoop(), TellModel(["done"])).play()
    assert not rollout.trainable
    assert rollout.gaps == ("token_ids", "logprobs")
    assert rollout.turns[0].token_source == "none"


async def test_cancellation_leaves_a_record(attempt: Player) -> None:
    states: list[str] = []
    reached = anyio.Event()

    def track(attempt: Attempt) -> None:
        states.append(attempt.state)
        if attempt.state == "tool":
            reached.set()

    playing = attempt(ToolLoop(), TellModel([calls(("wait", "{}"))]), track=track)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(playing.play)
            await reached.wait()
            group.cancel_scope.cancel()
    record = playing.cancelled()
    assert (record.outcome, record.stop) == (Outcome.CANCELLED, Stop.CANCELLED)
    assert record.score is None
    assert len(record.turns) == 1
    assert states[:3] == ["setup", "model", "tool"]


async def test_pictures_are_set_aside_by_digest(attempt: Player) -> None:
    class Painter(Counter):
        @tool
        async def paint(self) -> CallToolResult:
            """A picture."""
            return CallToolResult(content=[ImageContent(data="aGVsbG8=", mime_type="image/png")])

    playing = attempt(ToolLoop(), TellModel([calls(("paint", "{}")), "done"]), environment=Painter)
    rollout = await playing.play()
    (part,) = rollout.turns[1].messages[0].content
    assert isinstance(part, Media)
    assert playing.media == {part.digest: b"hello"}
    recorded = rollout.turns[0].tool_calls[0].result.content[0]
    assert isinstance(recorded, ImageContent)
    assert recorded.data == part.digest
    assert "aGVsbG8" not in rollout.model_dump_json()


async def test_the_policy_seed_reaches_the_model_only_when_given(attempt: Player) -> None:
    model = TellModel(["done"])
    await attempt(ToolLoop(), model, sampling=Sampling(temperature=0.5)).play()
    assert model.requests[0].sampling.seed is None
    assert model.requests[0].sampling.temperature == 0.5


async def test_an_agent_that_calls_before_it_speaks_has_failed(attempt: Player) -> None:
    class Mute(Null):
        async def play(self, seat: Seat) -> Stop:
            await seat.call_tools([ToolRequest(id="1", name="add", arguments="{}")])
            return Stop.FINISHED

    rollout = await attempt(Mute()).play()
    assert rollout.outcome is Outcome.AGENT_FAILED


async def test_half_a_surrogate_pair_from_a_tool_is_recorded_as_a_question_mark(attempt: Player) -> None:
    class Torn(Counter):
        @tool
        async def tear(self) -> CallToolResult:
            """Broken text."""
            return CallToolResult(content=[TextContent(text="a\ud800b")])

    rollout = await attempt(ToolLoop(), TellModel([calls(("tear", "{}")), "done"]), environment=Torn).play()
    assert rollout.turns[1].messages[0].text == "a?b"
    assert type(rollout).model_validate_json(rollout.model_dump_json()) == rollout


async def test_a_picture_that_is_none_is_the_environments_fault(attempt: Player) -> None:
    class Smudge(Counter):
        @tool
        async def paint(self) -> CallToolResult:
            """No picture."""
            return CallToolResult(content=[ImageContent(data="a", mime_type="image/png")])

    rollout = await attempt(ToolLoop(), TellModel([calls(("paint", "{}")), "done"]), environment=Smudge).play()
    assert rollout.outcome is Outcome.ENVIRONMENT_FAILED
