"""ATIF trajectories by themselves: one JSON file, or lines of them, such as `hub export --to atif` writes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rollouthub.analysis.foreign_runs.atif_steps import is_trajectory, said_in
from rollouthub.analysis.foreign_runs.entries import Entry, Samples, entry_of, from_lines
from rollouthub.analysis.foreign_runs.foreign_messages import (
    as_object,
    as_text,
    texts_of,
    tool_definitions,
)
from rollouthub.analysis.foreign_runs.foreign_record import ForeignEpisode, SaidMessage, moment
from rollouthub.analysis.foreign_runs.json_pieces import MOST_BYTES, Piece, beginning, first_keys, open_source
from rollouthub.analysis.foreign_runs.run_format import ForeignFacts, ForeignRun
from rollouthub.messages import Message
from rollouthub.rollout import Outcome

_OUTCOMES = {outcome.value: outcome for outcome in Outcome}


class AtifTrajectories:
    """A trajectory is a rollout."""

    name = "atif"

    def recognises(self, path: Path) -> bool:
        """Whether the first object begins as a trajectory."""
        return b'"ATIF' in beginning(path, 4096) and "schema_version" in first_keys(path)[:2]

    def read(self, path: Path) -> ForeignRun:
        """Open a file."""
        trajectories = _Trajectories(path.name.partition(".")[0])
        facts = ForeignFacts(
            tool="ATIF",
            environments=(trajectories.environment,),
            missing=(
                "which environment and task, except in an export of the hub's",
                "rewards, except in an export of the hub's",
                "why a trajectory ended",
                "pictures: the format names files, which are not read",
            ),
            length=path.stat().st_size,
        )
        return ForeignRun(facts, _entries(path, trajectories))


def _entries(path: Path, trajectories: "_Trajectories") -> Iterator[Entry]:
    if path.suffix != ".json":
        yield from from_lines(path, trajectories.episode, "ATIF")
        return
    with open_source(path) as file:
        raw = file.read(MOST_BYTES + 1)
    yield from entry_of(
        Piece("", None if len(raw) > MOST_BYTES else raw, len(raw)), path.name, trajectories.episode, "ATIF"
    )


class _Trajectories:
    def __init__(self, environment: str) -> None:
        self.environment, self._samples = environment, Samples()

    def episode(self, trajectory: dict[str, Any]) -> ForeignEpisode:
        """The rollout of a trajectory."""
        if not is_trajectory(trajectory):
            raise ValueError("it is no trajectory: it has no schema_version ATIF-… with steps")
        media: dict[str, bytes] = {}
        said = said_in(trajectory, media)
        agent, ours = as_object(trajectory.get("agent")), as_object(trajectory.get("extra"))
        prompt = asked_in(said)
        words = " ".join(prompt[-1].text.split())[:60] if prompt else ""
        task_id = as_text(ours.get("task_id")) or words or "(no prompt)"
        given = as_text(ours.get("outcome"))
        return ForeignEpisode(
            environment=as_text(ours.get("environment")) or self.environment,
            task_id=task_id,
            task=texts_of(prompt),
            said=said,
            split=as_text(ours.get("split")) or "",
            sample=self._samples.next(task_id),
            agent=as_text(agent.get("name")) or "unknown",
            agent_version=as_text(agent.get("version")) or "unknown",
            model=as_text(agent.get("model_name")),
            source=as_text(trajectory.get("session_id")),
            outcome=_OUTCOMES.get(given, Outcome.SCORED) if given else Outcome.SCORED,
            reward=ours.get("reward"),
            score={"passed": ours["passed"]} if isinstance(ours.get("passed"), bool) else {},
            started_at=_started(trajectory),
            tools=tool_definitions(agent.get("tool_definitions")),
            media=media,
        )


def _started(trajectory: dict[str, Any]) -> float:
    return next((at for step in trajectory["steps"] if (at := moment(as_object(step).get("timestamp")))), 0.0)


def asked_in(said: list[SaidMessage]) -> list[Message]:
    """The messages before the first answer."""
    prompt: list[Message] = []
    for each in said:
        if each.message.role == "assistant":
            break
        prompt.append(each.message)
    return prompt
