"""The functions that slime calls on whole groups: which groups to keep, and the reward of each member."""

from collections.abc import Sequence
from typing import Any, cast

from rollouthub.authoring.rewards import group_advantages
from rollouthub.trainers.slime.sample import SlimeSample, refusal_of, seat_of
from rollouthub.trainers.systems import system_module

_EQUAL = 1e-6
_WITH_BASELINE = frozenset({"grpo", "gspo", "cispo", "reinforce_plus_plus_baseline"})
"""slime's advantage estimators that compare the members of a group."""
_DIVIDING = _WITH_BASELINE - {"reinforce_plus_plus_baseline"}


def flat(samples: Sequence[Any]) -> list[Any]:
    """Samples in order, from lists nested to any depth; a forked rollout is a list of samples."""
    found: list[Any] = []
    for each in samples:
        if isinstance(each, list):
            found += flat(cast(list[Any], each))
        else:
            found.append(each)
    return found


def keep_group(args: Any, samples: Sequence[Any], **kwargs: Any) -> Any:
    """For `--dynamic-sampling-filter-path`: keeps groups in which every member is trainable and rewards differ, at any
    seat.
    """
    output: Any = system_module("slime.rollout.filter_hub.base_types").DynamicFilterOutput
    reason = why_dropped(args, samples)
    return output(keep=reason is None, reason=reason)


def why_dropped(args: Any, samples: Sequence[Any]) -> str | None:
    """Why a group is dropped; None if it is kept."""
    if (broken := why_broken(samples)) is not None:
        return broken
    rewards: dict[str, list[float]] = {}
    for sample in flat(samples):
        rewards.setdefault(seat_of(sample), []).append(sample.get_reward_value(args))
    is_equal = all(max(own) - min(own) <= _EQUAL for own in rewards.values())
    return "equal_rewards" if is_equal else None


def why_broken(samples: Sequence[Any]) -> str | None:
    """Why a group is incomplete: a member must not be trained on, or slime aborted a member. None if it is complete."""
    for sample in flat(samples):
        if (refused := refusal_of(sample)) is not None:
            return refused
        if sample.reward is None or sample.status == sample.Status.ABORTED:
            return "aborted"
    return None


def post_process_rewards(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """For `--custom-reward-post-process-path`: raw rewards, and rewards minus their group's baseline.

    slime's own function assumes an equal number of samples in each group, so one forked rollout would merge the whole
    batch into one group. Here each rollout counts once in its own group, at each of its seats, which are compared with
    the same seat of the group's other rollouts; a rollout that must not be trained on does not count in the baseline.
    """
    each = flat(samples)
    raw = [float(sample.get_reward_value(args)) if refusal_of(sample) is None else 0.0 for sample in each]
    groups: dict[Any, dict[Any, list[int]]] = {}
    for place, sample in enumerate(each):
        if refusal_of(sample) is None:
            group = sample.group_index, seat_of(sample)
            groups.setdefault(group, {}).setdefault(_rollout(sample), []).append(place)
    divides = args.advantage_estimator in _DIVIDING and args.grpo_std_normalization
    if not (args.rewards_normalization and args.advantage_estimator in _WITH_BASELINE):
        return raw, list(raw)
    shaped = [0.0] * len(raw)
    for members in groups.values():
        rewards = [raw[places[0]] for places in members.values()]
        worth = group_advantages(rewards, "mean_std" if divides else "mean")
        for places, value in zip(members.values(), worth, strict=True):
            assert value is not None, "all of them are scored"
            for place in places:
                shaped[place] = value
    return raw, shaped


def _rollout(sample: SlimeSample) -> Any:
    return sample.index if sample.rollout_id is None else sample.rollout_id
