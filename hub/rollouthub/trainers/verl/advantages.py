"""Advantages for batches in which a rollout may have several rows: each seat of a rollout counts once in its group."""

from importlib import import_module
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.trainers.systems import system_module


def compute_advantage(data: Any, adv_estimator: str = "grpo", **settings: Any) -> Any:
    """Set `advantages` and `returns` [row, response] of a batch of `data_proto`, and return the batch.

    veRL's function of this name treats every row as a member of its group: a rollout that forked into three rows would
    count three times in the group's mean and deviation. Here veRL's estimator is called with only the last row of each
    rollout's seat, and its advantage is used for all rows of that seat, as veRL's V1 trainer does for GRPO. Seats are
    compared with the same seat of the group's other rollouts. It is for estimators that compare the members of a group:
    `grpo`, `rloo`, `opo` and similar ones. `settings` are the estimator's own (`norm_adv_by_std_in_grpo`). Rewards are
    `token_level_rewards` if the trainer has set them, else `rm_scores`.

    Raises:
        ConfigError: the estimator gives the tokens of a row different advantages, so there is no single one for the
        rollout.
        ValueError: veRL has no such estimator.
    """
    algorithms: Any = system_module("verl.trainer.ppo.core_algos")
    last, owners, groups = _last_rows(data.non_tensor_batch)
    rewards = data.batch["token_level_rewards" if "token_level_rewards" in data.batch.keys() else "rm_scores"]  # noqa: SIM118
    mask = data.batch["response_mask"]
    found, _ = algorithms.get_adv_estimator_fn(adv_estimator)(
        token_level_rewards=rewards[last],
        response_mask=mask[last],
        index=groups,
        **settings,
    )
    first = mask[last].argmax(dim=1, keepdim=True)
    values = found.gather(1, first)
    if ((found - values) * mask[last]).abs().max() > 0:
        raise ConfigError(f"{adv_estimator} gives each token an advantage of its own; take veRL's compute_advantage")
    data.batch["advantages"] = values[owners] * mask
    data.batch["returns"] = data.batch["advantages"].clone()
    return data


def _last_rows(columns: Any) -> tuple[list[int], list[int], Any]:
    """The index of the last row of each trajectory, which is one seat of one rollout; for every row, the position of
    its trajectory in that list; and the group of each trajectory, an array of (group, seat).
    """
    trajectories = list(zip(columns["uid"], columns["seat"], columns["rollout_id"], strict=True))
    last: dict[tuple[Any, Any, Any], int] = {}
    for place, trajectory in enumerate(trajectories):
        if columns["row_index"][place] >= columns["row_index"][last.setdefault(trajectory, place)]:
            last[trajectory] = place
    number = {trajectory: count for count, trajectory in enumerate(last)}
    groups = import_module("numpy").empty(len(last), dtype=object)
    groups[:] = [(uid, seat) for uid, seat, _ in last]
    return list(last.values()), [number[trajectory] for trajectory in trajectories], groups
