"""The reasons why a sample is not played again."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from rollouthub.errors import HubError, UnknownNameError, UsageError
from rollouthub.live.control.live_protocol import RequestProblem
from rollouthub.rollout import Outcome
from rollouthub.store import open_run
from rollouthub.text import plain_name

RESUME = "`hub run --resume` plays what was cut short or broke"


def named(rollout_id: str, known: Sequence[str]) -> str | None:
    """The only one of the ids that is equal to a text, or begins with it."""
    if rollout_id in known:
        return rollout_id
    found = [name for name in known if name.startswith(rollout_id)]
    return found[0] if len(found) == 1 else None


def why_not_again(directory: Path, rollout_id: str, known: tuple[str, ...]) -> RequestProblem:
    """Why a rollout cannot be retried, from what the store holds of it; `known` are some that can."""
    name = plain_name(rollout_id)
    try:
        with open_run(directory) as reader:
            kept = reader.attempts(rollout_id)
    except UnknownNameError:
        return RequestProblem(kind="unknown_rollout", message=f"the run has kept no rollout {name!r}", known=known)
    except UsageError as error:
        return RequestProblem(kind="bad_request", message=str(error))
    except (HubError, OSError, sqlite3.Error) as error:
        return RequestProblem(kind="not_possible", message=f"the run's store could not be asked for {name!r}: {error}")
    effective = next((summary for summary in kept if summary.effective), kept[-1])
    if effective.outcome in (Outcome.SCORED, Outcome.AGENT_FAILED):
        result = "a score" if effective.outcome is Outcome.SCORED else "its agent's failure"
        said = (
            f"{effective.rollout_id} ended with {result}, and that is not played again: it would choose among results"
        )
        return RequestProblem(kind="not_possible", message=f"{said}; start a new run")
    name = f"{effective.rollout_id} ({effective.outcome.value})"
    said = f"{name} ended before this hub took the run up, long ago, or just now"
    return RequestProblem(kind="not_possible", message=f"{said}; {RESUME}")
