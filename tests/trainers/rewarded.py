"""Worlds with more than one number: rewards of turns and spans, of seats, and verdicts on groups."""

from collections.abc import Iterable, Sequence

from rollouthub import (
    Environment,
    EnvironmentConfig,
    Public,
    Score,
    Secret,
    SpanReward,
    Submission,
    Task,
    tool,
)
from tests.trainers.handover import Handover

TURNS, SPAN, VERDICT = (0.25, 0.5), 0.125, 1.0
SEATS = {"giver": 0.75, "taker": -0.5}
TEAM = 0.5
OPPOSED = {"giver": (1.0, 0.0), "taker": (0.0, 1.0)}
"""Of two members of `Opposed`, the first of which gives an apple: what each seat earns."""
ADVANTAGES = {"giver": (0.5, -0.5), "taker": (-0.5, 0.5)}
"""What that is above the mean of the same seat."""
RANKS = (0.0, 0.5, 1.0)


def ranks(count: int) -> list[float]:
    """What the verdict on a group of this size gives its members, by their numbers: from 0 to 1."""
    return [place / max(1, count - 1) for place in range(count)]


class Giving(Environment[EnvironmentConfig]):
    """Give something, and say so."""

    submits = False

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id="only", prompt="count"), Secret())

    @tool
    async def give(self, thing: str) -> str:
        """Give something."""
        return "given"


class Stepwise(Giving):
    """Rewards each of two turns, two tokens of the second, and the whole."""

    reads_turns = True

    async def verify(self, submission: Submission) -> Score:
        assert len(submission.turns) == 2
        span = SpanReward(turn=1, start=0, end=2, reward=SPAN)
        return Score(reward=VERDICT, turn_rewards=dict(enumerate(TURNS)), span_rewards=(span,))


class Divided(Handover):
    """Each seat earns its own."""

    async def verify(self, submission: Submission) -> Score:
        assert self.taken == "apple"
        return Score(reward=0.25, seat_rewards=SEATS)


class Opposed(Handover):
    """What one seat wins the other loses, and the team always has the same: who gives an apple wins."""

    async def verify(self, submission: Submission) -> Score:
        wins = float(self.taken == "apple")
        return Score(reward=TEAM, seat_rewards={"giver": wins, "taker": 1.0 - wins})


class Ranked(Giving):
    """The samples of a task are scored together, by their numbers; there is nothing to do but to say so."""

    async def verify_group(self, submissions: Sequence[Submission]) -> Sequence[Score]:
        return [Score(reward=rank) for rank in ranks(len(submissions))]
