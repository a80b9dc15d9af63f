"""Finds rollouts far from the others of their environment in time, stage times, tokens, turns or tool calls."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median

from rollouthub.analysis.run_doctor.attempt_rows import AttemptRow, RunRecord
from rollouthub.analysis.run_doctor.robust import scores
from rollouthub.analysis.run_doctor.symptom import Symptom, share, some_ids

FAR = 8.0
"""Distance from the median, in robust standard deviations, that makes an outlier. Episode times have long tails; the
usual 3.5 would flag one in twenty.
"""
FEWEST = 20
"""Scored rollouts that an environment needs before outliers are looked for."""
LISTED = 10


@dataclass(frozen=True)
class _Measure:
    name: str
    of: Callable[[AttemptRow], float]
    floor: float
    """Smallest spread assumed for the measure; where no value exceeds it, the measure is skipped."""
    unit: str = ""


_MEASURES = (
    _Measure("total", lambda attempt: attempt.seconds, 0.05, " s"),
    _Measure("setup", lambda attempt: attempt.setup_seconds, 0.05, " s"),
    _Measure("model", lambda attempt: attempt.model_seconds, 0.05, " s"),
    _Measure("tool", lambda attempt: attempt.tool_seconds, 0.05, " s"),
    _Measure("verify", lambda attempt: attempt.verify_seconds, 0.05, " s"),
    _Measure("close", lambda attempt: attempt.close_seconds, 0.05, " s"),
    _Measure("prompt tokens", lambda attempt: float(attempt.prompt_tokens), 50.0),
    _Measure("output tokens", lambda attempt: float(attempt.output_tokens), 20.0),
    _Measure("turns", lambda attempt: float(attempt.turns), 1.0),
    _Measure("tool calls", lambda attempt: float(attempt.tool_calls), 1.0),
)


@dataclass
class Outlier:
    """One outlying rollout, and the measures in which it is far from the others."""

    attempt: AttemptRow
    score: float = 0.0
    """The largest of its distances from the medians, in robust standard deviations."""
    why: list[str] = field(default_factory=list[str])


def find_outliers(run: RunRecord) -> list[Outlier]:
    """Return the outlying rollouts, the furthest from the median first."""
    by_environment: dict[str, list[AttemptRow]] = {}
    for attempt in run.scored:
        by_environment.setdefault(attempt.environment, []).append(attempt)
    found: dict[str, Outlier] = {}
    for attempts in by_environment.values():
        if len(attempts) < FEWEST:
            continue
        for measure in _MEASURES:
            values = [measure.of(attempt) for attempt in attempts]
            if max(values) <= measure.floor:
                continue
            middle = median(values)
            for attempt, value, score in zip(attempts, values, scores(values, floor=measure.floor), strict=True):
                if abs(score) >= FAR:
                    outlier = found.setdefault(attempt.rollout_id, Outlier(attempt))
                    outlier.score = max(outlier.score, abs(score))
                    outlier.why.append(
                        f"{measure.name} {_shown(value)}{measure.unit} (median {_shown(middle)}{measure.unit})"
                    )
    return sorted(found.values(), key=lambda outlier: -outlier.score)


def outliers(run: RunRecord, found: list[Outlier]) -> Iterator[Symptom]:
    """Yield one symptom for the outlying rollouts, if there are any."""
    if found:
        yield Symptom(
            "outliers",
            "remark",
            "performance",
            f"{share(len(found), len(run.scored))} rollouts are far from the others of their environment; "
            f"the furthest: {found[0].attempt.rollout_id}, {'; '.join(found[0].why[:3])}",
            "",
            "they are listed below; look at one: hub show RUN ROLLOUT",
            len(found),
            some_ids(outlier.attempt.rollout_id for outlier in found),
        )


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
