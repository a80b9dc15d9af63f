"""A run as a comparison reads it: its rollouts by task, where a task is what it asks and not only what it is called."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from rollouthub.rollout import Outcome
from rollouthub.statistics import GroupCounts
from rollouthub.store import RunInfo, open_run
from rollouthub.store.read_only_source import ReadOnlySource


class ComparedTask(NamedTuple):
    """One task, wherever it was played."""

    environment: str
    split: str
    task_id: str
    digest: str


class ComparedAttempt(NamedTuple):
    """One attempt."""

    environment: str
    split: str
    task_id: str
    digest: str
    seed: int
    environment_identity: str
    """Of all its bytes: its code and, where it was installed, its bundle and dependencies."""
    effective: int
    outcome: str
    reward: float | None
    passed: int | None
    prompt_tokens: int
    output_tokens: int
    cost: float | None
    seconds: float
    started_at: float
    finished_at: float
    told: int = 0
    """How often a person spoke to its agent."""

    @property
    def key(self) -> ComparedTask:
        """Its task."""
        return ComparedTask(self.environment, self.split, self.task_id, self.digest)


_QUERY = """
SELECT environment, split, task_id, json_extract(body, '$.task.digest'), json_extract(body, '$.seed'),
    json_extract(body, '$.environment.digest', '$.environment.bundle', '$.environment.dependencies'),
    effective, outcome, reward, passed, prompt_tokens, output_tokens, cost, seconds, started_at, finished_at,
    coalesce(json_array_length(body, '$.told'), 0)
FROM rollouts ORDER BY id
"""


@dataclass(frozen=True)
class ComparedRun:
    """A run that takes part."""

    label: str
    """Its model, or its directory's name."""
    info: RunInfo
    attempts: tuple[ComparedAttempt, ...]

    @property
    def keys(self) -> set[ComparedTask]:
        """Its tasks."""
        return {attempt.key for attempt in self.attempts}

    def only(self, keys: set[ComparedTask]) -> "ComparedRun":
        """The run with these tasks alone."""
        return ComparedRun(self.label, self.info, tuple(attempt for attempt in self.attempts if attempt.key in keys))

    def groups(self) -> Iterator[tuple[ComparedTask, GroupCounts]]:
        """Each task's samples, counted by their effective attempts."""
        samples: dict[ComparedTask, list[ComparedAttempt]] = {}
        for attempt in self.attempts:
            if attempt.effective:
                samples.setdefault(attempt.key, []).append(attempt)
        for key, attempts in samples.items():
            rewards = [attempt.reward for attempt in attempts if attempt.outcome == Outcome.SCORED]
            given = [reward for reward in rewards if reward is not None]
            verdicts = [attempt.passed for attempt in attempts if attempt.passed is not None]
            yield (
                key,
                GroupCounts(
                    environment=key.environment,
                    task_id=key.task_id,
                    planned=len(attempts),
                    scored=len(given),
                    passed=sum(verdicts) if verdicts else None,
                    reward_sum=sum(given),
                    reward_sq_sum=sum(reward * reward for reward in given),
                    judged=len(verdicts),
                ),
            )


def read_compared(directory: Path, label: str | None = None) -> ComparedRun:
    """Read a run; its label is its model unless one is given.

    Raises:
        RunDirectoryError: there is none, or none that can be read.
    """
    with open_run(directory) as reader:
        info = reader.info
    source = ReadOnlySource(directory)
    try:
        with source.connect() as connection:
            attempts = tuple(map(ComparedAttempt._make, connection.execute(_QUERY)))
    finally:
        source.close()
    return ComparedRun(label or _label(info), info, attempts)


def _label(info: RunInfo) -> str:
    request = info.resolved.get("request")
    given = cast("dict[str, object]", request) if isinstance(request, dict) else {}
    return str(given.get("model") or given.get("agent") or info.directory.name)
