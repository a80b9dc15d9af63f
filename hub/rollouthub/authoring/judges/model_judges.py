"""Judges that ask a model, of the role `judge`: by a rubric, by credit for each turn, or in a tournament."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from rollouthub.authoring.rewards.bradley_terry import expected_shares
from rollouthub.authoring.rewards.credit_judge import CREDITING, CreditJudge, check_bounds
from rollouthub.authoring.rewards.judge import TEMPLATE, Judge, check_rubric
from rollouthub.authoring.rewards.judge_verdict import Criterion
from rollouthub.authoring.rewards.pairwise_judge import BETTER, PairwiseJudge
from rollouthub.authoring.rewards.rank_rewards import best_of_n, by_rank
from rollouthub.authoring.rewards.tournament import Rewarding, Tournament
from rollouthub.generation import Model
from rollouthub.score import FiniteFloat, Score, Submission
from rollouthub.task import Task
from rollouthub.values import Frozen

_ROLE = "judge"
_REWARDING: Mapping[str, Rewarding] = {"share": expected_shares, "best_of_n": best_of_n, "rank": by_rank}


class _ModelJudge(Frozen):
    """What these judges share."""

    roles: ClassVar[tuple[str, ...]] = (_ROLE,)
    reads_turns: ClassVar[bool] = False
    compares: ClassVar[bool] = False


class RubricJudge(_ModelJudge):
    """Asks yes-or-no questions and for grades on scales, and adds them up by weight: `Judge`."""

    criteria: tuple[Criterion, ...] = Field(min_length=1)
    """The rubric: questions, each with its weight and scale."""
    pass_at: FiniteFloat | None = None
    """The reward that passes; None: only a single yes-or-no question decides on passing."""
    votes: int = Field(default=1, ge=1, le=99)
    """How often it is asked; an odd number, whose median counts."""
    sees_conversation: bool = False
    """Whether the whole transcript is judged instead of the final answer."""
    template: str = TEMPLATE
    """The words around `{question}`, `{reference}`, `{answer}` and `{criteria}`."""

    @model_validator(mode="after")
    def _holds(self) -> "RubricJudge":
        check_rubric(self.criteria, self.votes, self.template)
        return self

    async def score(
        self, task: Task[Any, Any], submissions: Sequence[Submission], models: Mapping[str, Model]
    ) -> Sequence[Score]:
        """Grade each submission."""
        judge = Judge(models[_ROLE], **dict(self))
        return [await judge(task, submission) for submission in submissions]


class TurnCreditJudge(_ModelJudge):
    """Credits every turn and every seat with a number from `lowest` to `highest`: `CreditJudge`."""

    reads_turns: ClassVar[bool] = True

    criterion: str = CREDITING
    """What earns credit."""
    lowest: FiniteFloat = -1.0
    highest: FiniteFloat = 1.0

    @model_validator(mode="after")
    def _holds(self) -> "TurnCreditJudge":
        check_bounds(self.lowest, self.highest)
        return self

    async def score(
        self, task: Task[Any, Any], submissions: Sequence[Submission], models: Mapping[str, Model]
    ) -> Sequence[Score]:
        """Credit the turns of each submission."""
        judge = CreditJudge(models[_ROLE], **dict(self))
        return [await judge(task, submission) for submission in submissions]


class TournamentJudge(_ModelJudge):
    """Compares the samples of a task in pairs, each pair in both orders: `Tournament` of a `PairwiseJudge`."""

    compares: ClassVar[bool] = True

    criterion: str = BETTER
    """What the better answer is."""
    rounds: int | None = Field(default=None, ge=1)
    """Comparisons of each sample, with others of about its strength; None compares all pairs."""
    rewards: Literal["share", "best_of_n", "rank"] = "share"
    """The reward: the share that a sample would win by its Bradley–Terry strength, 1 for the best alone, or its rank
    from 0 to 1.
    """
    sees_conversation: bool = False
    """Whether whole transcripts are compared instead of the final answers."""

    async def score(
        self, task: Task[Any, Any], submissions: Sequence[Submission], models: Mapping[str, Model]
    ) -> Sequence[Score]:
        """Score the submissions against each other."""
        tournament = Tournament(
            PairwiseJudge(models[_ROLE], self.criterion),
            rounds=self.rounds,
            rewarding=_REWARDING[self.rewards],
            sees_conversation=self.sees_conversation,
        )
        return await tournament.score(task, submissions)
