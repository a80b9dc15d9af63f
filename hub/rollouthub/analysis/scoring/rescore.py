"""Scoring a run's rollouts again, by a verifier that changed: into a new run, without a model, nothing lost."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from pydantic import JsonValue

from rollouthub.analysis.scoring.task_lookup import TaskIndex
from rollouthub.engine.attribution import OUTCOMES, fault_of
from rollouthub.engine.open_plan import OpenEnvironment
from rollouthub.engine.trainable import why_not_trainable
from rollouthub.errors import EpisodeError, RunDirectoryError, UnknownNameError, VerifierError
from rollouthub.messages import Media, Message
from rollouthub.protocols import EnvironmentHost
from rollouthub.rollout import Outcome, Rollout, submission_of
from rollouthub.score import Score
from rollouthub.store import RunReader, RunWriter, open_writer

ORACLE = "played the reference solution"
_RESCORED = (Outcome.SCORED, Outcome.VERIFIER_FAILED)


@dataclass(frozen=True)
class RescoreSettings:
    """How a run is scored again."""

    seed: int
    """The run's own."""
    concurrency: int = 32
    skip_bad: bool = False
    """Keep a rollout whose task is gone as a verifier fault, instead of stopping."""


class Rescorer:
    """Reads rollouts from one run and writes them, scored again, to another."""

    def __init__(
        self, reader: RunReader, environments: Mapping[str, OpenEnvironment], settings: RescoreSettings, resolved: Any
    ) -> None:
        """`environments` has those whose verifiers score, by the names that the run's rollouts carry."""
        self._reader, self._environments = reader, environments
        self._settings, self._resolved = settings, resolved
        self._indexes: dict[tuple[str, str], TaskIndex] = {}
        self._is_stopped = False
        self.changed_tasks = 0
        """Rollouts of tasks that have changed since they were played."""

    def stop(self) -> None:
        """Begin no more; what is in flight is finished and kept."""
        self._is_stopped = True

    async def run(
        self,
        directory: Path,
        *,
        resume: bool,
        begin: Callable[[int, int], None],
        on_commit: Callable[[Sequence[Rollout]], None],
    ) -> None:
        """Write the new run; the one that is read stays as it is. `begin` hears how many there are, and are done.

        Raises:
            RunDirectoryError: the directory cannot be used as asked.
            UnknownNameError: a task is gone, and such are not skipped.
        """
        info = self._reader.info
        resolved: dict[str, JsonValue] = {**info.resolved, "rescored": self._resolved}
        given = _given(self._reader.directory)
        async with open_writer(directory, resolved=resolved, given=given, resume=resume, on_commit=on_commit) as writer:
            if writer.resumed and _identity(writer.stored_resolved) != _identity(resolved):
                raise RunDirectoryError(
                    f"{directory} was scored from another run, or by another version of the verifier; "
                    "name another directory with -o"
                )
            writer.set_plan(info.planned, info.bad_rows)
            begin(sum(self._reader.outcomes().values()), writer.done_count)
            rollouts = self._rollouts(writer)
            async with anyio.create_task_group() as workers:
                for _ in range(self._settings.concurrency):
                    workers.start_soon(self._work, rollouts, writer)
            if self._is_stopped:
                writer.set_status("interrupted")

    def _rollouts(self, writer: RunWriter) -> Iterator[Rollout]:
        known: set[str] = set()
        for rollout in self._reader.rollouts():
            if self._is_stopped:
                return
            digest = rollout.tools_digest
            if digest is not None and digest not in known:
                known.add(digest)
                writer.add_tools(digest, self._reader.tools(digest))
            if not writer.is_kept(rollout.rollout_id):
                yield rollout

    async def _work(self, rollouts: Iterator[Rollout], writer: RunWriter) -> None:
        for rollout in rollouts:
            scored = await self._rescored(rollout) if rollout.outcome in _RESCORED else rollout
            await writer.add(scored.model_copy(update={"run_id": writer.run_id}), self._media(rollout))
            await checkpoint()

    async def _rescored(self, rollout: Rollout) -> Rollout:
        environment = self._environments[rollout.environment.name]
        host = environment.host
        index = self._index(host, rollout.task.split)
        try:
            card = await index.find(rollout.task.id)
        except UnknownNameError as error:
            if not self._settings.skip_bad:
                raise
            return _failed(rollout, VerifierError(str(error), retryable=False))
        self.changed_tasks += card.digest != rollout.task.digest
        submission = submission_of(rollout, host.info.seats[0])
        try:
            score = await host.score(card, submission, seed=rollout.seed, deadlines=environment.deadlines)
        except EpisodeError as error:
            return _failed(rollout, error)
        return _with(rollout, Outcome.SCORED, score)

    def _index(self, host: EnvironmentHost, split: str) -> TaskIndex:
        key = (host.info.name, split)
        if key not in self._indexes:
            skip_bad = True  # rows that made no task then make none now, and have no rollouts
            self._indexes[key] = TaskIndex(host, split, self._settings.seed, skip_bad=skip_bad)
        return self._indexes[key]

    def _media(self, rollout: Rollout) -> dict[str, bytes]:
        digests = set(_digests(rollout))
        found: dict[str, bytes] = {}
        for digest in digests:
            try:
                found[digest] = self._reader.media(digest)
            except UnknownNameError:
                continue  # lost before; the record still says what it was
        return found


def _digests(rollout: Rollout) -> Iterator[str]:
    """Everything a record names that lies in the run's `media/`."""
    for turn in rollout.turns:
        for message in (*turn.messages, turn.response):
            yield from _media_of(message)
        for call in turn.tool_calls:
            for block in call.result.content:
                data = getattr(block, "data", None)
                if isinstance(data, str) and data.startswith("sha256:"):
                    yield data
    for artifact in rollout.artifacts:
        yield artifact.digest


def _media_of(message: Message) -> Iterator[str]:
    if not isinstance(message.content, str):
        yield from (part.digest for part in message.content if isinstance(part, Media))


def _failed(rollout: Rollout, error: EpisodeError) -> Rollout:
    fault = fault_of(error, "verify")
    broken = _with(rollout, OUTCOMES[fault.boundary], None)
    return broken.model_copy(update={"faults": (*broken.faults, fault)})


def _with(rollout: Rollout, outcome: Outcome, score: Score | None) -> Rollout:
    """The record with a new verdict, and without the faults of the old one."""
    was_privileged = rollout.trainable_reason == ORACLE or rollout.agent.name == "oracle"
    reason = why_not_trainable(
        outcome, rollout.turns, was_privileged, is_told=bool(rollout.told), suspect=score and score.suspect
    )
    return rollout.model_copy(
        update={
            "outcome": outcome,
            "score": score,
            "faults": tuple(fault for fault in rollout.faults if fault.phase != "verify"),
            "trainable": reason is None,
            "trainable_reason": reason,
        }
    )


def _identity(resolved: Mapping[str, Any]) -> tuple[Any, Any]:
    rescored: Any = resolved.get("rescored") or {}
    return rescored.get("run_id"), rescored.get("environments")


def _given(directory: Path) -> str:
    try:
        return (directory / "run.toml").read_text(encoding="utf-8")
    except OSError:
        return ""
