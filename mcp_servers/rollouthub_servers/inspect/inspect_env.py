"""`Inspect`: the environment class that an imported task becomes; an instance is one rollout of a sample."""

from collections.abc import Iterator, Sequence
from math import fsum
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rollouthub.environment import Environment
from rollouthub.errors import TaskError, VerifierError, invalid_fields
from rollouthub.score import Component, Score, Submission
from rollouthub.task import BadRow, Public, Secret, Task
from rollouthub.values import Frozen
from rollouthub_servers.foreign.conversation import (
    CONVERSATION,
    ConversationConfig,
    ForeignConversation,
    imported_folder,
    is_number,
)
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import ForeignLock
from rollouthub_servers.foreign.session import ForeignRefusal
from rollouthub_servers.foreign.tool_names import HUB_TOOLS
from rollouthub_servers.inspect.task_record import SPLIT, TaskRecord
from rollouthub_servers.inspect.task_samples import read_samples
from rollouthub_servers.inspect.task_source import program_of

_SUBMIT = "submit"


class InspectConfig(ConversationConfig):
    """Settings of an imported task: its folder, its deadlines, and which score is the reward."""

    score: str | None = None
    """The scorer that gives the reward, or one value of it (`scorer.key`); the task's first scorer by default."""


class Inspect(ForeignConversation, Environment[InspectConfig]):
    """A task of Inspect, played as it is (`hub import inspect`)."""

    @classmethod
    def splits(cls, config: Any) -> tuple[str, ...]:
        """Its dataset."""
        return (SPLIT,)

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        """Yield one task per sample, in the dataset's order."""
        return read_samples(imported_folder(config))

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """The files of this package, and what it shares with others."""
        return [CONVERSATION, *sorted(Path(__file__).parent.rglob("*.py"))]

    @classmethod
    def program(cls, folder: Path, lock: ForeignLock) -> ForeignProgram:
        """What runs the task."""
        return program_of(folder, TaskRecord.read(str(folder)), lock)

    def score_of(self, answer: Any) -> Score:
        """The score of what the scorers say."""
        assert isinstance(self.config, InspectConfig)
        return score_of(answer, self.config.score)


class InspectSubmit(Inspect, Environment[InspectConfig]):
    """A task whose solver offers the tool `submit(answer)`: the hub's own, which ends the episode, is that tool."""

    submits = True
    hidden_calls = HUB_TOOLS - {_SUBMIT}

    async def verify(self, submission: Submission) -> Score:
        """Submit to the library what was submitted, and have its scorers score it."""
        if self._session is not None and submission.answer is not None and not self._is_over:
            try:
                await self._called(_SUBMIT, {"answer": submission.answer})
            except ForeignRefusal:
                pass  # its solver has ended
            except TaskError as error:
                raise VerifierError(str(error), retryable=error.retryable) from error
        return await super().verify(submission)


class _ScorerSaid(Frozen):
    """What one scorer gave."""

    name: str
    figures: dict[str, float | None]
    """Its value as numbers by name: one, or one for each key."""
    passed: bool | None
    """What a value says that is right or wrong, and nothing between."""
    value: str
    said: str


class _ScorersVerdict(Frozen):
    """What the driver says of a rollout."""

    scores: tuple[_ScorerSaid, ...]
    limit: str | None


def score_of(answer: Any, chosen: str | None) -> Score:
    """The score of what the scorers say.

    Raises:
        VerifierError: the chosen one gives no number, or there is none.
    """
    try:
        verdict = _ScorersVerdict.model_validate(answer)
    except ValidationError as error:
        raise VerifierError(f"the scorers gave no verdict: {invalid_fields(error)}") from error
    scorer = next((each for each in verdict.scores if chosen in (None, each.name) or chosen in each.figures), None)
    if scorer is None:
        names = ", ".join(name for each in verdict.scores for name in (each.name, *each.figures)) or "none"
        what = "a score" if chosen is None else repr(chosen)
        raise VerifierError(f"no scorer gave {what}; there are: {names}", retryable=False)
    figures = {chosen: scorer.figures[chosen]} if chosen in scorer.figures and chosen else scorer.figures
    if not figures or not all(is_number(value) for value in figures.values()):
        raise VerifierError(f"the scorer {scorer.name!r} gave {scorer.value!r:.80}, which is no number")
    numbers = {name: value for name, value in figures.items() if value is not None}
    others = [item for each in verdict.scores for item in each.figures.items() if item[0] not in numbers]
    parts = {name: Component(value=value, weight=1 / len(numbers)) for name, value in numbers.items()}
    parts |= {name: Component(value=value, weight=0.0) for name, value in others if value is not None}
    ended = f"stopped at its {verdict.limit} limit; " if verdict.limit not in (None, "custom") else ""
    return Score(
        reward=fsum(numbers.values()) / len(numbers),
        passed=scorer.passed,
        components=parts if len(parts) > 1 else {},
        feedback=f"{ended}{scorer.name}: {scorer.value}; {scorer.said}"[:500],
    )
