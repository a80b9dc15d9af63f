"""ATIF, Harbor's trajectory format (1.0 to 1.8), as a conversation: steps of a system, a user and an agent."""

from typing import Any

from rollouthub.analysis.foreign_runs.foreign_messages import (
    Role,
    as_count,
    as_list,
    as_number,
    as_object,
    as_text,
    chat_content,
    tool_request,
)
from rollouthub.analysis.foreign_runs.foreign_record import SaidMessage, moment
from rollouthub.messages import Message
from rollouthub.rollout import Usage
from rollouthub.values import Float32s, Int32s

_ROLES: dict[str, Role] = {"system": "system", "user": "user", "agent": "assistant"}


def is_trajectory(value: dict[str, Any]) -> bool:
    """Whether an object is a trajectory."""
    return str(value.get("schema_version")).startswith("ATIF") and isinstance(value.get("steps"), list)


def said_in(trajectory: dict[str, Any], media: dict[str, bytes], start: float | None = None) -> list[SaidMessage]:
    """The conversation of a trajectory; `start` is the Unix time that times count from, by default the first step's.

    Raises:
        ValueError: a step is of an unknown source, or the values of its token ids are none.
    """
    said: list[SaidMessage] = []
    for step in map(as_object, as_list(trajectory.get("steps"))):
        role = _ROLES.get(str(step.get("source")))
        if role is None:
            raise ValueError(f"a step has the unknown source {step.get('source')!r:.60}")
        at = moment(step.get("timestamp"))
        start = at if start is None else start
        extra = as_object(step.get("extra"))
        content, _ = chat_content(role, step.get("message"), media)
        requests = tuple(
            tool_request(
                {
                    "id": call.get("tool_call_id"),
                    "name": call.get("function_name"),
                    "arguments": as_object(call.get("extra")).get("text", call.get("arguments")),
                },
                place,
            )
            for place, call in enumerate(map(as_object, as_list(step.get("tool_calls"))))
        )
        message = Message(
            role=role, content=content, reasoning=as_text(step.get("reasoning_content")), tool_requests=requests
        )
        is_sampled = role == "assistant" and step.get("llm_call_count") != 0 and not step.get("is_copied_context")
        since = max(0.0, at - start) if at is not None and start is not None else 0.0
        said.append(SaidMessage(message, is_sampled=is_sampled, turn=_turn(step, extra, since) if is_sampled else {}))
        said += _observed(step, media)
    return said


def _turn(step: dict[str, Any], extra: dict[str, Any], since: float) -> dict[str, Any]:
    metrics = as_object(step.get("metrics"))
    prompt, output, logprobs = (
        as_list(metrics.get(name)) for name in ("prompt_token_ids", "completion_token_ids", "logprobs")
    )
    turn: dict[str, Any] = {
        "usage": Usage(
            prompt_tokens=as_count(metrics.get("prompt_tokens")),
            output_tokens=as_count(metrics.get("completion_tokens")),
            cached_tokens=as_count(metrics.get("cached_tokens")),
        ),
        "cost": as_number(metrics.get("cost_usd")),
        "model": as_text(step.get("model_name")),
        "finish_reason": as_text(extra.get("finish_reason")),
        "started": since,
        "seconds": max(0.0, as_number(extra.get("seconds")) or 0.0),
    }
    if prompt and output:
        turn |= {"prompt_token_ids": Int32s(prompt), "output_token_ids": Int32s(output), "token_source": "engine"}
        if len(logprobs) == len(output):
            turn["output_logprobs"] = Float32s(logprobs)
    return turn


def _observed(step: dict[str, Any], media: dict[str, bytes]) -> list[SaidMessage]:
    """What a step's tools answered, or what its actions led to."""
    said: list[SaidMessage] = []
    for result in map(as_object, as_list(as_object(step.get("observation")).get("results"))):
        content, _ = chat_content("tool", result.get("content"), media)
        extra = as_object(result.get("extra"))
        message = Message(role="tool", content=content, tool_call_id=as_text(result.get("source_call_id")))
        call = {
            "is_error": bool(extra.get("is_error", False)),
            "seconds": max(0.0, as_number(extra.get("seconds")) or 0.0),
        }
        said.append(SaidMessage(message, call=call))
    return said
