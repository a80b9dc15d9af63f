"""The facts of a report: every format is written from these models, and `--format json` prints exactly these.

In all text the control characters are removed, paths are shortened and secrets masked.
"""

from typing import Literal

from pydantic import Field, JsonValue

from rollouthub.store.notes import TurnNotes
from rollouthub.values import Frozen
from rollouthub.views.report.rollout_text import Transcript

REPORT_VERSION: Literal[2] = 2


class Figure(Frozen):
    """A mean over tasks with its 95 % interval."""

    value: float | None
    """The mean; None if no task counts."""
    low: float | None = None
    """Lower end of the interval; None if fewer than two tasks count."""
    high: float | None = None
    tasks: int = 0
    """Number of tasks that count."""


class AtKFigures(Frozen):
    """pass@k and avg@k for one k."""

    k: int
    pass_at_k: Figure | None
    """The chance that one of k samples passes; None if no verifier says whether a rollout passed."""
    avg_at_k: Figure


class EnvironmentIdentity(Frozen):
    """An environment that was played, identified by digests."""

    name: str
    version: str
    code: str
    """Digest of the environment's code."""
    bundle: str | None
    """Digest of the bundle it was installed from; None if it ships with the hub or was run from a folder."""
    dependencies: str | None
    """Digest of the pinned list of its dependencies."""
    tools: str | None
    """Digest of the tool schemas offered to the agent."""
    verifier: str | None
    """Name, version and digest of the verifier."""
    isolation: str
    sandboxes: tuple[str, ...]
    """The sandboxes that were really used: provider, isolation, image and network."""
    split: str
    rollouts: int


class AgentIdentity(Frozen):
    """An agent that played, and its configuration."""

    name: str
    version: str
    config: dict[str, JsonValue]
    digest: str
    """Digest of the configuration as canonical JSON, before secrets were masked."""
    rollouts: int


class RunIdentity(Frozen):
    """The environments, tasks, agents, models and settings behind a run's figures."""

    environments: tuple[EnvironmentIdentity, ...]
    tasks: int
    """Number of different tasks played."""
    tasks_digest: str | None
    """Digest of the played tasks with their contents; equal in runs that played the same tasks."""
    agents: tuple[AgentIdentity, ...]
    models: tuple[str, ...]
    fallbacks: tuple[str, ...]
    roles: dict[str, str]
    """Role → the model that environments call under this role."""
    seats: dict[str, str] = {}
    """Seat → the model, agent or both that played it, for seats that have their own."""
    seed: int | None
    repeats: int | None
    """Number of samples of each task."""
    sampling: dict[str, JsonValue]
    """The requested sampling settings; for others the backend's defaults applied."""
    limits: dict[str, dict[str, JsonValue]]
    """Environment → the limits of its episodes."""
    left_out: int = 0
    """Number of rollouts of environments, agents or models that are not listed here."""


class ReportFigures(Frozen):
    """The figures of a run, or of one of its environments."""

    name: str
    tasks: int
    planned: int
    played: int
    """Number of samples that ended, scored or not."""
    scored: int
    coverage: float | None
    """Scored divided by planned rollouts."""
    mean_reward: Figure
    """Mean over scored rollouts."""
    mean_reward_strict: Figure
    """Mean reward in which agent failures count as 0."""
    pass_rate: Figure | None
    """Share that passed; None if no verifier says whether a rollout passed."""
    judged: int
    """Number of samples that passed or failed."""
    passed: int
    constant_groups: int
    """Number of tasks with two or more samples that all have the same reward."""
    kinds: dict[str, int]
    """Kind of outcome → samples: scored, agent_failure, infrastructure_fault, verifier_fault, cancelled."""


class Bar(Frozen):
    """One bar of the reward distribution."""

    low: float
    high: float
    """Equal to `low` if the bar stands for one value."""
    count: int


class Quantiles(Frozen):
    """Percentiles of a quantity over rollouts."""

    p50: float
    p95: float
    p99: float


class ReportedUsage(Frozen):
    """Calls, tokens and cost of one model over all attempts."""

    role: str
    """Role under which environments call the model; empty for the agent's model."""
    calls: int
    prompt_tokens: int
    output_tokens: int
    cost: float | None
    """US dollars; None if no call has a known price."""


class GroupFigures(Frozen):
    """The figures of one task's samples."""

    environment: str
    split: str
    task: str
    samples: int
    scored: int
    passed: int | None
    mean_reward: float | None
    deviation: float | None
    """Standard deviation of the rewards; None with fewer than two rewards."""


class FaultClass(Frozen):
    """A kind of fault, and how many attempts it broke."""

    name: str
    """The boundary that broke and the error type, as `boundary:type`."""
    attempts: int
    example: str
    """The latest error message."""


class Resumed(Frozen):
    """One resumption of the run."""

    at: float
    """Seconds since the epoch."""
    hub_version: str
    changes: tuple[str, ...]


class LoggedFigures(Frozen):
    """What the trainer that learnt from the run logged of one step."""

    step: int
    at: float
    """Seconds since the epoch."""
    figures: dict[str, float | None]
    """None where a figure was no finite number."""


class NotedPart(Frozen):
    """The notes on a rollout itself, or on one of its turns."""

    turn: int | None
    """The turn, counted from 1; None for the rollout itself."""
    notes: TurnNotes
    """Times are seconds since the epoch."""


class NotedRollout(Frozen):
    """A rollout that people noted something on."""

    rollout_id: str
    attempt: int
    is_effective: bool
    """Whether the attempt is the one that counts."""
    environment: str
    task: str
    sample: int
    outcome: str
    reward: float | None
    parts: tuple[NotedPart, ...]
    comments_left_out: int
    """Number of comments that are not here."""


class RunReport(Frozen):
    """The report's facts about one run."""

    name: str
    run_id: str
    status: Literal["running", "finished", "interrupted", "failed", "dead"]
    notices: tuple[str, ...]
    """Warnings that a reader must know before trusting the figures."""
    created_at: float
    """Seconds since the epoch."""
    finished_at: float | None
    hub_version: str
    is_locked: bool
    """Whether the run has a lock file that pins its environments."""
    commands: tuple[str, ...]
    """Commands that play the run again; empty if `hub run` cannot."""
    identity: RunIdentity
    settings: dict[str, JsonValue]
    """The resolved settings, with secrets masked, paths shortened and unset ones left out."""
    figures: ReportFigures
    environments: tuple[ReportFigures, ...]
    at_k: tuple[AtKFigures, ...]
    rewards: tuple[Bar, ...]
    outcomes: dict[str, int]
    stops: dict[str, int]
    stages: dict[str, Quantiles]
    """Stage → seconds per rollout."""
    sizes: dict[str, Quantiles]
    """Turns, tool calls, prompt tokens and output tokens per rollout."""
    attempts: int
    """Number of attempts at all samples, including those that a later attempt replaced."""
    usage: tuple[ReportedUsage, ...]
    groups: tuple[GroupFigures, ...]
    groups_left_out: int
    """Number of tasks not in `groups`, which lists those with the lowest mean or the largest deviation."""
    transcripts: tuple[Transcript, ...]
    faults: tuple[FaultClass, ...]
    bad_rows: int
    resumptions: tuple[Resumed, ...]
    trainer: tuple[LoggedFigures, ...] = ()
    """Steps that a trainer logged, at most 200 of them, evenly spaced."""
    noted: tuple[NotedRollout, ...] = ()
    """Rollouts with notes of people, starred ones first."""
    noted_left_out: int = 0
    """Number of rollouts with notes that are not in `noted`."""


class ComparedFigures(Frozen):
    """The figures of one run on the tasks that all compared runs have."""

    label: str
    scored: int
    rollouts: int
    mean_reward: Figure | None
    pass_rate: float | None
    difference: Figure | None
    """Mean reward minus that of the first run, paired by task; None for the first run."""
    prompt_tokens: float
    output_tokens: float
    cost: float | None
    """US dollars per rollout."""
    seconds_p50: float | None
    seconds_p95: float | None
    projected_cost: float | None
    projected_seconds: float | None
    kinds: dict[str, int]


class MatrixCellFigures(Frozen):
    """One run in one environment."""

    tasks: int
    samples: int
    scored: int
    mean_reward: Figure | None
    pass_rate: Figure | None
    difference: Figure | None
    """Mean reward minus that of the first run, paired by task; None where there is nothing to compare with."""
    p: float | None
    """p-value of the difference by a sign-flip test."""
    adjusted_p: float | None
    """Adjusted for the number of tests of the matrix (Holm); None where no result could be significant."""
    verdict: Literal["better", "worse", "unclear", ""]


class MatrixRowFigures(Frozen):
    """One run in every environment."""

    label: str
    cells: tuple[MatrixCellFigures | None, ...]
    """One for each environment of the matrix; None where the run did not play it."""
    overall: MatrixCellFigures | None
    """Over the environments that all runs played; None where there is but one environment, or no common one."""


class MatrixFigures(Frozen):
    """Runs × environments."""

    environments: tuple[str, ...]
    rows: tuple[MatrixRowFigures, ...]
    tests: int
    """Number of tests that the p-values are adjusted for."""


class SideFigures(Frozen):
    """One run's samples of a task."""

    samples: int
    scored: int
    passed: int | None
    mean_reward: float | None


class TaskChange(Frozen):
    """A task that two runs played differently."""

    environment: str
    split: str
    task: str
    first: SideFigures
    second: SideFigures
    difference: float | None
    adjusted_p: float | None
    """Adjusted for the number of tasks (Benjamini and Hochberg); None where no result could be significant."""
    verdict: Literal["worse", "better", "lower", "higher", "same", "unscored"]
    """`worse` and `better` are significant, `lower` and `higher` may be chance."""
    transcripts: tuple[Transcript | None, Transcript | None] = (None, None)
    """The first run's best and the second run's worst rollout of the task; None where the report has none."""


class RunChangesFigures(Frozen):
    """What became of the first run's tasks in another run."""

    label: str
    counts: dict[str, int]
    """Verdict → number of tasks."""
    worse: tuple[TaskChange, ...]
    """The tasks whose mean reward fell most, the significant ones first."""
    better: tuple[TaskChange, ...]


class ComparisonReport(Frozen):
    """A comparison of runs on their common tasks."""

    common_tasks: int
    full_tasks: int | None
    """Number of tasks to which cost and time are projected."""
    standings: tuple[ComparedFigures, ...]
    """Empty where no task was played by all runs."""
    remarks: tuple[str, ...]
    matrix: MatrixFigures | None = None
    changes: tuple[RunChangesFigures, ...] = ()
    """For each run but the first, the tasks that it plays worse or better."""


class Report(Frozen):
    """All facts of a report."""

    report_version: Literal[2] = REPORT_VERSION
    """Increases when a field changes its meaning or is removed; new fields do not change it."""
    made_at: float
    """Seconds since the epoch."""
    hub_version: str
    """Version of the hub that made the report."""
    runs: tuple[RunReport, ...] = Field(min_length=1)
    comparison: ComparisonReport | None = None
