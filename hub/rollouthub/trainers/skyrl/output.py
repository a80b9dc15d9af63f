"""Rollouts as SkyRL's `GeneratorOutput`: columns over rows, with a masked row for a rollout that must not be trained
on.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from rollouthub.errors import SupplyError
from rollouthub.export import NotTrainable, Refusal, RefusalReason, TrainingRow, check_one_seat, training_rows
from rollouthub.export.not_trainable import Need
from rollouthub.rollout import ONLY_SEAT, Rollout
from rollouthub.trainers.skyrl.seat_instance import SeatInstance


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
    seat: str | None = None
    """The seat that is trained; None trains all that the policy plays, each as a trajectory of its own."""
    takes_seats: bool = True
    """Whether several seats may be trained: in step-wise training, but not fully asynchronously, where SkyRL compares
    all rows of a prompt.
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
    is unchanged. `rollout_metrics` count such rollouts by reason. In step-wise training each seat is a trajectory of
    its own, compared with the same seat of the prompt's other rollouts (see `SeatInstance`).

    Raises:
        SupplyError: every row is masked, so there would be no loss; with `may_be_empty` this is allowed.
    """
    shape = shape or Shape()
    rows, refused = [rows_of(rollout, shape) for _, rollout in played], Counter[str]()
    scored: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (trajectory, rollout), made in zip(played, rows, strict=True):
        if isinstance(made, RefusalReason):
            refused[made.refusal.value] += 1
        else:
            for seat, own in _by_seat(made):
                # What SkyRL compares in a group: the last row's reward, or the sum of its tokens'.
                worth = sum(_token_rewards(own[-1], is_last=True)) if shape.token_rewards else own[-1].reward
                scored[_group(trajectory, rollout)][seat].append(worth)
    columns = _Columns()
    for (trajectory, rollout), made in zip(played, rows, strict=True):
        if isinstance(made, RefusalReason):
            group = scored[_group(trajectory, rollout)] or {ONLY_SEAT: [0.0]}
            for seat, rewards in group.items() if shape.step_wise else [(ONLY_SEAT, next(iter(group.values())))]:
                _add_masked(columns, _seated(trajectory, seat, shape), fmean(rewards), shape)
        else:
            for seat, own in _by_seat(made):
                for row in own:
                    _add(columns, _seated(trajectory, seat, shape), row, shape, is_last=row is own[-1])
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
    """The training rows of a rollout, seat by seat, or the reason why it is masked."""
    try:
        rows = training_rows(rollout, need=shape.need, seat=shape.seat)
        if shape.seat is None and not (shape.step_wise and shape.takes_seats):
            check_one_seat(rollout, "SkyRL (but synchronous step-wise training)")
    except NotTrainable as error:
        return error.refused
    if len(rows) > 1 and not shape.step_wise:
        said = f"it makes {len(rows)} rows; set generator.step_wise_trajectories to learn from them"
        return RefusalReason(Refusal.FORKED, said, rollout.rollout_id)
    return [row for _, own in _by_seat(rows) for row in own]


def _by_seat(rows: Sequence[TrainingRow]) -> list[tuple[str, list[TrainingRow]]]:
    """Rows by their seats; SkyRL wants the rows of a trajectory next to each other."""
    found: dict[str, list[TrainingRow]] = {}
    for row in rows:
        found.setdefault(row.seat, []).append(row)
    return list(found.items())


def _seated(trajectory: Any, seat: str, shape: Shape) -> Any:
    """A `TrajectoryID` as that of one seat."""
    if trajectory is None or seat == ONLY_SEAT or not shape.step_wise:
        return trajectory
    return replace(trajectory, instance_id=SeatInstance(trajectory.instance_id, seat))


def _group(trajectory: Any, rollout: Rollout) -> str:
    return rollout.group_id if trajectory is None else str(trajectory.instance_id)


def _add(columns: _Columns, trajectory: Any, row: TrainingRow, shape: Shape, *, is_last: bool) -> None:
    mask = row.response_mask
    columns.prompt_token_ids.append(row.prompt_ids)
    columns.response_ids.append(row.response_ids)
    columns.loss_masks.append([0] * len(mask) if shape.mask_truncated and row.is_truncated else mask)
    columns.stop_reasons.append("length" if row.is_truncated else "stop")
    if shape.need == "logprobs":
        columns.rollout_logprobs.append(row.response_logprobs)
    columns.trajectory_ids.append(trajectory)
    columns.is_last_step.append(is_last)
    if shape.token_rewards:
        columns.rewards.append(_token_rewards(row, is_last=is_last))
    else:
        columns.rewards.append(row.reward if is_last else 0.0)


def _token_rewards(row: TrainingRow, *, is_last: bool) -> list[float]:
    """Rewards per response token: those of turns and spans on their last tokens; the verifier's at the end of the
    seat's last row.
    """
    rewards = row.process_rewards
    if is_last:
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
