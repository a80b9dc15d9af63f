"""Symptoms of faults, grouped by cause, and of retries."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from rollouthub.analysis.run_doctor.attempt_rows import AttemptRow, RunRecord
from rollouthub.analysis.run_doctor.causes import cause_of, fault_key
from rollouthub.analysis.run_doctor.symptom import Symptom, Weight, share, some_ids
from rollouthub.rollout import Outcome

MOST_CLUSTERS = 12
STORM_SHARE = 0.1
"""Share of episodes with retried model calls above which the backend counts as overloaded."""
RETRIED_SHARE = 0.1


@dataclass
class _Cluster:
    boundary: str
    attempts: list[AttemptRow] = field(default_factory=list[AttemptRow])

    @property
    def lost(self) -> list[AttemptRow]:
        """The cluster's attempts that left their rollout without a score."""
        return [attempt for attempt in self.attempts if attempt.effective and not attempt.is_scored]


def faults(run: RunRecord) -> Iterator[Symptom]:
    """Yield the faults grouped by cause, those that cost most scores first."""
    clusters: dict[str, _Cluster] = {}
    for attempt in run.attempts:
        if attempt.fault is not None:
            boundary = attempt.fault.partition(":")[0]
            message = attempt.fault_message or ""
            key = fault_key(attempt.fault, attempt.fault_phase, attempt.fault_status, message)
            clusters.setdefault(key, _Cluster(boundary)).attempts.append(attempt)
    ordered = sorted(clusters.values(), key=lambda cluster: (len(cluster.lost), len(cluster.attempts)), reverse=True)
    for cluster in ordered[:MOST_CLUSTERS]:
        yield _symptom(cluster, run)
    if rest := ordered[MOST_CLUSTERS:]:
        count = sum(len(cluster.attempts) for cluster in rest)
        yield Symptom("rarer faults", "remark", "run", f"{len(rest)} more kinds, in {count:,} attempts", count=count)


def _symptom(cluster: _Cluster, run: RunRecord) -> Symptom:
    first, lost = cluster.attempts[-1], cluster.lost
    cause = cause_of(cluster.boundary, first.fault_status, first.fault_message or "")
    is_cancelled = all(attempt.outcome == Outcome.CANCELLED for attempt in cluster.attempts)
    weight: Weight = "problem" if lost and not is_cancelled else "remark"
    attempts = share(len(cluster.attempts), len(run.attempts))
    cost = f"{len(lost):,} rollouts without a score" if lost else "all made good by another attempt"
    if any(attempt.is_scored for attempt in cluster.attempts):
        cost += f"; {sum(attempt.is_scored for attempt in cluster.attempts):,} scored all the same"
    where = f" in {first.fault_phase}" if first.fault_phase else ""
    return Symptom(
        first.fault or "",
        weight,
        cause.field,
        f"broke {attempts} attempts{where}: {cost}; for example: {first.fault_message}",
        cause.says,
        cause.mend,
        len(cluster.attempts),
        some_ids(attempt.rollout_id for attempt in lost or cluster.attempts),
    )


def retries(run: RunRecord) -> Iterator[Symptom]:
    """Yield retried model calls and retried episodes."""
    storms = [attempt for attempt in run.attempts if attempt.retries]
    if storms:
        calls = sum(attempt.turns for attempt in run.attempts)
        failed = sum(attempt.retries for attempt in storms)
        is_storm = len(storms) > STORM_SHARE * len(run.attempts)
        waited = sum(attempt.model_seconds for attempt in storms) / max(1, sum(attempt.turns for attempt in storms))
        calm = [attempt for attempt in run.attempts if not attempt.retries and attempt.turns]
        usual = sum(attempt.model_seconds for attempt in calm) / max(1, sum(attempt.turns for attempt in calm))
        yield Symptom(
            "model calls tried again",
            "problem" if is_storm and failed > calls / 2 else "remark",
            "connection",
            f"{failed:,} failed tries for {calls:,} answered calls, "
            f"in {share(len(storms), len(run.attempts))} episodes; "
            f"a call there took {waited:.2f} s, elsewhere {usual:.2f} s",
            "the backend refuses or drops calls: rate limits (429), overload, or restarts" if is_storm else "",
            "lower -c, or set --rpm and --tpm below the backend's limits" if is_storm else "",
            len(storms),
            some_ids(attempt.rollout_id for attempt in storms),
        )
    again = {attempt.rollout_id for attempt in run.attempts if attempt.attempt > 0}
    if len(again) > RETRIED_SHARE * len(run.effective):
        yield Symptom(
            "episodes played again",
            "remark",
            "performance",
            f"{share(len(again), len(run.effective))} rollouts took more than one attempt",
            "what broke them is listed by cause",
            "",
            len(again),
            some_ids(sorted(again)),
        )
