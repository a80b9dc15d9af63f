"""Sums over the committed records of a run: a few additions for each, in memory that does not grow with their
number.
"""

from collections.abc import Iterable, Sequence

import msgspec

from rollouthub.rollout import Rollout, Turn
from rollouthub.score import ModelCall
from rollouthub.telemetry.metrics.counter_histogram import Histogram, empty

WINDOW = 256
"""How many of the latest scored rollouts recent means are taken over."""
MOST_ENVIRONMENTS = 64
"""Most environments that are counted separately; further ones are counted together as `other`."""
MOST_ROLES = 16
"""Most model roles that are counted separately; further ones are counted together as `other`."""
OTHER = "other"
STAGES = ("queue", "setup", "model", "tool", "agent", "verify", "close", "total")


class Spent(msgspec.Struct):
    """Model calls of one role: counts, tokens and cost."""

    calls: int = 0
    retries: int = 0
    """Failed tries before the answers."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0
    """Calls whose cost is not known."""

    def pay(self, cost: float | None) -> None:
        """Add the cost of one call; None where it is not known."""
        if cost is None:
            self.unpriced += 1
        else:
            self.dollars += cost

    def add(self, other: "Spent") -> None:
        """Add the counts of another `Spent`."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class RecentValues(msgspec.Struct):
    """The latest values of a quantity, and their mean."""

    values: list[float] = []
    """At most `WINDOW` values, a ring buffer once it is full."""
    place: int = 0

    def put(self, value: float) -> None:
        """Add a value; if the window is full, it replaces the oldest."""
        if len(self.values) < WINDOW:
            self.values.append(value)
        else:
            self.values[self.place] = value
            self.place = (self.place + 1) % WINDOW

    @property
    def mean(self) -> float | None:
        """The mean; None without values, because unscored is not zero."""
        return sum(self.values) / len(self.values) if self.values else None


class EnvironmentTally(msgspec.Struct):
    """Sums over the records of one environment."""

    outcomes: dict[str, int] = {}
    """Numbers of records, by outcome."""
    stages: dict[str, Histogram] = msgspec.field(default_factory=lambda: {stage: empty() for stage in STAGES})
    """Seconds of each stage."""
    model_seconds: Histogram = msgspec.field(default_factory=empty)
    """Seconds of each call of the run's model."""
    tool_seconds: Histogram = msgspec.field(default_factory=empty)
    """Seconds of each tool call."""
    tool_errors: int = 0
    """Tool calls that returned an error to the model."""
    faults: dict[str, int] = {}
    """Numbers of faults, by `boundary phase`."""
    retried: int = 0
    """Attempts that followed a failed attempt."""
    reward_sum: float = 0.0
    scored: int = 0
    passed: int = 0
    failed: int = 0
    """Scored rollouts that did not pass; a rollout for which the verifier says neither counts in neither sum."""
    rewards: RecentValues = msgspec.field(default_factory=RecentValues)
    passes: RecentValues = msgspec.field(default_factory=RecentValues)
    spent: dict[str, Spent] = {}
    """Model calls by role: `policy`, and the roles that the environment calls."""

    def count(self, rollout: Rollout) -> None:
        """Count a record."""
        outcome = rollout.outcome.value
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        timings, stages = rollout.timings, self.stages
        for stage in STAGES:
            seconds: float = getattr(timings, stage)
            if seconds > 0.0:  # a stage that was not reached took no time, and is none of those that were short
                stages[stage].observe(seconds)
        if timings.queue:
            self.retried += 1
        score = rollout.score
        if score is not None:
            self.scored += 1
            self.reward_sum += score.reward
            self.rewards.put(score.reward)
            if score.passed is not None:
                self.passed += score.passed
                self.failed += not score.passed
                self.passes.put(float(score.passed))
            self._count_calls(score.judge_calls)
        self._count_calls(rollout.role_calls)
        for turn in rollout.turns:
            self._count_turn(turn)
        for fault in rollout.faults:
            kind = f"{fault.boundary} {fault.phase}"
            self.faults[kind] = self.faults.get(kind, 0) + 1

    def _count_turn(self, turn: Turn) -> None:
        for call in turn.tool_calls:
            self.tool_seconds.observe(call.seconds)
            self.tool_errors += call.is_error
        usage = turn.usage
        if not turn.seconds and not usage.output_tokens:
            return  # said by no model
        self.model_seconds.observe(turn.seconds)
        spent = self._of("policy")
        spent.calls += 1
        spent.retries += turn.retries
        spent.prompt_tokens += usage.prompt_tokens
        spent.output_tokens += usage.output_tokens
        spent.cached_tokens += usage.cached_tokens
        spent.reasoning_tokens += usage.reasoning_tokens
        spent.pay(turn.cost)

    def _count_calls(self, calls: Sequence[ModelCall]) -> None:
        for call in calls:
            spent = self._of(call.role)
            spent.calls += 1
            spent.prompt_tokens += call.prompt_tokens
            spent.output_tokens += call.output_tokens
            spent.pay(call.cost)

    def _of(self, role: str) -> Spent:
        spent = self.spent.get(role)
        if spent is None:
            if len(self.spent) >= MOST_ROLES and role != OTHER:  # a remote environment names them as it likes
                return self._of(OTHER)
            spent = self.spent[role] = Spent()
        return spent

    def add(self, other: "EnvironmentTally") -> None:
        """Add the sums of another tally; recent means are then over both windows."""
        _add_counts(self.outcomes, other.outcomes)
        _add_counts(self.faults, other.faults)
        for stage, histogram in other.stages.items():
            self.stages[stage].add(histogram)
        self.model_seconds.add(other.model_seconds)
        self.tool_seconds.add(other.tool_seconds)
        for name in ("tool_errors", "retried", "reward_sum", "scored", "passed", "failed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("rewards", "passes"):
            ours: RecentValues = getattr(self, name)
            setattr(self, name, RecentValues([*ours.values, *getattr(other, name).values]))
        for role, spent in other.spent.items():
            self._of(role).add(spent)


class RolloutTally(msgspec.Struct):
    """Sums over the records of a run, or of the part that another process counted."""

    environments: dict[str, EnvironmentTally] = {}

    @property
    def records(self) -> int:
        """The number of records counted."""
        return sum(sum(each.outcomes.values()) for each in self.environments.values())

    @property
    def retried(self) -> int:
        """How many of the records followed a failed attempt."""
        return sum(each.retried for each in self.environments.values())

    def count(self, rollouts: Iterable[Rollout]) -> None:
        """Count records."""
        for rollout in rollouts:
            self.of(rollout.environment.name).count(rollout)

    def of(self, environment: str) -> EnvironmentTally:
        """The tally of one environment; beyond `MOST_ENVIRONMENTS`, that of `other`."""
        found = self.environments.get(environment)
        if found is None:
            if len(self.environments) >= MOST_ENVIRONMENTS and environment != OTHER:
                return self.of(OTHER)
            found = self.environments[environment] = EnvironmentTally()
        return found

    def add(self, other: "RolloutTally") -> None:
        """Add the sums that another process counted."""
        for environment, tally in other.environments.items():
            self.of(environment).add(tally)


def _add_counts(ours: dict[str, int], theirs: dict[str, int]) -> None:
    for name, count in theirs.items():
        ours[name] = ours.get(name, 0) + count
