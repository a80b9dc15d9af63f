"""Compares runs on their common tasks; each run is paired with the first, task by task."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rollouthub.analysis.compare.compared_run import ComparedRun, ComparedTask
from rollouthub.analysis.compare.run_matrix import RunMatrix, paired_estimate, run_matrix
from rollouthub.analysis.compare.task_changes import RunChanges, run_changes
from rollouthub.errors import ConfigError
from rollouthub.live.follow.pace import overall_rate
from rollouthub.rollout import Outcome
from rollouthub.statistics import Estimate, summarise_groups
from rollouthub.statistics.quantiles import quantile


@dataclass(frozen=True)
class RunStanding:
    """One run's figures on the common tasks."""

    label: str
    run: str
    status: str
    rollouts: int
    scored: int
    mean_reward: Estimate | None
    """Mean over scored rollouts, with its interval; None where nothing was scored."""
    pass_rate: float | None
    difference: Estimate | None
    """Mean reward minus the first run's, paired by task over the tasks that both runs scored; None for the first run
    itself.
    """
    prompt_tokens: float
    """Mean prompt tokens per rollout, broken attempts included."""
    output_tokens: float
    cost: float | None
    """Mean US dollars per rollout, broken attempts included; None if no price is known."""
    seconds_p50: float | None
    seconds_p95: float | None
    """Percentiles of the seconds of a rollout, by the attempt that counts."""
    rollouts_per_second: float | None
    outcomes: dict[str, int]
    """Kind of ending → rollouts; kinds are never merged."""
    projected_cost: float | None
    projected_seconds: float | None
    """Projected time in seconds for the full set of tasks, at the same concurrency; None where it is unknown."""


@dataclass(frozen=True)
class Comparison:
    """Several runs on their common tasks."""

    standings: tuple[RunStanding, ...]
    """Empty where no task was played by all runs."""
    common: int
    """Number of tasks that all runs played."""
    left_out: dict[str, int]
    """Label → number of tasks of that run which another run did not play."""
    remarks: tuple[str, ...]
    full_tasks: int | None
    """Number of tasks that cost and time are projected for."""
    matrix: RunMatrix | None = None
    """The runs in each environment, with significance corrected for the number of comparisons; None if not asked."""
    changes: tuple[RunChanges, ...] = ()
    """For each run but the first, the tasks that it plays worse or better; empty if not asked for."""

    @property
    def directories(self) -> list[Path]:
        """The directories of the compared runs, in their order."""
        return [Path(row.run) for row in (self.matrix.rows if self.matrix else self.standings)]

    def as_json(self) -> dict[str, Any]:
        """The object that `hub compare --json` prints."""
        return asdict(self)


def compare_runs(runs: Sequence[ComparedRun], full_tasks: int | None = None, *, in_detail: bool = False) -> Comparison:
    """Compare runs on their common tasks; `in_detail`, also by environment, and task by task.

    Raises:
        ConfigError: fewer than two runs, or no task that all of them played; `in_detail`, none that any other run and
            the first both played.
    """
    if len(runs) < 2:
        raise ConfigError("a comparison needs two runs or more")
    runs = labelled(runs)
    common = set[ComparedTask].intersection(*(run.keys for run in runs))
    matrix = run_matrix(runs) if in_detail else None
    changes = tuple(run_changes(runs[0], run) for run in runs[1:]) if in_detail else ()
    if not common:
        if matrix is None or not any(row.is_compared for row in matrix.rows):
            raise ConfigError(_mismatch(runs))
        remark = "no task was played by all of these runs, so each is compared with the first where both played"
        return Comparison((), 0, {}, (remark,), full_tasks, matrix, changes)
    kept = [run.only(common) for run in runs]
    means = [run.task_means() for run in kept]
    standings = tuple(
        _standing(run, None if place == 0 else paired_estimate(means[0], means[place]), full_tasks)
        for place, run in enumerate(kept)
    )
    left_out = {run.label: count for run in runs if (count := len(run.keys) - len(common))}
    return Comparison(standings, len(common), left_out, tuple(_remarks(kept)), full_tasks, matrix, changes)


def labelled(runs: Sequence[ComparedRun]) -> list[ComparedRun]:
    """Return the runs with distinct labels: a repeated label gets the directory's name added."""
    count = Counter(run.label for run in runs)
    return [
        run if count[run.label] == 1 else ComparedRun(f"{run.label} ({run.info.place.name})", run.info, run.attempts)
        for run in runs
    ]


def _mismatch(runs: Sequence[ComparedRun]) -> str:
    """The error message for runs that have no task in common: it says why."""
    names = [{key[:3] for key in run.keys} for run in runs]
    alike = len(set[tuple[str, ...]].intersection(*names))
    listing = ", ".join(f"{run.info.place} has {len(run.keys)}" for run in runs)
    if alike:
        return (
            f"the runs have 0 tasks in common ({listing}): {alike} have the same ids, but ask something else; "
            "play them with the same data, settings, seed and version of the environment"
        )
    return f"the runs have 0 tasks in common ({listing}); play the same environment and split in all of them"


def _standing(run: ComparedRun, difference: Estimate | None, full_tasks: int | None) -> RunStanding:
    effective = [attempt for attempt in run.attempts if attempt.effective]
    count = len(effective)
    overall = summarise_groups(group for _, group in run.groups()).overall
    priced = [attempt.cost for attempt in run.attempts if attempt.cost is not None]
    cost = sum(priced) / count if priced and count else None
    seconds = sorted(attempt.seconds for attempt in effective)
    span = max(attempt.finished_at for attempt in run.attempts) - min(attempt.started_at for attempt in run.attempts)
    rate = overall_rate(count, span)
    tasks = len({attempt.key for attempt in effective}) or 1
    projected = None if full_tasks is None else full_tasks * count / tasks
    kinds: Counter[str] = Counter(Outcome(attempt.outcome).kind for attempt in effective)
    return RunStanding(
        label=run.label,
        run=str(run.info.directory),
        status=run.info.status,
        rollouts=count,
        scored=overall.scored,
        mean_reward=overall.mean_estimate,
        pass_rate=overall.pass_rate,
        difference=difference,
        prompt_tokens=sum(attempt.prompt_tokens for attempt in run.attempts) / max(1, count),
        output_tokens=sum(attempt.output_tokens for attempt in run.attempts) / max(1, count),
        cost=cost,
        seconds_p50=quantile(seconds, 0.5) if seconds else None,
        seconds_p95=quantile(seconds, 0.95) if seconds else None,
        rollouts_per_second=rate,
        outcomes=dict(kinds),
        projected_cost=None if cost is None or projected is None else cost * projected,
        projected_seconds=None if rate is None or projected is None else projected / rate,
    )


def _remarks(runs: Sequence[ComparedRun]) -> list[str]:
    """Remarks on what limits the comparison: other seeds or versions, messages from people, incomplete runs."""
    found: list[str] = []
    by_task = [{attempt.key: attempt for attempt in run.attempts} for run in runs]
    first = by_task[0]
    for run, others in zip(runs[1:], by_task[1:], strict=True):
        if any(others[key].seed != first[key].seed for key in others):
            found.append(f"{run.label} was played with other seeds of the environment than {runs[0].label}")
        if any(others[key].environment_identity != first[key].environment_identity for key in others):
            found.append(f"{run.label} was played with another version of the environment than {runs[0].label}")
    helped = {run.label: sum(bool(attempt.told and attempt.effective) for attempt in run.attempts) for run in runs}
    found += [f"{label}: in {count} rollouts a person spoke to the agent" for label, count in helped.items() if count]
    return found + [
        f"{run.label} is not complete: its run is {run.info.status}" for run in runs if run.info.status != "finished"
    ]
