"""ATIF, Harbor's trajectory format (version 1.8): one row per rollout, with its steps.

Further seats are trajectories nested in the first seat's. Facts without an ATIF field are in `extra`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mcp_types import ImageContent, TextContent

from rollouthub.export.conversation import has_engine_ids, parsed_arguments
from rollouthub.export.formats.data_columns import IDENTITY, Columns, Row, identity
from rollouthub.export.left_out import LeftOut
from rollouthub.export.not_trainable import Need, Refusal, why_refused
from rollouthub.export.recipe import Recipe
from rollouthub.export.scored_group import RunSource, ScoredGroup
from rollouthub.messages import Media, Message
from rollouthub.rollout import Rollout, ToolCall, Turn

VERSION = "ATIF-v1.8"
TRAJECTORY = "trajectory"
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
Json = dict[str, Any]


class Atif:
    """One row per rollout: its trajectory."""

    options = frozenset({"untrainable", "all_attempts"})
    takes_whole_groups = False
    line_column = TRAJECTORY

    def has_tokens(self, recipe: Recipe) -> bool:
        """True unless the recipe excludes token ids."""
        return recipe.tokens is not False

    def need(self, recipe: Recipe) -> Need:
        """Text only; token ids are included where the engine reported them."""
        return "text"

    def columns(self, recipe: Recipe, has_images: bool) -> Columns:
        """The columns of a table; a line of JSON holds only the trajectory."""
        return [
            (TRAJECTORY, "json"),
            ("rollout_id", "text"),
            *IDENTITY,
            ("sample", "small"),
            ("attempt", "small"),
            ("outcome", "text"),
            ("reward", "real"),
            ("passed", "truth"),
        ]

    def rows(self, group: ScoredGroup, recipe: Recipe, left_out: LeftOut) -> Iterator[Row]:
        """The rows of a group."""
        for rollout in group.rollouts:
            try:
                trajectory = _trajectory(rollout, group.source, with_tokens=self.has_tokens(recipe))
            except (ValueError, OverflowError, OSError) as error:  # also of a time that no calendar has
                left_out.add(Refusal.CORRUPT.value, rollout.rollout_id, str(error))
                continue
            if trajectory is None:
                left_out.add(Refusal.NO_TURNS.value, rollout.rollout_id, "no agent said anything in it")
                continue
            yield {
                TRAJECTORY: trajectory,
                "rollout_id": rollout.rollout_id,
                **identity(rollout, token_exact=has_engine_ids(rollout.turns)),
                "sample": rollout.sample,
                "attempt": rollout.attempt,
                "outcome": rollout.outcome.value,
                "reward": rollout.reward,
                "passed": rollout.score.passed if rollout.score is not None else None,
            }


def _trajectory(rollout: Rollout, source: RunSource, *, with_tokens: bool) -> Json | None:
    seats = list(dict.fromkeys(turn.agent for turn in rollout.turns))
    if not seats:
        return None
    made = [_of_seat(rollout, seat, source, with_tokens) for seat in seats]
    first, *others = made
    first["extra"] = _facts(rollout)
    if others:
        first["subagent_trajectories"] = others
    return first


def _of_seat(rollout: Rollout, seat: str, source: RunSource, with_tokens: bool) -> Json:
    agent = {"name": rollout.agent.name, "version": rollout.agent.version, "model_name": rollout.model}
    turns = [turn for turn in rollout.turns if turn.agent == seat]
    tools = source.tools(rollout, turns)
    definitions = None if tools is None else json.loads(tools)
    steps: list[Json] = []
    answered: dict[int, Json] = {}
    for turn in turns:
        parent = None if turn.parent_turn is None else answered.get(turn.parent_turn)
        for message in turn.messages:
            _add_message(steps, message, parent, source)
        answered[turn.index] = _answer(turn, rollout, source, with_tokens)
        steps.append(answered[turn.index])
    costs = [turn.cost for turn in turns if turn.cost is not None]
    return {
        "schema_version": VERSION,
        "session_id": f"{rollout.run_id}/{rollout.rollout_id}",
        "trajectory_id": f"{rollout.rollout_id}/{rollout.attempt}/{seat}",
        "agent": _known({**agent, "tool_definitions": definitions, "extra": {"seat": seat}}),
        "steps": [{"step_id": place, **step} for place, step in enumerate(steps, 1)],
        "final_metrics": _known(
            {
                "total_prompt_tokens": sum(turn.usage.prompt_tokens for turn in turns),
                "total_completion_tokens": sum(turn.usage.output_tokens for turn in turns),
                "total_cached_tokens": sum(turn.usage.cached_tokens for turn in turns),
                "total_cost_usd": sum(costs) if costs else None,
                "total_steps": len(steps),
            }
        ),
    }


def _add_message(steps: list[Json], message: Message, parent: Json | None, source: RunSource) -> None:
    """Add a message to the agent as a step, or as a tool result of its last step if the recorded calls lack that
    result.
    """
    content = _content(message, source)
    if message.role in ("system", "user"):
        steps.append({"source": message.role, "message": content})
    elif message.role == "assistant":  # put in its mouth: nobody sampled it
        steps.append({"source": "agent", "message": content, "llm_call_count": 0})
    elif parent is not None:
        known = {call["tool_call_id"] for call in parent.get("tool_calls", ())}
        results = parent.setdefault("observation", {"results": []})["results"]
        if all(result.get("source_call_id") != message.tool_call_id for result in results):
            result = {"source_call_id": message.tool_call_id if message.tool_call_id in known else None}
            results.append(_known({**result, "content": content}))
    else:
        steps.append({"source": "user", "message": content, "extra": {"role": "tool"}})


def _answer(turn: Turn, rollout: Rollout, source: RunSource, with_tokens: bool) -> Json:
    step: Json = {
        "timestamp": datetime.fromtimestamp(rollout.started_at + turn.started, UTC).isoformat(),
        "source": "agent",
        "model_name": turn.model,
        "message": _content(turn.response, source),
        "reasoning_content": turn.response.reasoning,
        "tool_calls": [_call(request) for request in turn.response.tool_requests] or None,
        "llm_call_count": 1,
        "metrics": _metrics(turn, with_tokens),
        "extra": _known(
            {
                "turn": turn.index,
                "parent_turn": turn.parent_turn,
                "finish_reason": turn.finish_reason,
                "reward": turn.reward,
                "seconds": turn.seconds,
            }
        ),
    }
    known = {request.id for request in turn.response.tool_requests}
    if turn.tool_calls:
        step["observation"] = {"results": [_result(call, known, source) for call in turn.tool_calls]}
    return _known(step)


def _metrics(turn: Turn, with_tokens: bool) -> Json:
    usage = turn.usage
    metrics: Json = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
        "cost_usd": turn.cost,
    }
    if with_tokens and turn.token_source == "engine":
        versions = turn.policy_versions
        metrics |= {
            "prompt_token_ids": turn.prompt_token_ids,
            "completion_token_ids": turn.output_token_ids,
            "logprobs": turn.output_logprobs,
            "extra": _known(
                {
                    "policy_version": turn.policy_version,
                    "policy_versions": versions,
                    "completion_mask": turn.output_mask,
                }
            )
            or None,
        }
    return _known(metrics)


def _call(request: Any) -> Json:
    arguments = parsed_arguments(request)
    call: Json = {"tool_call_id": request.id, "function_name": request.name, "arguments": arguments or {}}
    if arguments is None:
        call["extra"] = {"text": request.arguments}
    return call


def _result(call: ToolCall, known: set[str], source: RunSource) -> Json:
    parts: list[Json] = []
    for block in call.result.content:
        if isinstance(block, TextContent):
            parts.append({"type": "text", "text": block.text})
        elif isinstance(block, ImageContent) and block.mime_type in _IMAGES and block.data.startswith("sha256:"):
            parts.append(_picture(block.mime_type, block.data, source))
        else:
            parts.append({"type": "text", "text": f"[{block.type}]"})
    result: Json = {"source_call_id": call.id if call.id in known else None, "content": _joined(parts)}
    return _known({**result, "extra": {"is_error": call.is_error, "seconds": call.seconds}})


def _content(message: Message, source: RunSource) -> str | list[Json]:
    if isinstance(message.content, str):
        return message.content
    parts: list[Json] = []
    for part in message.content:
        if not isinstance(part, Media):
            parts.append({"type": "text", "text": part.text})
        elif part.mime_type in _IMAGES:
            parts.append(_picture(part.mime_type, part.digest, source))
        else:
            parts.append({"type": "text", "text": f"[{part.mime_type} {source.media(part.digest)}]"})
    return _joined(parts)


def _picture(mime_type: str, digest: str, source: RunSource) -> Json:
    return {"type": "image", "source": {"media_type": mime_type, "path": str(source.media(digest))}}


def _joined(parts: Sequence[Json]) -> str | list[Json]:
    """The parts as one text if all are text; otherwise the list."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return list(parts)


def _facts(rollout: Rollout) -> Json:
    """Facts of the record without an ATIF field. Feedback is left out, because it may reveal the answer."""
    score, refused = rollout.score, why_refused(rollout, "text")
    return _known(
        {
            "run_id": rollout.run_id,
            "rollout_id": rollout.rollout_id,
            "group_id": rollout.group_id,
            "sample": rollout.sample,
            "attempt": rollout.attempt,
            "environment": rollout.environment.name,
            "environment_version": rollout.environment.version,
            "split": rollout.task.split,
            "task_id": rollout.task.id,
            "seed": rollout.seed,
            "outcome": rollout.outcome.value,
            "stop": rollout.stop.value,
            "reward": rollout.reward,
            "passed": None if score is None else score.passed,
            "components": {name: part.value for name, part in score.components.items()} if score is not None else None,
            "policy_version_min": rollout.policy_version_min,
            "policy_version_max": rollout.policy_version_max,
            "trainable": refused is None,
            "trainable_reason": None if refused is None else refused.reason,
            "token_exact": has_engine_ids(rollout.turns),
        }
    )


def _known(fields: Mapping[str, Any]) -> Json:
    """The fields whose value is not None."""
    return {name: value for name, value in fields.items() if value is not None}
