"""`Verifiers`: the environment class that an imported environment becomes; an instance is one rollout there."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rollouthub.environment import Environment
from rollouthub.errors import VerifierError, invalid_fields
from rollouthub.limits import Limits
from rollouthub.score import Score
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
from rollouthub_servers.verifiers.env_record import ROWS, EnvRecord
from rollouthub_servers.verifiers.env_rows import read_rows
from rollouthub_servers.verifiers.env_source import program_of


class VerifiersConfig(ConversationConfig):
    """Settings of an imported environment: its folder and its deadlines."""


class Verifiers(ForeignConversation, Environment[VerifiersConfig]):
    """An environment of the library verifiers, played as it is (`hub import verifiers`)."""

    @classmethod
    def splits(cls, config: Any) -> tuple[str, ...]:
        """The environment's data sets: those of `eval` and `train` that it has."""
        return tuple(EnvRecord.read(config.data).splits) if config.data else ("eval",)

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        """Yield one task per row, in the data set's order."""
        return read_rows(imported_folder(config) / ROWS / f"{split}.jsonl", split)

    @classmethod
    def limits(cls, config: Any) -> Limits:
        """The environment's own limit on turns."""
        most = EnvRecord.read(config.data).max_turns if config.data else None
        return Limits() if most is None else Limits(max_turns=most)

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """The files of this package, and what it shares with others."""
        return [CONVERSATION, *sorted(Path(__file__).parent.rglob("*.py"))]

    @classmethod
    def program(cls, folder: Path, lock: ForeignLock) -> ForeignProgram:
        """What runs the environment."""
        return program_of(folder, EnvRecord.read(str(folder)), lock)

    def score_of(self, answer: Any) -> Score:
        """The score of what the rubric says."""
        return score_of(answer)


class _Failed(Frozen):
    """A reward function that failed, which the library makes a 0."""

    said: str
    outside: bool
    """Whether it failed for want of a service or a network."""


class _Verdict(Frozen):
    """What the driver says of a rollout."""

    reward: Any
    metrics: dict[str, Any]
    failed: tuple[_Failed, ...]
    stop: str | None
    turns: int


def score_of(answer: Any) -> Score:
    """The score of what the rubric says.

    Raises:
        VerifierError: it gives no number, or a service that it asks gave none.
    """
    try:
        verdict = _Verdict.model_validate(answer)
    except ValidationError as error:
        raise VerifierError(f"the rubric gave no verdict: {invalid_fields(error)}") from error
    if outside := [each.said for each in verdict.failed if each.outside]:
        raise VerifierError(
            f"a reward function asks a service that is not there, so its 0 means nothing: {outside[0]}",
            retryable=False,
        )
    if not is_number(verdict.reward):
        raise VerifierError(f"the rubric gave the reward {verdict.reward!r:.80}, which is no number")
    said = "; ".join(each.said for each in verdict.failed)
    return Score(
        reward=float(verdict.reward),
        metrics={name: float(value) for name, value in verdict.metrics.items() if is_number(value)},
        suspect=f"a reward function failed, and counts as 0: {said}"[:500] if said and verdict.turns else None,
        feedback=f"{verdict.turns} turns, {verdict.stop or 'not ended'}",
    )
