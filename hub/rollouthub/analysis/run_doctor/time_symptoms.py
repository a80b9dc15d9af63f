"""Symptoms of time: the slowest stage, hanging episodes, stragglers, and clocks that jump."""

from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from rollouthub.analysis.run_doctor.attempt_rows import RunRecord
from rollouthub.analysis.run_doctor.symptom import Symptom, share, some_ids
from rollouthub.statistics.quantiles import quantile

LEAST_SECONDS = 5.0
"""Runs shorter than this, in seconds, get no bottleneck or straggler symptom."""
HANG_SECONDS, PAUSE_SECONDS, JUMP_SECONDS = 60.0, 60.0, 5.0
FEWEST_GAPS = 20
"""Intervals between episode ends needed to know the usual interval."""
HELD_UP = 0.3
"""Share of a run's wall time that its last 5 % of episodes may take before they count as stragglers."""
_MENDS = {
    "model": "more replicas (--base-url again), fewer tokens, or a higher -c while the server has room",
    "tool": "look at the slow tools: hub show RUN ROLLOUT; warm sandboxes, more cores, or a lower -c",
    "verify": "a cheaper verifier, or more servers of the environment (--served --servers N)",
    "setup": "warm sandboxes or smaller images; hub doctor says what the engine does",
    "queue": "episodes wait for another attempt or for a place: see what breaks them",
    "hub and agent": "the process is short of CPU: more workers (--pool ray), or agents of your own that block",
    "close": "sandboxes that die slowly; look at the engine",
}


def bottleneck(run: RunRecord) -> Iterator[Symptom]:
    """Yield the stage in which the episodes spent most time."""
    attempts = run.attempts
    total = sum(attempt.seconds for attempt in attempts)
    if not attempts or total < LEAST_SECONDS:
        return
    model, tool = sum(attempt.model_seconds for attempt in attempts), sum(attempt.tool_seconds for attempt in attempts)
    spent = {
        "model": model,
        "tool": tool,
        "verify": sum(attempt.verify_seconds for attempt in attempts),
        "setup": sum(attempt.setup_seconds for attempt in attempts),
        "queue": sum(attempt.queue_seconds for attempt in attempts),
        "close": sum(attempt.close_seconds for attempt in attempts),
        "hub and agent": max(0.0, sum(attempt.agent_seconds for attempt in attempts) - model - tool),
    }
    # What is waited between attempts lies before an attempt and not in it.
    whole = sum(spent.values())
    ordered = sorted(spent.items(), key=lambda item: -item[1])
    stage, seconds = ordered[0]
    shown = ", ".join(f"{name} {value / whole:.0%}" for name, value in ordered if value >= 0.01 * whole)
    is_strange = stage != "model" and seconds > 0.5 * whole
    yield Symptom(
        f"bottleneck: {stage}",
        "remark" if is_strange else "fact",
        "performance",
        f"episodes spent {shown}",
        "",
        _MENDS[stage],
    )


def stuck(run: RunRecord) -> Iterator[Symptom]:
    """Yield attempts in flight whose state has not changed for much longer than other attempts take."""
    if run.info.status != "running" or not run.live:
        return
    ranked = sorted(attempt.seconds for attempt in run.attempts)
    bound = max(HANG_SECONDS, 3 * quantile(ranked, 0.99)) if ranked else 5 * HANG_SECONDS
    hanging = [state for state in run.live if run.now - state.updated_at > bound]
    if hanging:
        states = sorted({state.state for state in hanging})
        oldest = max(run.now - state.updated_at for state in hanging)
        yield Symptom(
            f"stuck in {' and '.join(states)}",
            "problem",
            "performance",
            f"{share(len(hanging), len(run.live))} episodes in flight have not moved for over {bound:.0f} s "
            f"(the longest for {oldest:.0f} s)",
            "a server, tool or verifier that hangs; deadlines end it in the end",
            "hub live watch shows them; deadlines are set in --config",
            len(hanging),
            some_ids(state.rollout_id for state in hanging),
        )


def stragglers(run: RunRecord) -> Iterator[Symptom]:
    """Yield the last few episodes, if the whole run waited long for them."""
    if len(run.attempts) < 40:
        return
    ends = sorted(attempt.finished_at for attempt in run.attempts)
    began = min(attempt.started_at for attempt in run.attempts)
    wall, tail = ends[-1] - began, ends[-1] - quantile(ends, 0.95)
    if wall > LEAST_SECONDS and tail > HELD_UP * wall:
        late = sorted(run.attempts, key=lambda attempt: -attempt.finished_at)
        yield Symptom(
            "stragglers",
            "remark",
            "performance",
            f"the last 5 % of the episodes took {tail:.1f} of the run's {wall:.1f} s",
            "a few long episodes, while everything else was idle",
            "a limit for an episode (--max-turns, --max-seconds), or long tasks first",
            len(late) // 20,
            some_ids(attempt.rollout_id for attempt in late),
        )


def clocks(run: RunRecord) -> Iterator[Symptom]:
    """Yield impossible times; without any, a long pause in which no episode ended though some were in flight."""
    jumps = [
        attempt
        for attempt in run.attempts
        if attempt.finished_at > run.now + HANG_SECONDS
        or attempt.started_at < run.info.created_at - JUMP_SECONDS
        or min(attempt.seconds, attempt.agent_seconds, attempt.model_seconds, attempt.tool_seconds) < 0
    ]
    if jumps:
        yield Symptom(
            "clock jumps",
            "remark",
            "performance",
            f"{share(len(jumps), len(run.attempts))} attempts lie before the run or in the future",
            "a clock was set while the run played, or machines disagree about the time",
            "run NTP on all of them; durations are measured by another clock and hold",
            len(jumps),
            some_ids(attempt.rollout_id for attempt in jumps),
        )
        return
    ends = sorted(attempt.finished_at for attempt in run.attempts)
    gaps = [(later - earlier, earlier, later) for earlier, later in pairwise(ends)]
    if len(gaps) < FEWEST_GAPS:
        return
    longest, earlier, later = max(gaps)
    usual = median(gap for gap, _, _ in gaps)
    across = [attempt for attempt in run.attempts if attempt.started_at < earlier and attempt.finished_at >= later]
    if across and longest > max(PAUSE_SECONDS, 50 * usual) and longest > 0.1 * (ends[-1] - ends[0]):
        yield Symptom(
            "a pause",
            "remark",
            "performance",
            f"nothing ended for {longest:.0f} s, while {len(across)} episodes were in flight (usually {usual:.2f} s)",
            "the machine slept, or a server that all of them waited for hung",
            "look at the server's log around that time",
            len(across),
            some_ids(attempt.rollout_id for attempt in across),
        )
