"""Plays recorded tool calls again, in fresh worlds, and compares what comes back: results, end states and verdicts."""

import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.engine.run import play_run
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.messages import Message, media_of
from rollouthub.rollout import Rollout, Stop
from rollouthub.store import RunReader
from rollouthub_registry.receipt.claim import Claim, Problems, counted
from rollouthub_registry.receipt.verifier_again import is_same_verdict, verdict_of
from rollouthub_registry.receipt.worlds import Chosen, Worlds, asked_servers

REPLAY_AGENT = "replay"
_REPLAYABLE = (Stop.FINISHED, Stop.SUBMITTED)
"""How an agent's time must have ended: what a limit or a person cut off, the replay would not."""
_CONCURRENCY = 8


@dataclass
class ReplayComparison:
    """Compares episodes that are played again with their records as they end."""

    reader: RunReader
    ids: frozenset[str]
    on_progress: Callable[[int], None]
    different: dict[str, Problems] = field(default_factory=dict[str, Problems])
    """Environment → what differs."""
    equal: int = 0
    calls: int = 0
    states: int = 0
    """Number of rollouts whose end state was kept and came out the same."""

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Called before the first episode."""

    def stopped(self, reason: str) -> None:
        """Called if the replay ends by itself."""

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Compare episodes that have ended."""
        for again in rollouts:
            if again.rollout_id not in self.ids:
                continue
            before = self.reader.rollout(again.rollout_id)
            difference = _difference(before, again)
            if difference is not None:
                name = again.environment.name
                self.different.setdefault(name, Problems()).add(f"{again.rollout_id}: {difference}")
                continue
            self.equal += 1
            self.calls += sum(len(turn.tool_calls) for turn in again.turns)
            self.states += bool(before.artifacts)
        self.on_progress(self.equal + sum(problems.count for problems in self.different.values()))


async def replay_tools(
    worlds: Worlds,
    environments: Mapping[str, OpenEnvironment],
    reader: RunReader,
    chosen: Chosen,
    on_progress: Callable[[int], None],
) -> AsyncGenerator[Claim]:
    """Yield what playing the tool calls again shows.

    Raises:
        HubError: they could not be played.
    """
    tasks: dict[str, dict[str, None]] = {}
    ids: set[str] = set()
    left_out = 0
    for rollout in reader.rollouts():
        if rollout.rollout_id not in chosen.ids:
            continue
        if not worlds.promises(rollout.environment.name) or not _is_replayable(rollout):
            left_out += 1
            continue
        ids.add(rollout.rollout_id)
        tasks.setdefault(rollout.environment.name, {})[rollout.task.id] = None
    if left_out:
        said = (
            f"{counted(left_out, 'rollout')} cannot be played again: their world does not promise to be the same, a "
            "limit, a person or another model took part, or not all of their calls are on record"
        )
        yield Claim("tool_calls", "not_provable", said, left_out)
    if not ids:
        return
    comparison = ReplayComparison(reader, frozenset(ids), on_progress)
    await _play(worlds, reader, {name: list(each) for name, each in tasks.items()}, comparison)
    for name, problems in comparison.different.items():
        said = (
            f"{name}: {counted(problems.count, 'rollout')} of {len(ids):,} go otherwise when their calls are made again"
        )
        yield problems.refutes("tool_calls", said, len(ids))
    if comparison.equal:
        said = (
            f"{counted(comparison.calls, 'tool call')} of {counted(comparison.equal, 'rollout')} gave the same results "
            f"again, with the same verdicts, and the same end state in the {comparison.states:,} that kept one"
        )
        yield Claim("tool_calls", "proven", said, comparison.equal)
    if lost := len(ids) - comparison.equal - sum(problems.count for problems in comparison.different.values()):
        said = f"{counted(lost, 'rollout')} could not be played again: their tasks or ids are not made by the settings"
        yield Claim("tool_calls", "not_provable", said, lost)


async def _play(
    worlds: Worlds, reader: RunReader, tasks: Mapping[str, Sequence[str]], comparison: ReplayComparison
) -> None:
    plan = worlds.plan(
        agent=REPLAY_AGENT,
        agent_set={"run": str(reader.directory.absolute())},
        chosen=tasks,
        concurrency=_CONCURRENCY,
    )
    with tempfile.TemporaryDirectory(prefix="rollouthub-verify-", ignore_cleanup_errors=True) as scratch:
        await play_run(
            plan,
            Path(scratch) / "again",
            given="",
            resume=False,
            credentials=worlds.credentials,
            observer=comparison,
            stop=StopSignal(),
        )


def _is_replayable(rollout: Rollout) -> bool:
    """Whether a record says all that was done to its world, in an order in which it can be done again."""
    all_made = all(
        {request.id for request in turn.response.tool_requests} <= {call.id for call in turn.tool_calls}
        for turn in rollout.turns
    )
    is_whole = all_made and "tool_calls" not in rollout.gaps
    return rollout.stop in _REPLAYABLE and not rollout.told and is_whole and not asked_servers(rollout)


def _difference(before: Rollout, again: Rollout) -> str | None:
    """What differs between a record and its replay; None if nothing does."""
    if again.score is None:
        why = again.faults[-1].message if again.faults else again.outcome.value
        return f"its replay is not scored: {why}"
    if len(before.turns) != len(again.turns):
        return f"{len(before.turns)} turns are recorded, and the replay has {len(again.turns)}"
    for one, other in zip(before.turns, again.turns, strict=True):
        if not _are_among(other.messages, one.messages):
            return f"before turn {one.index} the agent was told other things"
        for call, repeated in zip(one.tool_calls, other.tool_calls, strict=False):
            if _result(call) != _result(repeated):
                return f"turn {one.index}: {call.name} gave another result"
        if len(one.tool_calls) != len(other.tool_calls):
            return f"turn {one.index}: {len(one.tool_calls)} tool calls, and {len(other.tool_calls)} in the replay"
    if before.answer != again.answer:
        return "another answer was submitted"
    if _kept(before) != _kept(again):
        return "its world ended in another state"
    if not is_same_verdict(before, again):
        return f"{verdict_of(before)} is recorded, and {verdict_of(again)} comes out"
    return None


def _are_among(world: Sequence[Message], recorded: Sequence[Message]) -> bool:
    """Whether what the world says in a replay is in the recorded messages, to which an agent may add words of its own.

    Tool results are compared as such.
    """
    said = "\n".join(message.text for message in recorded)
    shown = set(media_of(recorded))
    words = [message for message in world if message.role != "tool"]
    return all(message.text in said for message in words) and set(media_of(words)) <= shown


def _result(call: Any) -> Any:
    return call.name, call.result.model_dump(mode="json", exclude={"meta"})


def _kept(rollout: Rollout) -> dict[str, str]:
    return {artifact.name: artifact.digest for artifact in rollout.artifacts}
