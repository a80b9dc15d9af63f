"""Rollouts as SkyRL's `GeneratorOutput`: columns over rows, with a masked row for a rollout that must not be trained
on.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from rollouthub.errors import SupplyError
from rollouthub.export import NotTrainable, Refusal, RefusalReason, TrainingRow, training_rows
from rollouthub.export.not_trainable import Need
from rollouthub.rollout import Rollout


@dataclass(frozen=True, slots=True)
class Shape:
    """The trainer's settings that decide which rows and columns it takes."""

    step_wise: bool = False
    """Allow several rows for a trajectory (`generator.step_wise_trajectories`); otherwise a rollout with several
    rows is masked.
    """
    token_rewards: bool = False
    """Give rewards per token: each turn's own reward on its last token, and the verifier's on the last token of the
    trajectory.
    """
    mask_truncated: bool = False
    """Mask rows that a length limit truncated (`generator.apply_overlong_filtering`)."""
    need: Need = "logprobs"
    """What a rollout must have to be trained on; `tokens` if the trainer does not use the sampler's
    log-probabilities.
    """
    placeholder_id: int = 0
    """The token id of a masked row."""


@dataclass(slots=True)
class _Columns:
    prompt_token_ids: list[list[int]] = field(default_factory=list[list[int]])
    response_ids: list[list[int]] = field(default_factory=list[list[int]])
    rewards: list[Any] = field(default_factory=list[Any])
    loss_masks: list[list[int]] = field(default_factory=list[list[int]])
    stop_reasons: list[str] = field(default_factory=list[str])
    rollout_logprobs: list[list[float]] = field(default_factory=list[list[float]])
    trajectory_ids: list[Any] = field(default_factory=list[Any])
    is_last_step: list[bool] = field(default_factory=list[bool])


def generator_output(
    played: Sequence[tuple[Any, Rollout]], shape: Shape | None = None, *, may_be_empty: bool = False
) -> dict[str, Any]:
    """SkyRL's output for `(trajectory id, rollout)` pairs, in the order of the input.

    SkyRL cannot represent a trajectory without a reward, and expects one for each prompt. A rollout that must not be
    trained on becomes one masked row, whose reward is the mean of its group's scored members, so the group's baseline
    is unchanged. `rollout_metrics` count such rollouts by reason.

    Raises:
        SupplyError: every row is masked, so there would be no loss; with `may_be_empty` this is allowed.
    """
    shape = shape or Shape()
    rows, refused = [rows_of(rollout, shape) for _, rollout in played], Counter[str]()
    scored: dict[str, list[float]] = defaultdict(list)
    for (trajectory, rollout), made in zip(played, rows, strict=True):
        if isinstance(made, RefusalReason):
            refused[made.refusal.value] += 1
        else:
            # What SkyRL compares in a group: the last row's reward, or the sum of its tokens'.
            worth = sum(_token_rewards(made[-1])) if shape.token_rewards else made[-1].reward
            scored[_group(trajectory, rollout)].append(worth)
    columns = _Columns()
    for (trajectory, rollout), made in zip(played, rows, strict=True):
        if isinstance(made, RefusalReason):
            group = scored[_group(trajectory, rollout)]
            _add_masked(columns, trajectory, fmean(group) if group else 0.0, shape)
        else:
            for row in made:
                _add(columns, trajectory, row, shape)
    if played and not may_be_empty and not any(map(any, columns.loss_masks)):
        counted = ", ".join(f"{name}: {count}" for name, count in sorted(refused.items())) or "all truncated"
        raise SupplyError(f"none of {len(played)} rollouts may be learnt from ({counted}); `hub show --failed` has why")
    is_known = all(trajectory is not None for trajectory, _ in played)
    return {
        "prompt_token_ids": columns.prompt_token_ids,
        "response_ids": columns.response_ids,
        "rewards": columns.rewards,
        "loss_masks": columns.loss_masks,
        "stop_reasons": columns.stop_reasons,
        "rollout_metrics": _metrics(played, refused),
        "rollout_logprobs": columns.rollout_logprobs if shape.need == "logprobs" else None,
        "trajectory_ids": columns.trajectory_ids if is_known else None,
        "trajectory_generation_times": None,
        "rollout_expert_indices": None,
        "is_last_step": columns.is_last_step if shape.step_wise else None,
        "env_metrics": None,
    }


def rows_of(rollout: Rollout, shape: Shape) -> list[TrainingRow] | RefusalReason:
    """The training rows of a rollout, or the reason why it is masked."""
    try:
        rows = training_rows(rollout, need=shape.need)
    except NotTrainable as error:
        return error.refused
    if len(rows) > 1 and not shape.step_wise:
        said = f"it makes {len(rows)} rows; set generator.step_wise_trajectories to learn from them"
        return RefusalReason(Refusal.FORKED, said, rollout.rollout_id)
    return rows


def _group(trajectory: Any, rollout: Rollout) -> str:
    return rollout.group_id if trajectory is None else str(trajectory.instance_id)


def _add(columns: _Columns, trajectory: Any, row: TrainingRow, shape: Shape) -> None:
    mask = row.response_mask
    columns.prompt_token_ids.append(row.prompt_ids)
    columns.response_ids.append(row.response_ids)
    columns.loss_masks.append([0] * len(mask) if shape.mask_truncated and row.is_truncated else mask)
    columns.stop_reasons.append("length" if row.is_truncated else "stop")
    if shape.need == "logprobs":
        columns.rollout_logprobs.append(row.response_logprobs)
    columns.trajectory_ids.append(trajectory)
    columns.is_last_step.append(row.is_last)
    if shape.token_rewards:
        columns.rewards.append(_token_rewards(row))
    else:
        columns.rewards.append(row.reward if row.is_last else 0.0)


def _token_rewards(row: TrainingRow) -> list[float]:
    """Rewards per response token: those of turns and spans on their last tokens; the verifier's at the end of the
    rollout's last row.
    """
    rewards = row.process_rewards
    if row.is_last:
        rewards[-1] += row.reward
    return rewards


def _add_masked(columns: _Columns, trajectory: Any, reward: float, shape: Shape) -> None:
    columns.prompt_token_ids.append([shape.placeholder_id])
    columns.response_ids.append([shape.placeholder_id])
    columns.loss_masks.append([0])
    columns.stop_reasons.append("error")
    if shape.need == "logprobs":
        columns.rollout_logprobs.append([0.0])
    columns.trajectory_ids.append(trajectory)
    columns.is_last_step.append(True)
    columns.rewards.append([reward] if shape.token_rewards else reward)


def _metrics(played: Sequence[tuple[Any, Rollout]], refused: Counter[str]) -> dict[str, float]:
    rollouts = [rollout for _, rollout in played]
    metrics = {"rollouthub/masked": float(refused.total())}
    metrics |= {f"rollouthub/masked_{name}": float(count) for name, count in sorted(refused.items())}
    if rollouts:
        metrics["rollouthub/avg_turns"] = fmean(len(rollout.turns) for rollout in rollouts)
    rewards = [rollout.reward for rollout in rollouts if rollout.reward is not None]
    if rewards:
        metrics["rollouthub/avg_reward"] = fmean(rewards)
    return metrics
