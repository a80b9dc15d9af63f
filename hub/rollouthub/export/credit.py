"""Credit assignment: the reward and return of each turn, from turn rewards and the final reward."""

from collections.abc import Sequence

from pydantic import Field

from rollouthub.rollout import Rollout
from rollouthub.values import Frozen


class Credit(Frozen):
    """How a rollout's rewards are assigned to its turns."""

    discount: float = Field(default=1.0, ge=0, le=1)
    """The factor by which a reward counts less one turn earlier; 1 is undiscounted, 0 gives each turn only its own
    reward.
    """
    terminal: bool = True
    """Whether the verifier's final reward counts, at the last turn of each seat."""


WHOLE = Credit()
"""Undiscounted, with the final reward."""


def turn_rewards(rollout: Rollout, credit: Credit = WHOLE) -> list[float]:
    """The reward of each turn [turn], neither summed nor discounted, as estimators such as GAE need it.

    It is the sum of the turn's own reward and its spans' rewards; with `credit.terminal`, the last turn of each seat
    also gets the seat's final reward.
    """
    place_of = {turn.index: place for place, turn in enumerate(rollout.turns)}
    rewards = [turn.reward or 0.0 for turn in rollout.turns]
    for span in () if rollout.score is None else rollout.score.span_rewards:
        rewards[place_of[span.turn]] += span.reward
    if credit.terminal:
        for seat, places in _places_by_seat(rollout).items():
            rewards[places[-1]] += rollout.reward_of(seat) or 0.0
    return rewards


def turn_returns(rollout: Rollout, credit: Credit = WHOLE) -> list[float]:
    """The return of each turn [turn]: the discounted sum of its reward (see `turn_rewards`) and the rewards of later
    turns of the same seat.
    """
    rewards = turn_rewards(rollout, credit)
    returns = [0.0] * len(rewards)
    for places in _places_by_seat(rollout).values():
        for place, value in zip(places, _returns([rewards[place] for place in places], credit.discount), strict=True):
            returns[place] = value
    return returns


def _places_by_seat(rollout: Rollout) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place, turn in enumerate(rollout.turns):
        found.setdefault(turn.agent, []).append(place)
    return found


def _returns(rewards: Sequence[float], discount: float) -> list[float]:
    """Discounted sums from each turn to the end [turn]."""
    found: list[float] = []
    following = 0.0
    for reward in reversed(rewards):
        following = reward + discount * following
        found.append(following)
    return found[::-1]
