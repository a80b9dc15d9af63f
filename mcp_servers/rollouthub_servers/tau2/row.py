"""`Tau2Row`: a task as the import stores it, complete; and the hub's task that is made from it."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from rollouthub import BadRow, Public, Secret, Task
from rollouthub.errors import DataError, invalid_fields
from rollouthub.values import Frozen
from rollouthub_servers.foreign.imported_file import read_imported, read_lines

ROWS, ABOUT = "rows.jsonl", "about.json"
_JUDGED = "NL_ASSERTION"
_UNJUDGED = "{id} is scored by assertions in words, and with judge=none no judge scores them"
Requestor = Literal["assistant", "user"]


class _Read(Frozen):
    """Base of models that read some fields of a larger object and ignore the others."""

    model_config = ConfigDict(extra="ignore")


class GoldAction(_Read):
    """One call of the task's reference solution."""

    name: str
    arguments: dict[str, JsonValue]
    requestor: Requestor = "assistant"


class Criteria(_Read):
    """The evaluation criteria that the hub reads; τ²-bench's evaluator reads all of them."""

    actions: tuple[GoldAction, ...] | None = None
    communicate_info: tuple[str, ...] | None = None
    nl_assertions: tuple[str, ...] | None = None
    reward_basis: tuple[str, ...] = ("DB", "COMMUNICATE")


class CallReason(_Read):
    """What a scripted user says first."""

    reason_for_call: str


class Scenario(_Read):
    """The user's instructions."""

    instructions: CallReason | str


class TaskText(_Read):
    """The fields of a task that the hub reads itself."""

    id: str
    user_scenario: Scenario
    evaluation_criteria: Criteria | None = None


class Tau2Row(Frozen):
    """One task. All of it is secret: it holds the solution, and what the user knows."""

    id: str
    """`DOMAIN/ID`."""
    domain: str
    splits: tuple[str, ...] = ()
    """The domain's own splits that contain the task."""
    task: dict[str, JsonValue] = Field(repr=False)
    """The complete task as the checkout holds it."""
    reference_fails: str | None = None
    """Why the task's own actions do not earn reward 1 from τ²-bench's evaluator; None where they do."""

    @property
    def read(self) -> TaskText:
        """Parse the fields of the task that the hub reads.

        Raises:
            ValidationError: it is not a task of τ²-bench.
        """
        return TaskText.model_validate(self.task)

    @property
    def criteria(self) -> Criteria:
        """The task's evaluation criteria."""
        return self.read.evaluation_criteria or Criteria(reward_basis=())

    @property
    def assertions(self) -> tuple[str, ...]:
        """Assertions in natural language that the reward depends on."""
        criteria = self.criteria
        return (criteria.nl_assertions or ()) if _JUDGED in criteria.reward_basis else ()

    @property
    def reason(self) -> str:
        """Why the user calls."""
        said = self.read.user_scenario.instructions
        return said if isinstance(said, str) else said.reason_for_call

    @property
    def runs(self) -> list[tuple[Requestor, list[GoldAction]]]:
        """The task's reference solution, split into runs of calls by the same side."""
        found: list[tuple[Requestor, list[GoldAction]]] = []
        for action in self.criteria.actions or ():
            if not found or found[-1][0] != action.requestor:
                found.append((action.requestor, []))
            found[-1][1].append(action)
        return found


class Tau2Secret(Secret):
    """The complete task, which agents never see."""

    row: Tau2Row


class AboutRows(Frozen):
    """Summary of the rows of an import."""

    domains: tuple[str, ...]
    splits: dict[str, int]
    judged: int = 0
    """Number of tasks whose reward depends on a judge."""

    @classmethod
    def read(cls, folder: Path) -> "AboutRows":
        """Read the summary in the folder of an import.

        Raises:
            ConfigError: there is none.
        """
        return read_imported(cls, folder / ABOUT, "give data=FOLDER of an import")


def read_rows(folder: Path, split: str, *, with_judge: bool) -> Iterator[Task[Public, Tau2Secret] | BadRow]:
    """Yield the tasks of a split; without a judge, tasks that need one are bad rows.

    Raises:
        ConfigError: the folder holds no import.
    """
    file = folder / ROWS
    for number, line in read_lines(file):
        try:
            row = Tau2Row.model_validate_json(line)
            judged = bool(row.assertions)
        except ValidationError as error:
            yield BadRow(DataError(f"{invalid_fields(error)}; import it again", file, number))
            continue
        if split not in _splits_of(row):
            continue
        if judged and not with_judge:
            yield BadRow(DataError(_UNJUDGED.format(id=row.id), file, number))
            continue
        metadata: dict[str, Any] = {"domain": row.domain, "reward_basis": list(row.criteria.reward_basis)}
        prompt = f"A customer talks to the service desk of {row.domain}."
        yield Task(Public(id=row.id, prompt=prompt, metadata=metadata), Tau2Secret(row=row))


def write_rows(folder: Path, rows: Iterable[Tau2Row]) -> AboutRows:
    """Write the rows, and the summary of them."""
    splits, domains, judged = Counter[str](), dict[str, None](), 0
    with (folder / ROWS).open("w", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(row.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False) + "\n")
            splits.update(_splits_of(row))
            domains[row.domain] = None
            judged += bool(row.assertions)
    about = AboutRows(domains=tuple(domains), splits=dict(splits), judged=judged)
    (folder / ABOUT).write_text(about.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return about


def _splits_of(row: Tau2Row) -> tuple[str, ...]:
    return ("test", row.domain, *(f"{row.domain}_{each}" for each in row.splits))
