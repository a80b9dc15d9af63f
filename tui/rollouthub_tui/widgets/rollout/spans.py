"""The start and duration of each stage, model call and tool call of a rollout."""

from dataclasses import dataclass
from typing import Literal

from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import turn_number
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line

Kind = Literal["queue", "setup", "model", "tool", "verify", "close"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stage or call with its start and duration, in seconds."""

    kind: Kind
    name: str
    started: float
    seconds: float
    is_error: bool = False


def stretches(rollout: Rollout) -> list[Stretch]:
    """All stages and calls in the order of their start."""
    timings = rollout.timings
    found: list[Stretch] = []
    if timings.setup:
        found.append(Stretch("setup", "setup", 0.0, timings.setup))
    for turn in rollout.turns:
        found.append(Stretch("model", turn_number(turn.index), turn.started, turn.seconds))
        found += [
            Stretch("tool", drawn_line(call.name, 60), call.started, call.seconds, call.is_error)
            for call in turn.tool_calls
        ]
    # Of these two only the lengths are recorded: they follow the agent, the one after the other.
    ended = timings.setup + timings.agent
    if timings.verify:
        found.append(Stretch("verify", "verify", ended, timings.verify))
    if timings.close:
        found.append(Stretch("close", "close", ended + timings.verify, timings.close))
    return found


@dataclass(frozen=True, slots=True)
class Sum:
    """The total time of a stage."""

    kind: Kind | None
    name: str
    seconds: float
    share: float | None
    """Fraction of the total time; None if that is 0."""
    note: str


def sums(rollout: Rollout) -> list[Sum]:
    """The total of each stage, and at the end that of the whole rollout."""
    timings = rollout.timings
    parts: list[tuple[Kind | None, str, float, str]] = [
        ("queue", "waiting to start", timings.queue, ""),
        ("setup", "setup", timings.setup, ""),
        (None, "agent", timings.agent, "model and tools are in this"),
        ("model", "model", timings.model, f"{len(rollout.turns):,} turns"),
        ("tool", "tools", timings.tool, f"{sum(len(turn.tool_calls) for turn in rollout.turns):,} calls"),
        ("verify", "verify", timings.verify, ""),
        ("close", "close", timings.close, ""),
        (None, "total", timings.total, ""),
    ]
    total = timings.total
    return [Sum(kind, name, took, took / total if total else None, note) for kind, name, took, note in parts]
