"""Reads a foreign source into a run directory, through the store's own writer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isclose
from pathlib import Path
from typing import Any

from anyio.lowlevel import checkpoint
from pydantic import JsonValue

from rollouthub.analysis.foreign_runs.run_format import (
    ForeignFacts,
    ForeignRun,
    FoundRollout,
    RunFormat,
    StatedTotals,
    Unreadable,
)
from rollouthub.errors import HubError
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter, open_writer
from rollouthub.store.run_facts import READ_FROM
from rollouthub.text import one_line

Progress = Callable[[int, int, int], None]
"""Called now and then with the rollouts read, and how much of how much of the source; the last is 0 if unknown."""
_HELD_BYTES = 16 * 2**20
"""Bytes of records after which the reader waits until they are written."""
_MOST_PROBLEMS = 5


@dataclass
class _ReadTally:
    """What was read so far, for the comparison with what the tool says."""

    rollouts: int = 0
    unreadable: int = 0
    rewards: float = 0.0
    scored: int = 0
    problems: list[str] = field(default_factory=list[str])
    groups: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])
    """Group → sum of its rewards, number of them."""

    def add(self, rollout: Rollout) -> None:
        """Count a rollout."""
        self.rollouts += 1
        reward = rollout.reward
        if reward is not None:
            self.scored += 1
            self.rewards += reward
            total, count = self.groups.get(rollout.group_id, (0.0, 0))
            self.groups[rollout.group_id] = (total + reward, count + 1)

    def refuse(self, entry: Unreadable) -> None:
        """Count an entry that makes no record."""
        self.unreadable += 1
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(one_line(f"{entry.place} was left out: {entry.problem}", 300))

    def remarks(self, stated: StatedTotals, tool: str) -> list[str]:
        """What was left out, and where the tool's own figures differ from those of what was read."""
        means = [total / count for total, count in self.groups.values()]
        ours: dict[str, float | None] = {
            "rollouts": self.rollouts,
            "scored rollouts": self.scored,
            "mean reward": self.rewards / self.scored if self.scored else None,
            "mean over tasks": sum(means) / len(means) if means else None,
        }
        theirs = (stated.rollouts, stated.scored, stated.mean_reward, stated.mean_of_tasks)
        differ = [
            f"{tool} says {name}: {said:g}; read: {'none' if found is None else f'{found:g}'}"
            for (name, found), said in zip(ours.items(), theirs, strict=True)
            if said is not None and (found is None or not isclose(found, said, rel_tol=1e-3, abs_tol=6e-4))
        ]
        more = self.unreadable - len(self.problems)
        return [*differ, *self.problems, *([f"{more:,} more entries were left out"] if more > 0 else [])]


async def read_into(run_format: RunFormat, path: Path, directory: Path, progress: Progress) -> bool:
    """Read a source into a new run directory. The run is recorded as running until the reading ends, and as failed with
    the reason if the source cannot be read to its end; what was read by then stays. Returns whether it was.

    Raises:
        ConfigError: the source cannot be opened; nothing is made.
        StoreError: the run cannot be written.
    """
    opened = run_format.read(path)
    resolved = _resolved(run_format.name, path, opened.facts)
    async with open_writer(directory, resolved=resolved, given="", resume=False) as writer:
        return await _fill(writer, opened, progress)


async def _fill(writer: RunWriter, opened: ForeignRun, progress: Progress) -> bool:
    facts, tally, held, is_whole = opened.facts, _ReadTally(), 0, True
    writer.set_plan(facts.planned)
    try:
        for entry in opened.entries:
            if isinstance(entry, FoundRollout):
                held += entry.held
                await _add(writer, entry)
                tally.add(entry.rollout)
            else:
                tally.refuse(entry)
            progress(tally.rollouts, entry.position, facts.length)
            if held > _HELD_BYTES:
                await writer.flush()
                held = 0
            await checkpoint()
    except HubError as error:
        writer.set_stopped(f"the source could not be read on: {one_line(str(error), 500)}")
        writer.set_status("failed")
        is_whole = False
    else:
        writer.set_plan(tally.rollouts if facts.planned is None else facts.planned, tally.unreadable)
    writer.set_remarks(tally.remarks(facts.totals if is_whole else StatedTotals(), facts.tool))
    return is_whole


async def _add(writer: RunWriter, entry: FoundRollout) -> None:
    rollout = entry.rollout
    if rollout.tools_digest is not None and entry.tools:
        writer.add_tools(rollout.tools_digest, entry.tools)
    await writer.add(rollout.model_copy(update={"run_id": writer.run_id}), entry.media)


def _resolved(name: str, path: Path, facts: ForeignFacts) -> dict[str, JsonValue]:
    """The run's facts in the place where those of a played run are; it names no code that could be run again."""
    totals = facts.totals
    stated: dict[str, Any] = {
        "rollouts": totals.rollouts,
        "scored": totals.scored,
        "mean_reward": totals.mean_reward,
        "mean_of_tasks": totals.mean_of_tasks,
        **totals.others,
    }
    return {
        READ_FROM: {
            "format": name,
            "path": str(path),
            "tool": facts.tool,
            "created_at": facts.created_at,
            "totals": {key: value for key, value in stated.items() if value is not None},
            "missing": list(facts.missing),
        },
        "request": {
            "environments": list(facts.environments),
            "model": facts.model,
            "agent": facts.agent,
            "repeats": facts.repeats,
        },
    }
