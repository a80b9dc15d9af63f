"""`Hud`: the environment class that an imported environment becomes; an instance is one rollout of a task."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, JsonValue, ValidationError

from rollouthub.environment import Environment
from rollouthub.errors import DataError, VerifierError, invalid_fields
from rollouthub.messages import user
from rollouthub.score import Score
from rollouthub.task import BadRow, Public, Secret, Task
from rollouthub_servers.foreign.conversation import (
    CONVERSATION,
    ConversationConfig,
    ForeignConversation,
    ForeignRow,
    imported_folder,
    is_number,
)
from rollouthub_servers.foreign.imported_file import read_lines
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import ForeignLock
from rollouthub_servers.hud.hud_record import CODE, SPLIT, TASKS, HudRecord, hud_program


class HudConfig(ConversationConfig):
    """Settings of an imported environment: its folder and its deadlines."""


class Hud(ForeignConversation, Environment[HudConfig]):
    """An environment of HUD, played as it is (`hub import hud`)."""

    @classmethod
    def splits(cls, config: Any) -> tuple[str, ...]:
        """Its tasks."""
        return (SPLIT,)

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        """Yield its tasks, in the order of its code and its files."""
        for number, line in read_lines(imported_folder(config) / TASKS):
            yield _task(line, number)

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """The files of this package, and what it shares with others."""
        return [CONVERSATION, *sorted(Path(__file__).parent.rglob("*.py"))]

    @classmethod
    def program(cls, folder: Path, lock: ForeignLock) -> ForeignProgram:
        """What runs the environment."""
        return hud_program(HudRecord.read(str(folder)), folder / CODE, lock)

    def score_of(self, answer: Any) -> Score:
        """The score of a grade."""
        return score_of(answer)


class _HudLine(BaseModel):
    """A line of the file, as the driver gives it."""

    row: dict[str, JsonValue]
    problem: str | None


def _task(text: bytes, number: int) -> Task[Public, Secret] | BadRow:
    try:
        line = _HudLine.model_validate_json(text)
    except ValidationError as error:
        return BadRow(DataError(invalid_fields(error), TASKS, number))
    if line.problem is not None:
        return BadRow(DataError(line.problem[:300], TASKS, number))
    # Its arguments may hold the answer, and its prompt is made when it starts.
    public = Public(id=str(line.row.get("slug")), prompt=(user(""),), source=str(line.row.get("id")))
    return Task(public, ForeignRow(row=line.row))


class _SubScore(BaseModel):
    name: str
    value: float


class _Grade(BaseModel):
    """A grade, as HUD's protocol has it."""

    score: Any
    content: str | None = None
    isError: bool = False
    subscores: list[_SubScore] | None = None


def score_of(answer: Any) -> Score:
    """The score of a grade.

    Raises:
        VerifierError: it is none, or says that grading failed.
    """
    try:
        grade = _Grade.model_validate(answer)
    except ValidationError as error:
        raise VerifierError(f"the task gave no grade: {invalid_fields(error)}") from error
    if grade.isError:
        raise VerifierError(f"the task says that its grading failed: {grade.content or ''!s:.300}")
    if not is_number(grade.score):
        raise VerifierError(f"the task gave the score {grade.score!r:.80}, which is no number")
    parts = grade.subscores or []
    return Score(
        reward=float(grade.score),
        metrics={part.name: part.value for part in parts if is_number(part.value)},
        feedback=(grade.content or "")[:500] or None,
    )
