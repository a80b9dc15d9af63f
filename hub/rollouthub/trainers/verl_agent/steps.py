"""verl-agent's step rows from recorded rollouts: one row for each turn, in the form that its advantage estimators
read.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from rollouthub.export import Credit, NotTrainable, anchor_of_turn, seat_id, turn_returns, turn_rewards, why_refused
from rollouthub.export.not_trainable import Need
from rollouthub.rollout import Rollout, Turn
from rollouthub.trainers.pictures.shown_pictures import no_pictures

WHOLE = Credit()


def step_rows(rollout: Rollout, credit: Credit = WHOLE, *, need: Need = "logprobs") -> Iterator[dict[str, Any]]:
    """One row for each turn: the turn's prompt and its sampled ids.

    `uid` is the group, `traj_uid` the rollout; `rewards` is the turn's own reward, with the seat's reward added on its
    last turn; `returns` is the return from the turn on under `credit`. Each seat with a name is a trajectory and a
    group of its own, because verl-agent sums and compares within these; opponents make no rows.

    Raises:
        NotTrainable: the rollout must not be trained on; it has the reason.
        ConfigError: the rollout shows pictures, whose pixels the rows would lack.
    """
    no_pictures([rollout])
    if (refused := why_refused(rollout, need)) is not None:
        raise NotTrainable(refused)
    rewards, returns = turn_rewards(rollout), turn_returns(rollout, credit)
    turns = rollout.policy_turns
    spoken = Counter(turn.agent for turn in turns)
    calls = Counter(turn.agent for turn in turns if turn.tool_calls)
    for turn in turns:
        prompt, output = turn.prompt_token_ids, turn.output_token_ids
        logprobs, mask = turn.output_logprobs, turn.output_mask
        yield {
            "prompt_ids": None if prompt is None else prompt.tolist(),
            "response_ids": None if output is None else output.tolist(),
            "response_mask": None if output is None else [1] * len(output) if mask is None else mask.tolist(),
            "rollout_log_probs": None if logprobs is None else logprobs.tolist(),
            "uid": seat_id(rollout.group_id, turn.agent),
            "traj_uid": seat_id(rollout.rollout_id, turn.agent),
            "episode_rewards": rollout.reward_of(turn.agent),
            "episode_lengths": spoken[turn.agent],
            "rewards": rewards[turn.index],
            "returns": returns[turn.index],
            "is_action_valid": is_valid(turn),
            "active_masks": True,
            "anchor_obs": anchor_of_turn(turn),
            "tool_callings": calls[turn.agent],
            "data_source": rollout.environment.name,
        }


def is_valid(turn: Turn) -> bool:
    """Whether every tool call of the turn was made, with an object as its arguments."""
    return len(turn.tool_calls) == len(turn.response.tool_requests) and all(
        isinstance(call.arguments, dict) for call in turn.tool_calls
    )
