"""Credit: what each turn of a rollout is worth, from the rewards of turns and the verdict at the end."""

from collections.abc import Sequence

from pydantic import Field

from rollouthub.frozen import Frozen
from rollouthub.rollout import Rollout


class Credit(Frozen):
    """How a rollout's rewards are spread over its turns."""

    discount: float = Field(default=1.0, ge=0, le=1)
    """What a reward is worth one turn earlier; 1 leaves it whole, 0 gives each turn its own alone."""
    terminal: bool = True
    """Whether the verdict counts, at the last turn."""


WHOLE = Credit()
"""Undiscounted, with the verdict: every turn is worth what the rollout came to from it on."""


def turn_returns(rollout: Rollout, credit: Credit = WHOLE) -> list[float]:
    """The return of each turn [turn]: its own reward and what follows it, discounted by the turn.

    Turns without a reward of their own have none, which adds nothing. The verdict is added at the last turn of each
    seat. A turn is followed by the next of its own seat.
    """
    own = [turn.reward or 0.0 for turn in rollout.turns]
    by_seat: dict[str, list[int]] = {}
    for place, turn in enumerate(rollout.turns):
        by_seat.setdefault(turn.agent, []).append(place)
    returns = [0.0] * len(own)
    for places in by_seat.values():
        if credit.terminal and rollout.reward is not None:
            own[places[-1]] += rollout.reward
        for place, value in zip(places, _returns([own[place] for place in places], credit.discount), strict=True):
            returns[place] = value
    return returns


def _returns(rewards: Sequence[float], discount: float) -> list[float]:
    """Discounted sums of [turn] from the end."""
    found: list[float] = []
    following = 0.0
    for reward in reversed(rewards):
        following = reward + discount * following
        found.append(following)
    return found[::-1]
