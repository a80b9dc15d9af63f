"""A rollout as a result of NeMo Gym: what its agents answer, its files hold, and NeMo-RL learns from."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_types import Tool

from rollouthub.export import NotTrainable, Refusal, RefusalReason, TaskReference, training_rows
from rollouthub.export.shown_tools import shown_tools
from rollouthub.export.task_rows import COLUMN
from rollouthub.rollout import Rollout
from rollouthub.trainers.nemo_rl.response_items import (
    TOKEN_FIELDS,
    input_items,
    output_items,
    tool_params,
    usage_of,
    words,
)

AGENT = "rollouthub"
"""The agent that rows name where their writer gives none."""

Result = dict[str, Any]
FirstTokens = tuple[Sequence[int], int]


def gym_result(
    rollout: Rollout, *, tools: Sequence[Tool] = (), agent: str = AGENT, task_index: int = 0, rollout_index: int = 0
) -> Result:
    """A rollout as a result row: what was asked, items with token ids, reward and its components.

    `tools` are all of its environment; the row has those that the model was shown.
    Token ids are contiguous: each item's prompt is all that stands before it.

    Raises:
        NotTrainable: it is not to be learnt from, forked into several rows, or nothing of it was sampled to be learnt.
    """
    rows = training_rows(rollout)
    if len(rows) > 1:
        reason = f"it makes {len(rows)} rows, and a result of NeMo Gym is one conversation"
        raise NotTrainable(RefusalReason(Refusal.FORKED, reason, rollout.rollout_id))
    segment = rows[0].segment
    known = {turn.index: turn for turn in rollout.turns}
    turns = [known[index] for index in rows[0].turns]
    output = output_items(turns, segment)
    if not any(TOKEN_FIELDS[0] in item for item in output):
        raise NotTrainable(RefusalReason(Refusal.FILTERED, "all that it sampled is masked", rollout.rollout_id))
    shown = shown_tools(rollout, turns, tools) if tools else ()
    params: dict[str, Any] = {"input": input_items(turns[0].messages), "tools": tool_params(shown)}
    result: Result = {
        "responses_create_params": params,
        "response": {
            "id": f"resp-{rollout.rollout_id}",
            "object": "response",
            "created_at": rollout.started_at,
            "model": rollout.model or "policy",
            "status": "completed",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": params["tools"],
            "usage": usage_of(rollout),
        },
        "reward": rows[0].reward,
        "agent_ref": {"type": "responses_api_agents", "name": agent},
        "_ng_task_index": task_index,
        "_ng_rollout_index": rollout_index,
        COLUMN: str(TaskReference.of(rollout)),
        "rollout_id": rollout.rollout_id,
        "policy_version_min": rollout.policy_version_min,
        "policy_version_max": rollout.policy_version_max,
        "truncated": rows[0].is_truncated,
    }
    assert rollout.score is not None
    if rollout.score.components:
        # Weighted: NeMo-RL checks that they add up to the reward.
        parts = rollout.score.components.items()
        result["reward_components"] = {name: part.value * part.weight for name, part in parts}
    return result


def first_tokens(rollout: Rollout) -> FirstTokens | None:
    """The prompt that a rollout began with, and the first token that was sampled; None where no engine said."""
    if not rollout.turns:
        return None
    turn = rollout.turns[0]
    if not turn.prompt_token_ids or not turn.output_token_ids:
        return None
    return list(turn.prompt_token_ids), next(iter(turn.output_token_ids))


def masked_result(row: Mapping[str, Any], refused: RefusalReason, tokens: FirstTokens, reward: float) -> Result:
    """A result for a row whose rollout must not be learnt from: NeMo-RL masks its sample from the loss.

    It holds the group's prompt, by which NeMo-RL tells groups apart, and one token. NeMo-RL has no word for no reward:
    `reward` is the mean of the group's others, which leaves that mean as it was.
    """
    item = {
        **words("masked", ""),
        "status": "incomplete",
        **dict(zip(TOKEN_FIELDS, (list(tokens[0]), [tokens[1]], [0.0]), strict=True)),
    }
    return {
        "responses_create_params": dict(row["responses_create_params"]),
        "response": {
            "id": f"resp-{refused.rollout_id}",
            "object": "response",
            "created_at": 0.0,
            "model": "policy",
            "status": "incomplete",
            "output": [item],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": row["responses_create_params"].get("tools", []),
        },
        "reward": reward,
        "agent_ref": row["agent_ref"],
        "instance_config": {"mask_sample": True},
        "rollout_id": refused.rollout_id,
        "refused": refused.refusal.value,
        "refused_reason": refused.reason,
    }
