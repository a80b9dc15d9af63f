"""A run in the form that a comparison needs: its rollouts by task. A task is identified by its content, too, not
only by its id.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from rollouthub.rollout import Outcome
from rollouthub.statistics import GroupCounts
from rollouthub.store import RunInfo, open_run
from rollouthub.store.read_only_source import ReadOnlySource


class ComparedTask(NamedTuple):
    """Identity of a task across runs: environment, split, id and the digest of its content."""

    environment: str
    split: str
    task_id: str
    digest: str


class ComparedAttempt(NamedTuple):
    """One attempt of a compared run."""

    environment: str
    split: str
    task_id: str
    digest: str
    seed: int
    environment_identity: str
    """Digests of the environment's code and, for an installed environment, of its bundle and dependencies, as a JSON
    array.
    """
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
    """Number of messages that a person sent to its agent."""

    @property
    def key(self) -> ComparedTask:
        """The task that the attempt played."""
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
    """A run in a comparison: its label, its facts and its attempts."""

    label: str
    """The run's model, agent and seats, or the name of its directory; unless the caller gave a label."""
    info: RunInfo
    attempts: tuple[ComparedAttempt, ...]

    @property
    def keys(self) -> set[ComparedTask]:
        """The run's tasks, by environment, split, id and digest."""
        return {attempt.key for attempt in self.attempts}

    def only(self, keys: set[ComparedTask]) -> "ComparedRun":
        """Return the run restricted to these tasks."""
        return ComparedRun(self.label, self.info, tuple(attempt for attempt in self.attempts if attempt.key in keys))

    def groups(self) -> Iterator[tuple[ComparedTask, GroupCounts]]:
        """Yield each task with the counts over its samples; only effective attempts count."""
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

    def task_means(self) -> dict[ComparedTask, float]:
        """Each task's mean reward, of the tasks with a scored sample."""
        return {key: group.mean_reward for key, group in self.groups() if group.mean_reward is not None}


def read_compared(directory: Path, label: str | None = None) -> ComparedRun:
    """Read a run for a comparison. Without a label, it is labelled by its model, agent and seats, else by its
    directory.

    Raises:
        RunDirectoryError: the directory holds no run, or the run cannot be read.
    """
    with open_run(directory) as reader:
        info = reader.info
    source = ReadOnlySource(directory)
    try:
        with source.connect() as connection:
            attempts = tuple(_with_shared_words(connection.execute(_QUERY)))
    finally:
        source.close()
    return ComparedRun(label or _label(info), info, attempts)


def _with_shared_words(rows: Iterable[tuple[Any, ...]]) -> Iterator[ComparedAttempt]:
    """Attempts whose words are the same objects, where they are the same: of 100,000 rows they take most of the
    memory.
    """
    known: dict[Any, Any] = {}
    for environment, split, task, digest, seed, identity, effective, outcome, *figures in rows:
        yield ComparedAttempt(
            known.setdefault(environment, environment),
            known.setdefault(split, split),
            known.setdefault(task, task),
            known.setdefault(digest, digest),
            seed,
            known.setdefault(identity, identity),
            effective,
            known.setdefault(outcome, outcome),
            *figures,
        )


def _label(info: RunInfo) -> str:
    request = info.resolved.get("request")
    given = cast("dict[str, object]", request) if isinstance(request, dict) else {}
    seats = [f"{seat}={player}" for seat, player in info.seats.items()]
    own = given.get("model") or given.get("agent")
    return ", ".join([*([str(own)] if own else []), *seats]) or info.directory.name
