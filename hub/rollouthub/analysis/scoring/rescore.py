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
from rollouthub.engine.group_verdict import GROUP, group_of, group_verdict, lost_member, with_stored_contents
from rollouthub.engine.new_verdict import awaiting_group, scored_again, without_verdict
from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.errors import AgentError, EpisodeError, RunDirectoryError, UnknownNameError, VerifierError
from rollouthub.hosting.local.submitted_contents import judged_media, with_contents
from rollouthub.messages import media_of
from rollouthub.models.batch_run import CALLER, Caller
from rollouthub.protocols import EnvironmentHost, TaskCard
from rollouthub.rollout import UNKEPT, Outcome, Rollout, submission_of
from rollouthub.score import STATE, Score
from rollouthub.store import RunReader, RunWriter, open_writer
from rollouthub.store.grouped_reader import BrokenRecord

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
        self.in_flight = 0
        """Number of rollouts and groups that are being scored."""

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
            units = self._open_units(writer)
            async with anyio.create_task_group() as workers:
                for _ in range(self._settings.concurrency):
                    workers.start_soon(self._work, units, writer)
            if self._is_stopped:
                writer.set_status("interrupted")

    def _open_units(self, writer: RunWriter) -> Iterator[Sequence[Rollout]]:
        """The rollouts that are still to be written, in units that are scored together."""
        known: set[str] = set()
        for unit in self._units():
            if self._is_stopped:
                return
            for digest in {rollout.tools_digest for rollout in unit} - known - {None}:
                assert digest is not None
                known.add(digest)
                writer.add_tools(digest, self._reader.tools(digest))
            if _is_open(unit, writer):
                yield unit

    def _units(self) -> Iterator[Sequence[Rollout]]:
        """All rollouts: whole groups of environments that score groups, others one by one."""
        grouped = {name for name, environment in self._environments.items() if environment.host.info.scores_groups}
        if not grouped:
            yield from ([rollout] for rollout in self._reader.rollouts())
            return
        for group in self._reader.groups():
            records: list[Rollout] = []
            for record in group:
                if isinstance(record, BrokenRecord):
                    raise RunDirectoryError(f"{self._reader.directory}: {record.name} is damaged: {record.problem}")
                records.append(record)
            if records[0].environment.name in grouped:
                yield records
            else:
                yield from ([record] for record in records)

    async def _work(self, units: Iterator[Sequence[Rollout]], writer: RunWriter) -> None:
        for unit in units:
            self.in_flight += 1
            try:
                await self._rescore_unit(unit, writer)
            finally:
                self.in_flight -= 1
            await checkpoint()

    async def _rescore_unit(self, unit: Sequence[Rollout], writer: RunWriter) -> None:
        if self._environments[unit[0].environment.name].host.info.scores_groups:
            CALLER.set(Caller(unit[0].group_id, is_episode=True))
            await self._rescore_group(unit, writer)
            return
        for rollout in unit:
            attempt = writer.attempts(rollout.rollout_id)
            CALLER.set(Caller(rollout.rollout_id, attempt, is_episode=True))
            scored = await self._rescored(rollout) if rollout.outcome in _RESCORED else rollout
            await self._add(scored.model_copy(update={"attempt": max(rollout.attempt, attempt)}), rollout, writer)

    async def _add(self, scored: Rollout, rollout: Rollout, writer: RunWriter) -> None:
        media = self._media(rollout) | judged_media([scored.score] if scored.score is not None else [])
        await writer.add(scored.model_copy(update={"run_id": writer.run_id}), media)

    async def _rescore_group(self, records: Sequence[Rollout], writer: RunWriter) -> None:
        """Score the members of a group together, and write all its records. Until the verdict the members wait in the
        new run, as they did when they were played.
        """
        environment = self._environments[records[0].environment.name]
        card = await self._card(records[0])
        host = environment.host
        placed = [await self._placed(rollout, environment, card) for rollout in records]
        for each, rollout in zip(placed, records, strict=True):
            await self._add(each, rollout, writer)
        members = [each.model_copy(update={"run_id": writer.run_id}) for each in placed if each.awaits_group]
        if not members or isinstance(card, VerifierError):
            return
        await writer.flush()
        asked = group_of(members, [lost_member(each) for each in placed if not each.awaits_group], host.info)
        asked = with_stored_contents(asked, self._reader)
        seed, deadlines = members[0].seed, environment.deadlines
        try:
            scores = await group_verdict(host, card, members, asked, seed=seed, deadlines=deadlines)
        except EpisodeError as error:
            writer.conclude_group([without_verdict(member, error) for member in members])
        else:
            pairs = zip(members, scores, strict=True)
            final = [scored_again(member, score, host.info.seats) for member, score in pairs]
            writer.conclude_group(final, judged_media(scores))

    async def _placed(self, rollout: Rollout, environment: OpenEnvironment, card: TaskCard | VerifierError) -> Rollout:
        """A record as it waits for its group's verdict; or its final record, if it is lost to the group."""
        if rollout.outcome not in _RESCORED or _is_zero_of_its_own(rollout):
            return rollout
        if isinstance(card, VerifierError):
            return without_verdict(rollout, card)
        self.changed_tasks += card.digest != rollout.task.digest
        try:
            is_alone = environment.host.info.scores_samples
            return awaiting_group(rollout, await self._score(rollout, environment, card) if is_alone else None)
        except EpisodeError as error:
            return without_verdict(rollout, error)

    async def _rescored(self, rollout: Rollout) -> Rollout:
        environment = self._environments[rollout.environment.name]
        card = await self._card(rollout)
        if isinstance(card, VerifierError):
            return without_verdict(rollout, card)
        self.changed_tasks += card.digest != rollout.task.digest
        info = environment.host.info
        if not info.scores_transcripts and _is_zero_of_its_own(rollout):
            return rollout  # it ended its own sandbox, which no verifier was asked about
        try:
            return scored_again(rollout, await self._score(rollout, environment, card), info.seats)
        except EpisodeError as error:
            return without_verdict(rollout, error)

    async def _card(self, rollout: Rollout) -> TaskCard | VerifierError:
        """The card of a rollout's task; an error if there is no such task any more, and `skip_bad` is on."""
        index = self._index(self._environments[rollout.environment.name].host, rollout.task.split)
        try:
            return await index.find(rollout.task.id)
        except UnknownNameError as error:
            if not self._settings.skip_bad:
                raise
            return VerifierError(str(error), retryable=False)

    async def _score(self, rollout: Rollout, environment: OpenEnvironment, card: TaskCard) -> Score:
        """What `verify` says of a rollout: of its transcript, or of the state that it ended in.

        Raises:
            EpisodeError: there is no score.
        """
        host, deadlines = environment.host, environment.deadlines
        submission = submission_of(rollout, host.info.seats[0], with_turns=host.info.reads_turns)
        submission = with_contents(submission, self._media(rollout))
        if host.info.scores_transcripts:
            return await host.score(card, submission, seed=rollout.seed, deadlines=deadlines)
        state = self._state(rollout)
        async with host.open(card, seed=rollout.seed, deadlines=deadlines, state=state) as episode:
            return await episode.verify(submission)

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


def _is_open(unit: Sequence[Rollout], writer: RunWriter) -> bool:
    """Whether a unit is not written yet; a group is written with its verdict."""
    ids = [rollout.rollout_id for rollout in unit]
    if writer.is_judged(unit[0].group_id):
        return False
    if len(unit) == 1 and unit[0].outcome in _RESCORED and not unit[0].awaits_group:
        return not writer.is_done(ids[0])  # a verifier that failed is asked again
    return not all(map(writer.is_kept, ids)) or any(each in writer.waiting_members for each in ids)


def _is_zero_of_its_own(rollout: Rollout) -> bool:
    """Whether its agent ended its own sandbox, so that no verifier and no group was asked about it."""
    if rollout.score is None or rollout.reward != 0 or GROUP in rollout.score.metadata:
        return False
    return any(fault.boundary == "agent" for fault in rollout.faults) and not rollout.artifacts


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
