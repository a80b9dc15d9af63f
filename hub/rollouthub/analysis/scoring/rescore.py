"""Scores a run's rollouts again with a changed verifier and writes them to a new run; no model is called, and the
old run stays.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from pydantic import JsonValue
from pydantic_core import from_json

from rollouthub.analysis.scoring.task_lookup import TaskIndex
from rollouthub.engine.new_verdict import scored_again, without_verdict
from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.errors import AgentError, EpisodeError, RunDirectoryError, UnknownNameError, VerifierError
from rollouthub.hosting.local.submitted_contents import judged_media, with_contents
from rollouthub.messages import media_of
from rollouthub.protocols import EnvironmentHost
from rollouthub.rollout import UNKEPT, Outcome, Rollout, submission_of
from rollouthub.score import STATE
from rollouthub.store import RunReader, RunWriter, open_writer

_RESCORED = (Outcome.SCORED, Outcome.VERIFIER_FAILED)


@dataclass(frozen=True)
class RescoreSettings:
    """Settings for scoring a run again."""

    seed: int
    """The seed of the run that is scored again."""
    concurrency: int = 32
    skip_bad: bool = False
    """Store a rollout whose task no longer exists as a verifier fault, instead of stopping."""


class Rescorer:
    """Reads rollouts from one run, scores them again and writes them to another run."""

    def __init__(
        self, reader: RunReader, environments: Mapping[str, OpenEnvironment], settings: RescoreSettings, resolved: Any
    ) -> None:
        """`environments` maps environment names, as the run's rollouts record them, to the environments whose
        verifiers score.
        """
        self._reader, self._environments = reader, environments
        self._settings, self._resolved = settings, resolved
        self._indexes: dict[tuple[str, str], TaskIndex] = {}
        self._is_stopped = False
        self.changed_tasks = 0
        """Number of rollouts whose tasks have changed since they were played."""

    def stop(self) -> None:
        """Start no more scoring; rollouts in progress are finished and stored."""
        self._is_stopped = True

    async def run(
        self,
        directory: Path,
        *,
        resume: bool,
        begin: Callable[[int, int], None],
        on_commit: Callable[[Sequence[Rollout]], None],
    ) -> None:
        """Write the new run. `begin` is called once with the number of rollouts and the number already done.

        Raises:
            RunDirectoryError: the directory cannot be used as requested.
            UnknownNameError: a task no longer exists, and `skip_bad` is off.
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
            media = self._media(rollout) | judged_media([scored.score] if scored.score is not None else [])
            await writer.add(scored.model_copy(update={"run_id": writer.run_id}), media)
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
            return without_verdict(rollout, VerifierError(str(error), retryable=False))
        self.changed_tasks += card.digest != rollout.task.digest
        info = host.info
        if not info.scores_transcripts and _is_zero_of_its_own(rollout):
            return rollout  # it ended its own sandbox, which no verifier was asked about
        submission = submission_of(rollout, info.seats[0], with_turns=info.reads_turns)
        submission = with_contents(submission, self._media(rollout))
        try:
            if info.scores_transcripts:
                score = await host.score(card, submission, seed=rollout.seed, deadlines=environment.deadlines)
            else:
                state, deadlines = self._state(rollout), environment.deadlines
                async with host.open(card, seed=rollout.seed, deadlines=deadlines, state=state) as episode:
                    score = await episode.verify(submission)
            return scored_again(rollout, score, info.seats)
        except EpisodeError as error:
            return without_verdict(rollout, error)

    def _state(self, rollout: Rollout) -> JsonValue:
        """The stored final state of a rollout.

        Raises:
            AgentError: the state could not be stored because of what the agent left in it.
            VerifierError: the state is missing or altered, so the rollout cannot be scored.
        """
        found = next((artifact for artifact in rollout.artifacts if artifact.name == STATE), None)
        if found is None and UNKEPT in rollout.gaps:
            raise AgentError(
                "the state it ended in could not be kept because of what its agent left (a pipe, a device, too much "
                "…), so it cannot be scored again",
                retryable=False,
            )
        if found is None:
            raise VerifierError("the state it ended in was not kept, so it cannot be scored again", retryable=False)
        try:
            data = self._reader.media(found.digest)
            return from_json(data)
        except UnknownNameError as error:
            raise VerifierError(f"the state it ended in is gone: {error}", retryable=False) from error
        except (RunDirectoryError, ValueError) as error:
            raise VerifierError(f"the state it ended in cannot be read: {error}", retryable=False) from error

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
            except (UnknownNameError, RunDirectoryError):
                continue  # lost or altered before; the record still says what it was
        return found


def _is_zero_of_its_own(rollout: Rollout) -> bool:
    return bool(rollout.faults) and rollout.outcome is Outcome.SCORED and not rollout.artifacts and rollout.reward == 0


def _digests(rollout: Rollout) -> Iterator[str]:
    """Yield the digest of every file in the run's `media/` that a rollout refers to."""
    said = [message for call in rollout.role_calls for message in call.messages]
    for turn in rollout.turns:
        said += (*turn.messages, turn.response)
        for call in turn.tool_calls:
            for block in call.result.content:
                data = getattr(block, "data", None)
                if isinstance(data, str) and data.startswith("sha256:"):
                    yield data
    yield from (part.digest for part in media_of(said))
    for artifact in rollout.artifacts:
        yield artifact.digest


def _identity(resolved: Mapping[str, Any]) -> tuple[Any, Any]:
    rescored: Any = resolved.get("rescored") or {}
    return rescored.get("run_id"), rescored.get("environments")


def _given(directory: Path) -> str:
    try:
        return (directory / "run.toml").read_text(encoding="utf-8")
    except OSError:
        return ""
