"""Checks answers in a few worker processes with limits, off the event loop and shared by all episodes."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rollouthub import VerifierError
from rollouthub_servers.workers import MAX_WORKERS, WorkerDied, Workers

__all__ = ["CPU_SECONDS", "MAX_WORKERS", "OVER_BUDGET", "AnswerVerdict", "check", "close_workers"]

CPU_SECONDS = 5.0
"""CPU seconds allowed for a candidate, and for its reference. Not wall time, so that load fails no answer."""
WALL_SECONDS = 120.0
"""Wall seconds without a reply after which a worker is killed."""

_REFERENCE_OVER_BUDGET, _CANDIDATE_OVER_BUDGET = OVER_BUDGET = -signal.SIGVTALRM, -signal.SIGPROF

MOST_KNOWN = 20_000
"""Most cached verdicts, since samples of a task often give the same answer; the oldest are dropped first."""

_known: "dict[tuple[tuple[str, ...], str, float], AnswerVerdict]" = {}
_workers = Workers("rollouthub_servers.math.worker")


@dataclass(frozen=True)
class AnswerVerdict:
    """The verdict on an answer."""

    correct: bool
    parsed: str | None = None
    """The answer as the checker parsed it; None if it could not."""
    too_complex: bool = False
    """Whether checking exceeded its CPU or memory limit; the answer is then wrong."""


async def check(
    references: Sequence[str], answer: str, *, cpu_seconds: float = CPU_SECONDS, wall_seconds: float = WALL_SECONDS
) -> AnswerVerdict:
    """Compare an answer (LaTeX or plain text) with the reference answers; one that agrees suffices.

    Raises:
        VerifierError: the reference cannot be parsed, or the checker failed; never because of the answer.
    """
    key = (tuple(references), answer, cpu_seconds)
    if (known := _known.get(key)) is not None:
        return known
    request = {"references": references, "candidate": answer, "cpu_seconds": cpu_seconds}
    try:
        reply = await _workers.ask_in_thread(request, wall_seconds)
    except TimeoutError:
        raise VerifierError(f"the process that checks answers gave none within {wall_seconds:g} s") from None
    except WorkerDied as end:
        raise VerifierError(f"the process that checks answers died with {end}") from end
    verdict = _verdict(reply, references, cpu_seconds)
    if not verdict.too_complex:  # which depends on the machine as well
        if len(_known) >= MOST_KNOWN:
            del _known[next(iter(_known))]
        _known[key] = verdict
    return verdict


def _verdict(reply: dict[str, Any], references: Sequence[str], cpu_seconds: float) -> AnswerVerdict:
    died = reply.get("died")
    if died == _CANDIDATE_OVER_BUDGET:
        return AnswerVerdict(correct=False, too_complex=True)
    if died == _REFERENCE_OVER_BUDGET:
        raise VerifierError(f"reading the reference answer took over {cpu_seconds:g} s of CPU", retryable=False)
    if reply["status"] == "unreadable_reference":
        raise VerifierError(
            f"the reference answer is no mathematics the checker can read: {' or '.join(references):.200}",
            retryable=False,
        )
    return AnswerVerdict(reply["status"] == "correct", reply["parsed"], too_complex=reply["status"] == "too_complex")


def close_workers() -> None:
    """End all workers and clear the cache, for tests. The next check starts new workers."""
    _known.clear()
    _workers.close()
