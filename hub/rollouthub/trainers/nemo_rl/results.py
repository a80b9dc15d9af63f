"""A rollout as a NeMo Gym result: the form that its agents return, its files hold, and NeMo-RL trains on."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_types import Tool

from rollouthub.export import NotTrainable, Refusal, RefusalReason, TaskReference, check_one_seat, training_rows
from rollouthub.export.shown_tools import shown_tools
from rollouthub.export.task_rows import COLUMN
from rollouthub.export.training_row import TrainingRow
from rollouthub.models.response_items import Bytes, input_items, tool_params, words
from rollouthub.rollout import Rollout
from rollouthub.trainers.nemo_rl.response_items import TOKEN_FIELDS, output_items, usage_of
from rollouthub.trainers.pictures.shown_pictures import no_pictures

AGENT = "rollouthub"
"""The agent's name in rows whose writer names none."""

Result = dict[str, Any]
FirstTokens = tuple[Sequence[int], int]


def gym_result(
    rollout: Rollout,
    *,
    tools: Sequence[Tool] = (),
    agent: str = AGENT,
    task_index: int = 0,
    rollout_index: int = 0,
    media: Bytes | None = None,
    seat: str | None = None,
) -> Result:
    """A rollout as a result row: the request, output items with token ids, the reward and its components.

    `tools` are all tools of the environment; the row lists those that the model was shown. Token ids are contiguous:
    the prompt of each item is all tokens before it. `media` returns a picture's bytes by its digest, if pictures are to
    be included.

    Raises:
        NotTrainable: the rollout must not be trained on, makes several rows, or has only masked tokens; or several
        seats are trained, and `seat` names none.
        ConfigError: the rollout shows pictures, and `media` is not given.
    """
    if media is None:
        no_pictures([rollout])
    row = _only_row(rollout, seat)
    known = {turn.index: turn for turn in rollout.turns}
    turns = [known[index] for index in row.turns]
    output = output_items(turns, row.segment, media)
    if not any(TOKEN_FIELDS[0] in item for item in output):
        raise NotTrainable(RefusalReason(Refusal.FILTERED, "all that it sampled is masked", rollout.rollout_id))
    shown = shown_tools(rollout, turns, tools) if tools else ()
    params: dict[str, Any] = {"input": input_items(turns[0].messages, media), "tools": tool_params(shown)}
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
        "reward": row.reward,
        "agent_ref": {"type": "responses_api_agents", "name": agent},
        "_ng_task_index": task_index,
        "_ng_rollout_index": rollout_index,
        COLUMN: str(TaskReference.of(rollout)),
        "rollout_id": rollout.rollout_id,
        "policy_version_min": rollout.policy_version_min,
        "policy_version_max": rollout.policy_version_max,
        "truncated": row.is_truncated,
    }
    return result | _components(rollout)


def _components(rollout: Rollout) -> Result:
    """The reward's parts, if it has any; weighted, as NeMo-RL checks that they add up to the reward."""
    assert rollout.score is not None
    parts = {name: part.value * part.weight for name, part in rollout.score.components.items()}
    return {"reward_components": parts} if parts else {}


def _only_row(rollout: Rollout, seat: str | None) -> TrainingRow:
    """The one row that a rollout makes.

    Raises:
        NotTrainable: it must not be trained on, makes several rows, or several seats are trained and `seat` names none.
    """
    rows = training_rows(rollout, seat=seat)
    if seat is None:
        check_one_seat(rollout, "a result of NeMo Gym's")
    if len(rows) > 1:
        reason = f"it makes {len(rows)} rows, and a result of NeMo Gym is one conversation"
        raise NotTrainable(RefusalReason(Refusal.FORKED, reason, rollout.rollout_id))
    return rows[0]


def first_tokens(rollout: Rollout, seat: str | None = None) -> FirstTokens | None:
    """The token ids of the first prompt of the trained seat, and its first sampled token; None if no engine reported
    ids.
    """
    turn = next((turn for turn in rollout.policy_turns if seat in (None, turn.agent)), None)
    if turn is None or not turn.prompt_token_ids or not turn.output_token_ids:
        return None
    return list(turn.prompt_token_ids), next(iter(turn.output_token_ids))


def masked_result(row: Mapping[str, Any], refused: RefusalReason, tokens: FirstTokens, reward: float) -> Result:
    """A result for a row whose rollout must not be trained on: NeMo-RL masks its sample in the loss.

    It holds the group's prompt, by which NeMo-RL recognises groups, and one token. NeMo-RL cannot represent a missing
    reward: `reward` is the mean of the group's scored members, which leaves the group's mean unchanged.
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
