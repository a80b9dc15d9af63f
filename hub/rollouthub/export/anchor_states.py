"""GiGPO: turns of a group that began in the same state, and their advantages (arXiv:2505.10978)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Literal

from rollouthub.export.credit import Credit, turn_returns
from rollouthub.export.learning_seats import seat_id
from rollouthub.messages import Message, digest_of, media_of
from rollouthub.rollout import Rollout, Turn

_EPSILON = 1e-6
_DISCOUNT = Credit(discount=0.95)
"""The paper's discount of step returns."""


def anchor_state(messages: Sequence[Message]) -> str:
    """What was shown since the agent's last message, without the history; a picture is represented by its digest."""
    spoken = [place for place, message in enumerate(messages) if message.role == "assistant"]
    latest = messages[spoken[-1] + 1 if spoken else 0 :]
    return "\n".join([*(message.text for message in latest), *(each.digest for each in media_of(latest))])


def anchor_of_turn(turn: Turn) -> str:
    """The anchor state in which a turn was made."""
    return anchor_state([message for message in turn.messages if message.role != "assistant"])


def anchor_group(rollout: Rollout, turn: Turn) -> str:
    """A digest that is equal for the turns of one seat, in one group, that were made in the same anchor state."""
    text = f"{seat_id(rollout.group_id, turn.agent)}\0{anchor_of_turn(turn)}"
    return digest_of(text.encode()).removeprefix("sha256:")[:16]


def gigpo_advantages(
    rollouts: Sequence[Rollout],
    credit: Credit = _DISCOUNT,
    *,
    step_weight: float = 1.0,
    method: Literal["mean", "mean_std"] = "mean",
) -> list[Mapping[int, float]]:
    """GiGPO's advantage of each turn of the policy: [rollout] → turn index → number.

    It is the seat's reward, compared with that of all turns of the same seat in the group, plus `step_weight` × the
    turn's return under `credit`, compared with the turns that were made in the same anchor state. `method` subtracts
    the mean, or also divides by the standard deviation. `rollouts` may be of several groups, and must be scored.
    """
    turns = [(place, turn) for place, rollout in enumerate(rollouts) for turn in rollout.policy_turns]
    returns = [turn_returns(rollout, credit) for rollout in rollouts]
    episodes, steps = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    rows: list[tuple[int, Turn, str, float, str, float]] = []
    for place, turn in turns:
        rollout = rollouts[place]
        reward = rollout.reward_of(turn.agent)
        assert reward is not None, "only scored rollouts are compared"
        group, state = seat_id(rollout.group_id, turn.agent), anchor_group(rollout, turn)
        step = returns[place][turn.index]
        episodes[group].append(reward)
        steps[state].append(step)
        rows.append((place, turn, group, reward, state, step))
    among_episodes = {group: _scale(values, method) for group, values in episodes.items()}
    among_steps = {state: _scale(values, method) for state, values in steps.items()}
    found: list[dict[int, float]] = [{} for _ in rollouts]
    for place, turn, group, reward, state, step in rows:
        # A lone episode is compared with 0, as verl-agent does it; a lone step with itself.
        episode = reward if len(episodes[group]) == 1 else _compared(reward, among_episodes[group])
        found[place][turn.index] = episode + step_weight * _compared(step, among_steps[state])
    return list(found)


def _scale(values: Sequence[float], method: str) -> tuple[float, float]:
    """The mean of values, and what their distance from it is divided by."""
    return fmean(values), 1.0 if method == "mean" or len(values) == 1 else stdev(values) + _EPSILON


def _compared(value: float, scale: tuple[float, float]) -> float:
    mean, divisor = scale
    return (value - mean) / divisor
