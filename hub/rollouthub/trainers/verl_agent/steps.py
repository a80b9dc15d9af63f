"""verl-agent's step rows of recorded rollouts: one row for each turn, as its advantage estimators read them."""

from collections.abc import Iterator
from typing import Any

from rollouthub.export import Credit, NotTrainable, turn_returns, why_refused
from rollouthub.export.not_trainable import Need
from rollouthub.messages import Message
from rollouthub.rollout import Rollout, Turn
from rollouthub.trainers.verl_agent.observation import anchor

WHOLE = Credit()


def step_rows(rollout: Rollout, credit: Credit = WHOLE, *, need: Need = "logprobs") -> Iterator[dict[str, Any]]:
    """A row for each turn: the ids that were sampled after the prompt they were sampled for, whatever came before.

    `uid` is its group, `traj_uid` its rollout; `rewards` is the turn's own and, on the last, the verdict; `returns` is
    what it and what follows it are worth under `credit`.

    Raises:
        NotTrainable: it is not to be learnt from; says why, by name.
    """
    if (refused := why_refused(rollout, need)) is not None:
        raise NotTrainable(refused)
    assert rollout.reward is not None
    returns, last = turn_returns(rollout, credit), len(rollout.turns) - 1
    calls = sum(bool(turn.tool_calls) for turn in rollout.turns)
    for place, turn in enumerate(rollout.turns):
        prompt, output = turn.prompt_token_ids, turn.output_token_ids
        logprobs, mask = turn.output_logprobs, turn.output_mask
        yield {
            "prompt_ids": None if prompt is None else prompt.tolist(),
            "response_ids": None if output is None else output.tolist(),
            "response_mask": None if output is None else [1] * len(output) if mask is None else mask.tolist(),
            "rollout_log_probs": None if logprobs is None else logprobs.tolist(),
            "uid": rollout.group_id,
            "traj_uid": rollout.rollout_id,
            "episode_rewards": rollout.reward,
            "episode_lengths": len(rollout.turns),
            "rewards": (turn.reward or 0.0) + (rollout.reward if place == last else 0.0),
            "returns": returns[place],
            "is_action_valid": is_valid(turn),
            "active_masks": True,
            "anchor_obs": anchor(_seen(turn)),
            "tool_callings": calls,
            "data_source": rollout.environment.name,
        }


def is_valid(turn: Turn) -> bool:
    """Whether the turn's calls could be made: each had its result, and its arguments were an object."""
    return len(turn.tool_calls) == len(turn.response.tool_requests) and all(
        isinstance(call.arguments, dict) for call in turn.tool_calls
    )


def _seen(turn: Turn) -> list[Message]:
    return [message for message in turn.messages if message.role != "assistant"]
