"""The figures of a run, read from its store: the same for a run that just ended, a resumed one, and `hub show`."""

from dataclasses import asdict, dataclass, field
from typing import Any, cast

from rollouthub.rollout import Outcome
from rollouthub.statistics import GroupSummary, RunningMeans, SummaryTable, summarise_groups
from rollouthub.statistics.quantiles import QUANTILES
from rollouthub.store import Resumption, RunReader, Totals
from rollouthub.store.trainer_steps import LoggedStep, read_steps


@dataclass(frozen=True)
class RunSummary:
    """The figures of a run."""

    directory: str
    run_id: str
    status: str
    rollouts: int
    """Number of planned rollouts, or of stored ones if the plan is unknown."""
    means: RunningMeans
    tables: SummaryTable
    stages: dict[str, tuple[float, ...]]
    """Stage → seconds at p50, p95, p99."""
    attempt_faults: dict[str, int]
    """Class of fault → how often it broke an attempt, retried ones included."""
    fault_examples: dict[str, str]
    """Class of fault → the message of its latest occurrence."""
    totals: Totals
    bad_rows: int
    seconds: float
    cpu_seconds: float
    is_interrupted: bool
    stopped: str | None = None
    """Why the run ended by itself before all planned rollouts were played; None otherwise."""
    resumptions: tuple[Resumption, ...] = ()
    agent: str | None = None
    model: str | None = None
    seats: dict[str, str] = field(default_factory=dict[str, str])
    """Seat → its player, for seats that have a player of their own."""
    suspect: int = 0
    """Number of scored rollouts whose verifier gave a reason not to trust the reward."""
    waiting: int = 0
    """Number of rollouts that were played and wait for the verdict on their group."""
    place: str = ""
    """Where people know the run: the directory, or the other tool's files that it was read from."""
    origin: tuple[str, ...] = ()
    """Of a run that was read from another tool's files: which, what the tool says, what is not in them, and remarks."""
    trainer: LoggedStep | None = None
    """What the trainer that learns from the run logged of its latest step; None if it logged nothing."""

    @property
    def scored(self) -> int:
        """Number of rollouts that have a reward."""
        return self.means.scored

    @property
    def missing(self) -> int:
        """Number of planned rollouts that were not played to an end."""
        return max(0, self.rollouts - self.means.finished)

    def as_json(self) -> dict[str, Any]:
        """The JSON object that `hub run --json` prints."""
        means = self.means.to_json()
        return {
            "run": self.directory,
            "run_id": self.run_id,
            "agent": self.agent,
            "model": self.model,
            **({"seats": self.seats} if self.seats else {}),
            "environments": {name: _of_environment(group) for name, group in self.tables.environments.items()},
            "status": self.status,
            "stopped": self.stopped,
            "rollouts": self.rollouts,
            **{key: means[key] for key in ("scored", "coverage", "mean_reward", "mean_reward_strict", "pass_rate")},
            "suspect": self.suspect,
            **({"origin": list(self.origin)} if self.origin else {}),
            **({"waiting": self.waiting} if self.waiting else {}),
            **({} if self.trainer is None else {"trainer": {"step": self.trainer.step, **self.trainer.metrics}}),
            "outcomes": means["outcomes"],
            "attempt_faults": self.attempt_faults,
            "fault_examples": self.fault_examples,
            "bad_rows": self.bad_rows,
            "at_k": [
                {
                    "k": at.k,
                    "pass_at_k": _estimate(at.pass_at_k),
                    "avg_at_k": _estimate(at.avg_at_k),
                }
                for at in self.tables.overall.at_k
            ],
            "prompt_tokens": self.totals.prompt_tokens,
            "output_tokens": self.totals.output_tokens,
            "cost": self.totals.cost,
            "resumptions": [asdict(resumption) for resumption in self.resumptions],
            "stages": {
                stage: {f"p{round(q * 100)}": value for q, value in zip(QUANTILES, values, strict=True)}
                for stage, values in self.stages.items()
            },
            "seconds": round(self.seconds, 4) if self.seconds else None,
            "cpu_seconds": round(self.cpu_seconds, 4) if self.seconds else None,
        }


def _of_environment(group: GroupSummary) -> dict[str, Any]:
    return {
        "tasks": group.tasks,
        "rollouts": group.planned,
        "scored": group.scored,
        "mean_reward": group.mean_reward,
        "pass_rate": group.pass_rate,
    }


def _estimate(estimate: Any) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "standard_error": estimate.standard_error,
        "tasks": estimate.tasks,
    }


def _asked(resolved: dict[str, Any], name: str) -> str | None:
    """A text setting of the run's request; None if it is absent or no text."""
    request = resolved.get("request")
    value: Any = cast(dict[str, Any], request).get(name) if isinstance(request, dict) else None
    return value if isinstance(value, str) else None


def summarise(
    reader: RunReader,
    *,
    seconds: float = 0.0,
    cpu_seconds: float = 0.0,
    is_interrupted: bool = False,
) -> RunSummary:
    """Read a run's figures from its store."""
    info = reader.info
    tables = summarise_groups(reader.group_counts())
    outcomes = reader.outcomes()
    means = reader.means(planned=info.planned or sum(outcomes.values()))
    return RunSummary(
        directory=str(info.directory),
        run_id=info.run_id,
        status=info.status,
        rollouts=means.planned,
        means=means,
        tables=tables,
        stages=reader.stage_quantiles() if outcomes.get(Outcome.SCORED) else {},
        attempt_faults=reader.attempt_faults(),
        fault_examples=reader.fault_examples(),
        totals=reader.totals(),
        bad_rows=info.bad_rows,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        is_interrupted=is_interrupted,
        stopped=info.stopped,
        resumptions=info.resumptions,
        agent=_asked(info.resolved, "agent"),
        model=_asked(info.resolved, "model"),
        seats=info.seats,
        suspect=reader.suspects(),
        place=str(info.place),
        origin=info.origin_lines,
        waiting=reader.waiting(),
        trainer=next(iter(read_steps(info.directory)[-1:]), None),
    )
