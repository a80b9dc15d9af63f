"""What a report says: every writer reads these, and `--format json` is exactly these.

Text of agents, models, tools and tasks is plain when it comes in here, paths are shortened and secrets masked.
"""

from typing import Literal

from pydantic import Field, JsonValue

from rollouthub.frozen import Frozen
from rollouthub.views.report.rollout_text import Transcript

REPORT_VERSION: Literal[1] = 1


class Figure(Frozen):
    """A mean over tasks with its 95 % interval."""

    value: float | None
    """None where nothing counts."""
    low: float | None = None
    """None where fewer than two tasks count."""
    high: float | None = None
    tasks: int = 0
    """Tasks that count."""


class AtKFigures(Frozen):
    """What k samples of a task come to."""

    k: int
    pass_at_k: Figure | None
    """None where no verifier draws a pass line."""
    avg_at_k: Figure


class EnvironmentIdentity(Frozen):
    """Which environment was played, to the byte."""

    name: str
    version: str
    code: str
    """Digest of its code."""
    bundle: str | None
    """Digest of the bundle it was installed from; None of one that comes with the hub or runs from a folder."""
    dependencies: str | None
    """Digest over the pinned list of what it was installed with."""
    tools: str | None
    """Digest of the tool schemas offered."""
    verifier: str | None
    """Name, version and digest of what scored."""
    isolation: str
    sandboxes: tuple[str, ...]
    """Where its programs ran, as it really was."""
    split: str
    rollouts: int


class AgentIdentity(Frozen):
    """Who acted."""

    name: str
    version: str
    config: dict[str, JsonValue]
    digest: str
    """Of the configuration, as canonical JSON, before anything in it was masked."""
    rollouts: int


class RunIdentity(Frozen):
    """What made the numbers."""

    environments: tuple[EnvironmentIdentity, ...]
    tasks: int
    """Different tasks played."""
    tasks_digest: str | None
    """The same in two runs exactly where they played the same tasks, contents included."""
    agents: tuple[AgentIdentity, ...]
    models: tuple[str, ...]
    fallbacks: tuple[str, ...]
    roles: dict[str, str]
    """Role → the model that environments ask under it."""
    seed: int | None
    repeats: int | None
    """Samples of each task."""
    sampling: dict[str, JsonValue]
    """What was asked for; what is not in it was the backend's choice."""
    limits: dict[str, dict[str, JsonValue]]
    """Environment → the limits an episode of it had."""
    left_out: int = 0
    """Rollouts of further combinations than are listed here."""


class ReportFigures(Frozen):
    """The figures of a run, or of one environment of it."""

    name: str
    tasks: int
    planned: int
    played: int
    """Samples that ended, however they did."""
    scored: int
    coverage: float | None
    """Scored over planned."""
    mean_reward: Figure
    """Over what was scored."""
    mean_reward_strict: Figure
    """With agent failures at 0."""
    pass_rate: Figure | None
    """None where no verifier draws a pass line."""
    constant_groups: int
    """Tasks whose samples, two or more, all have one reward."""
    kinds: dict[str, int]
    """Kind of ending → samples: scored, agent_failure, infrastructure_fault, verifier_fault, cancelled."""


class Bar(Frozen):
    """One bar of a distribution."""

    low: float
    high: float
    """Equal to `low` where the bar is of one value."""
    count: int


class Quantiles(Frozen):
    """How something spreads over rollouts."""

    p50: float
    p95: float
    p99: float


class ReportedUsage(Frozen):
    """What was used, over all attempts."""

    role: str
    """Empty for the model that plays."""
    calls: int
    prompt_tokens: int
    output_tokens: int
    cost: float | None
    """US dollars; None where no call has a price."""


class GroupFigures(Frozen):
    """One task's samples."""

    environment: str
    split: str
    task: str
    samples: int
    scored: int
    passed: int | None
    mean_reward: float | None
    spread: float | None
    """Standard deviation of the rewards; None with fewer than two."""


class FaultClass(Frozen):
    """One way in which attempts broke."""

    name: str
    """`boundary:type`."""
    attempts: int
    example: str
    """What the latest one said."""


class Resumed(Frozen):
    """One time the run was taken up again."""

    at: float
    """Seconds since the epoch."""
    hub_version: str
    changes: tuple[str, ...]


class RunReport(Frozen):
    """One run."""

    name: str
    run_id: str
    status: Literal["running", "finished", "interrupted", "failed", "dead"]
    notices: tuple[str, ...]
    """What a reader must know before believing the figures."""
    created_at: float
    """Seconds since the epoch."""
    finished_at: float | None
    hub_version: str
    is_locked: bool
    """Whether a lock with the exact bytes of its environments lies beside it."""
    commands: tuple[str, ...]
    """What plays the same again; none where `hub run` cannot."""
    identity: RunIdentity
    settings: dict[str, JsonValue]
    """The settings as resolved; secrets masked, paths shortened, what is not set left out."""
    figures: ReportFigures
    environments: tuple[ReportFigures, ...]
    at_k: tuple[AtKFigures, ...]
    rewards: tuple[Bar, ...]
    outcomes: dict[str, int]
    stops: dict[str, int]
    stages: dict[str, Quantiles]
    """Stage → seconds."""
    sizes: dict[str, Quantiles]
    """Of a rollout: turns, tool calls, prompt and output tokens."""
    attempts: int
    """Of all samples, those that others took the place of included."""
    usage: tuple[ReportedUsage, ...]
    groups: tuple[GroupFigures, ...]
    groups_left_out: int
    """Tasks that are not in `groups`, which has those of the lowest mean and of the widest spread."""
    transcripts: tuple[Transcript, ...]
    faults: tuple[FaultClass, ...]
    bad_rows: int
    resumptions: tuple[Resumed, ...]


class ComparedFigures(Frozen):
    """What one run came to on the tasks that all of them have."""

    label: str
    scored: int
    rollouts: int
    mean_reward: Figure | None
    pass_rate: float | None
    difference: Figure | None
    """Mean reward minus the first's, paired by task; None for the first."""
    prompt_tokens: float
    output_tokens: float
    cost: float | None
    """Tokens and US dollars of a rollout."""
    seconds_p50: float | None
    seconds_p95: float | None
    projected_cost: float | None
    projected_seconds: float | None
    kinds: dict[str, int]


class ComparisonReport(Frozen):
    """Runs side by side on their common tasks."""

    common_tasks: int
    full_tasks: int | None
    """Tasks that cost and time are projected for."""
    standings: tuple[ComparedFigures, ...]
    remarks: tuple[str, ...]


class Report(Frozen):
    """Everything a report says."""

    report_version: Literal[1] = REPORT_VERSION
    """Grows when a field changes its meaning or goes away; new fields may come without."""
    made_at: float
    """Seconds since the epoch."""
    hub_version: str
    """Of the hub that made the report."""
    runs: tuple[RunReport, ...] = Field(min_length=1)
    comparison: ComparisonReport | None = None
