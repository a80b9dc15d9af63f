"""Judges that are reward models behind HTTP: one number for an answer, or one for each step of it."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from rollouthub.authoring.rewards.process_reward_model import ProcessRewardModel
from rollouthub.authoring.rewards.reward_model import RewardModel, Route
from rollouthub.generation import Model
from rollouthub.score import Score, Submission
from rollouthub.task import Task
from rollouthub.values import Frozen


class _ServedJudge(Frozen):
    """What these judges share."""

    roles: ClassVar[tuple[str, ...]] = ()
    reads_turns: ClassVar[bool] = False
    compares: ClassVar[bool] = False

    url: str
    """Base URL of the server, without the route: `http://127.0.0.1:8000`."""


class RewardModelJudge(_ServedJudge):
    """Asks a reward model for one number: `RewardModel`."""

    route: Route = "pooling"
    """vLLM's `/pooling`, `/classify` or `/score`, or OpenRLHF's `/get_reward`."""
    model: str | None = None
    """The model's name on the server; `/get_reward` needs none."""
    label: int | None = None
    """Index of the good class of `/classify`, or of the number of `/pooling` that counts; None is the last."""
    sees_conversation: bool = False
    """Whether the whole transcript is scored as the answer, instead of the final answer."""

    @model_validator(mode="after")
    def _holds(self) -> "RewardModelJudge":
        self._judge()
        return self

    def _judge(self) -> RewardModel:
        return RewardModel(**dict(self))

    async def score(
        self, task: Task[Any, Any], submissions: Sequence[Submission], models: Mapping[str, Model]
    ) -> Sequence[Score]:
        """The rewards of the submissions."""
        return await self._judge().score_group(task, submissions)


class ProcessRewardJudge(_ServedJudge):
    """Asks a process reward model for a number of each step of each turn: `ProcessRewardModel`."""

    reads_turns: ClassVar[bool] = True

    model: str
    """The model's name on the server."""
    tag: str = "<extra_0>"
    """The mark that the model reads at the end of each step; empty: the row of the step's last token scores it."""
    label: int | None = None
    """Index of the reward in a row; None takes the last number."""
    combine: Literal["mean", "min", "product", "last"] = "mean"
    """How the rewards of steps are combined to the reward."""

    @model_validator(mode="after")
    def _holds(self) -> "ProcessRewardJudge":
        self._judge()
        return self

    def _judge(self) -> ProcessRewardModel:
        return ProcessRewardModel(self.url, self.model, tag=self.tag or None, label=self.label, combine=self.combine)

    async def score(
        self, task: Task[Any, Any], submissions: Sequence[Submission], models: Mapping[str, Model]
    ) -> Sequence[Score]:
        """Score the steps of each submission."""
        judge = self._judge()
        return [await judge(task, submission) for submission in submissions]
