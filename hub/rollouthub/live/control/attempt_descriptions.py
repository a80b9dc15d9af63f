"""Converts attempts in flight to the protocol's types."""

import json

from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.recorder import OpenTurn
from rollouthub.live.control.live_views import CallView, RolloutDetails, RolloutView, SaidView, TurnView
from rollouthub.messages import Message
from rollouthub.rollout import ToolCall
from rollouthub.text import plain, plain_name

MOST_TURNS = 200
"""Most turns shown of one rollout (the latest)."""
MOST_CALLS = 100
"""Most tool calls, and most messages, shown of one turn."""
TEXT_CHARACTERS = 20_000
"""Most characters of one message, or of one tool's result."""
CONTENT_CHARACTERS = 1_000_000
"""Most characters of all content in one answer."""


def rollout_view(attempt: InFlight) -> RolloutView:
    """An attempt in flight, as a line of a list."""
    sample, recorder = attempt.sample, attempt.recorder
    return RolloutView(
        rollout_id=sample.rollout_id,
        environment=plain_name(sample.context.environment.name),
        task_id=plain_name(sample.task_ref.id),
        sample=sample.index,
        attempt=attempt.number,
        state=attempt.state,
        turn=recorder.turn_count,
        output_tokens=recorder.output_tokens,
        seconds=round(recorder.now(), 3),
    )


def shown_rollout(attempt: InFlight, *, with_content: bool) -> RolloutDetails:
    """The details of one rollout; its content only if asked for, and only the latest part if there is too much."""
    context, recorder = attempt.sample.context, attempt.recorder
    left = CONTENT_CHARACTERS
    shown: list[TurnView] = []
    for turn in reversed(recorder.turns):
        if len(shown) == MOST_TURNS or left <= 0:
            break
        view = _turn(turn, with_content)
        left -= sum(len(said.text) for said in view.messages or ())
        left -= sum(len(call.arguments or "") + len(call.result or "") for call in view.calls)
        shown.insert(0, view)
    return RolloutDetails(
        **dict(rollout_view(attempt)),
        seed=attempt.sample.seed,
        agent=plain_name(context.agent_ref.name),
        model=None if context.model is None else plain_name(context.model.name),
        limits=attempt.limits,
        retuned=attempt.limits is not context.limits,
        cost=recorder.cost,
        model_seconds=round(recorder.model_seconds, 3),
        tool_seconds=round(recorder.tool_seconds, 3),
        turns=tuple(shown),
        turns_left_out=recorder.turn_count - len(shown),
    )


def asked(turn: OpenTurn) -> tuple[str, ...]:
    """Names of the tools that a turn called."""
    return tuple(plain_name(request.name) for request in turn.response.tool_requests[:MOST_CALLS])


def finish_reason(turn: OpenTurn) -> str | None:
    """The finish reason that the model's server gave."""
    reason = None if turn.reply is None else turn.reply.finish_reason
    return None if reason is None else plain_name(reason)


def turn_tokens(turn: OpenTurn) -> int:
    """Number of tokens in the model's answer, as recorded; 0 if no model answered."""
    return 0 if turn.reply is None else turn.reply.usage.output_tokens


def _turn(turn: OpenTurn, with_content: bool) -> TurnView:
    said: tuple[SaidView, ...] | None = None
    if with_content:
        said = tuple(_said(message) for message in (*turn.added[-MOST_CALLS:], turn.response))
    return TurnView(
        index=turn.index,
        parent_turn=turn.parent,
        agent=plain_name(turn.agent),
        finish_reason=finish_reason(turn),
        output_tokens=turn_tokens(turn),
        seconds=round(turn.seconds, 3),
        asked=asked(turn),
        calls=tuple(_call(call, with_content) for call in turn.tool_calls[:MOST_CALLS]),
        messages=said,
    )


def _said(message: Message) -> SaidView:
    text = message.text if not message.reasoning else f"{message.reasoning}\n\n{message.text}"
    return SaidView(role=message.role, text=plain(text, TEXT_CHARACTERS))


def _call(call: ToolCall, with_content: bool) -> CallView:
    arguments = result = None
    if with_content:
        arguments = plain(json.dumps(call.arguments, ensure_ascii=False), TEXT_CHARACTERS)
        texts = (getattr(block, "text", f"[{block.type}]") for block in call.result.content[:MOST_CALLS])
        result = plain("\n".join(texts), TEXT_CHARACTERS)
    return CallView(
        name=plain_name(call.name),
        outcome="error" if call.is_error else "ok",
        seconds=round(call.seconds, 3),
        arguments=arguments,
        result=result,
    )
