"""`Tournament`: compares all samples of a group with each other, and rewards them by the results."""

import random
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import anyio

from rollouthub.authoring.rewards.bradley_terry import PairResult, bradley_terry, expected_shares
from rollouthub.authoring.rewards.pairwise_judge import ComparedPair, PairwiseJudge
from rollouthub.authoring.rewards.shown_parts import Shown, answer_of, question_of, reference_of
from rollouthub.errors import VerifierError
from rollouthub.score import Score, Submission
from rollouthub.task import Task

MOST_SHOWN = 3
"""Most comparisons whose reasoning a member's feedback quotes."""
_QUOTED_CHARACTERS = 500
Rewarding = Callable[[Sequence[float]], Sequence[float]]
"""Converts the members' log strengths to their rewards."""


class Tournament:
    """Compares the samples of a group in pairs, and rewards each by its Bradley–Terry strength.

        async def verify_group(self, submissions):
            return await Tournament(PairwiseJudge(self.models["judge"])).score(self.task, submissions)

    The reward is the share of comparisons that a member is expected to win against the others, from 0 to 1 and 0.5 on
    average, or what `rewarding` makes of the strengths, such as `best_of_n`. Metrics are `wins`, `losses`, `ties`,
    `strength` and `order_bias`: the share of the group's comparisons in which the position decided. Those count as
    ties, and the feedback mentions them.
    """

    def __init__(
        self,
        judge: PairwiseJudge,
        *,
        rounds: int | None = None,
        rewarding: Rewarding = expected_shares,
        sees_conversation: bool = False,
        concurrency: int = 16,
        seed: int = 0,
    ) -> None:
        """Each member is compared `rounds` times, with members of about its strength; with None, all pairs are
        compared. `sees_conversation` compares whole transcripts instead of the final answers.

        `concurrency` is the number of comparisons at once, of two calls each.

        Raises:
            ValueError: `rounds` or `concurrency` is below 1.
        """
        if concurrency < 1 or (rounds is not None and rounds < 1):
            raise ValueError(f"rounds={rounds}, concurrency={concurrency}: it takes at least one")
        self._judge, self._rounds, self._rewarding = judge, rounds, rewarding
        self._sees_conversation, self._concurrency, self._seed = sees_conversation, concurrency, seed

    async def score(self, task: Task[Any, Any], submissions: Sequence[Submission]) -> list[Score]:
        """Score the submissions to a task against each other, in their order.

        Raises:
            VerifierError: the judge failed, or gave no valid verdict.
        """
        answers = [answer_of(each, sees_conversation=self._sees_conversation) for each in submissions]
        found = await self.compare(answers, question=question_of(task.public), reference=reference_of(task))
        strengths = bradley_terry([_result(pair, each) for pair, each in found.items()], len(answers))
        rewards = self._rewarding(strengths)
        biased = sum(each.is_order_biased for each in found.values())
        return [_scored(place, rewards[place], strengths[place], found, biased) for place in range(len(answers))]

    async def compare(
        self, answers: Sequence[Shown], *, question: Shown | None = None, reference: str | None = None
    ) -> dict[tuple[int, int], ComparedPair]:
        """Compare answers, in as many pairs as the tournament plays; the result is keyed by the indices of the two.

        Raises:
            VerifierError: the judge failed, or gave no valid verdict.
        """
        found: dict[tuple[int, int], ComparedPair] = {}
        if self._rounds is None or self._rounds >= len(answers) - 1:
            await self._play(list(combinations(range(len(answers)), 2)), answers, question, reference, found)
            return found
        for number in range(self._rounds):
            strengths = bradley_terry([_result(pair, each) for pair, each in found.items()], len(answers))
            pairs = _neighbours(strengths, found, random.Random(f"{self._seed} {number}"))
            await self._play(pairs, answers, question, reference, found)
        return found

    async def _play(
        self,
        pairs: Sequence[tuple[int, int]],
        answers: Sequence[Shown],
        question: Shown | None,
        reference: str | None,
        found: dict[tuple[int, int], ComparedPair],
    ) -> None:
        limiter = anyio.CapacityLimiter(self._concurrency)
        failures: list[VerifierError] = []

        async def play(pair: tuple[int, int]) -> None:
            async with limiter:
                try:
                    first, second = answers[pair[0]], answers[pair[1]]
                    found[pair] = await self._judge.compare(first, second, question=question, reference=reference)
                except VerifierError as error:
                    failures.append(error)
                    comparisons.cancel_scope.cancel()

        async with anyio.create_task_group() as comparisons:
            for pair in pairs:
                comparisons.start_soon(play, pair)
        if failures:
            raise failures[0]


def _neighbours(
    strengths: Sequence[float], played: dict[tuple[int, int], ComparedPair], draw: random.Random
) -> list[tuple[int, int]]:
    """Pairs of about equal strength that were not compared yet, each member in one at most; ties are broken at
    random.
    """
    left = sorted(range(len(strengths)), key=lambda place: (-strengths[place], draw.random()))
    pairs: list[tuple[int, int]] = []
    while left:
        one = left.pop(0)
        other = next((place for place in left if (min(one, place), max(one, place)) not in played), None)
        if other is not None:
            left.remove(other)
            pairs.append((min(one, other), max(one, other)))
    return pairs


def _result(pair: tuple[int, int], compared: ComparedPair) -> PairResult:
    return PairResult(pair[0], pair[1], compared.share)


def _scored(
    place: int, reward: float, strength: float, found: dict[tuple[int, int], ComparedPair], biased: int
) -> Score:
    shares = {
        (second if first == place else first): (each.share if first == place else 1 - each.share, each)
        for (first, second), each in found.items()
        if place in (first, second)
    }
    wins = sum(share == 1 for share, _ in shares.values())
    losses = sum(share == 0 for share, _ in shares.values())
    ties = len(shares) - wins - losses
    lines = [f"won {wins}, lost {losses}, tied {ties}"]
    if biased:
        lines.append(
            f"in {biased} of the group's {len(found)} comparisons the judge chose whichever answer stood in one place, "
            "in both orders: these count as ties"
        )
    for other, (share, each) in list(shares.items())[:MOST_SHOWN]:
        outcome = {1.0: "won against", 0.0: "lost to"}.get(share, "tied with")
        lines.append(f"{outcome} {other}: {each.reasoning[0][:_QUOTED_CHARACTERS]}".rstrip(": "))
    return Score(
        reward=reward,
        feedback="\n".join(lines),
        metrics={
            "wins": wins,
            "losses": losses,
            "ties": ties,
            "strength": strength,
            "order_bias": biased / len(found) if found else 0.0,
        },
    )
