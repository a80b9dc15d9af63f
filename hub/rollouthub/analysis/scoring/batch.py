"""Scores a stream of lines concurrently and writes them back in their order, in bounded memory."""

from dataclasses import dataclass, field

import anyio
from anyio.lowlevel import checkpoint
from pydantic_core import to_json

from rollouthub.analysis.scoring.batch_tally import BatchTally
from rollouthub.analysis.scoring.completion_line import BAD_ROW, CompletionLine, EntryReader
from rollouthub.analysis.scoring.input_survey import with_hint
from rollouthub.analysis.scoring.line_files import LineWriter
from rollouthub.analysis.scoring.line_source import LineSource
from rollouthub.analysis.scoring.task_lookup import TaskIndex
from rollouthub.engine.attribution import OUTCOMES, fault_of
from rollouthub.engine.episode_seed import episode_seed
from rollouthub.errors import DataError, EpisodeError, UnknownNameError
from rollouthub.limits import Deadlines
from rollouthub.models.batch_run import CALLER, Caller
from rollouthub.protocols import EnvironmentHost, TaskCard
from rollouthub.rollout import Outcome
from rollouthub.score import Score

_AHEAD_LINES, _AHEAD_BYTES = 64, 64 * 2**20
"""How far scoring may run ahead of a slow line: finished lines per concurrent line, and bytes of waiting lines in
all.
"""
_LINES_AT_A_TIME = 32
"""Lines that one worker scores before it yields to the event loop; a verifier that never awaits would block the
other tasks.
"""
_TRIES = 2
_FLUSH_SECONDS = 0.5


@dataclass(frozen=True)
class BatchSettings:
    """Settings for scoring a batch of lines."""

    split: str
    """Split of the tasks, where a line does not name one."""
    seed: int = 0
    """Seed of the run, from which the seeds of tasks and episodes are derived."""
    concurrency: int = 32
    """Number of lines that are scored at the same time."""
    skip_bad: bool = False
    """Write an unusable line with the outcome `bad_row` and go on, instead of stopping at it."""
    answer_field: str | None = None
    """The field that holds the submitted answer; None takes it from the completion, or from a call of `submit`."""
    deadlines: Deadlines = field(default_factory=Deadlines)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A finished line that waits to be written in order."""

    entry: CompletionLine
    ending: bytes
    outcome: Outcome | None
    score: Score | None = None
    failure: DataError | None = None
    """The error that ends the batch at this line."""


class BatchScorer:
    """Scores the lines of one source."""

    def __init__(
        self, host: EnvironmentHost, settings: BatchSettings, source: LineSource, name: str, tally: BatchTally
    ) -> None:
        self._host, self._settings, self._source, self._name, self._tally = host, settings, source, name, tally
        self._reader = EntryReader(settings.answer_field)
        self._indexes: dict[str, TaskIndex] = {}
        self._ready: dict[int, _Ready] = {}
        self._written: int | None = None
        self._waiting_bytes = 0
        self._moved = anyio.Event()
        self._failure: DataError | None = None
        self.in_flight = 0
        """Number of lines that are being scored."""

    async def score(self, writer: LineWriter) -> None:
        """Score every remaining line of the source, and write each with its score.

        Raises:
            DataError: a line is unusable, and bad lines are not skipped; the lines before it are written.
            StoreError: the output could not be written.
            NotOffered: the environment does not score transcripts.
        """
        async with anyio.create_task_group() as flushing:
            flushing.start_soon(_flush_often, writer)
            async with anyio.create_task_group() as workers:
                for _ in range(self._settings.concurrency):
                    workers.start_soon(self._work, writer)
            flushing.cancel_scope.cancel()
        writer.flush()
        if self._failure is not None:
            raise self._failure

    async def _work(self, writer: LineWriter) -> None:
        count = 0
        while True:
            while self._is_far_ahead and self._failure is None:
                await self._moved.wait()
            line = None if self._failure is not None else await self._source.next()
            if line is None:
                return
            if self._written is None:
                self._written = line.place
            entry = self._reader.read(line.raw, line.number)
            self._waiting_bytes += entry.size
            self._ready[line.place] = await self._scored(entry)
            self._write(writer)
            count += 1
            if count % _LINES_AT_A_TIME == 0:
                await checkpoint()

    @property
    def _is_far_ahead(self) -> bool:
        """Whether so many lines or bytes wait for an earlier line that no worker may begin another."""
        return len(self._ready) >= _AHEAD_LINES * self._settings.concurrency or self._waiting_bytes >= _AHEAD_BYTES

    def _write(self, writer: LineWriter) -> None:
        """Write the finished lines that are next in order."""
        if self._failure is not None:
            return
        assert self._written is not None
        before = self._written
        while (ready := self._ready.pop(self._written, None)) is not None:
            if ready.failure is not None:
                self._failure = ready.failure
                self._source.stop()
                break
            entry, score = ready.entry, ready.score
            self._waiting_bytes -= entry.size
            writer.write(entry.beginning + ready.ending)
            self._tally.add(entry.task_id, ready.outcome, score and score.reward, score and score.passed)
            self._written += 1
        if self._written != before or self._failure is not None:
            moved, self._moved = self._moved, anyio.Event()
            moved.set()

    async def _scored(self, entry: CompletionLine) -> _Ready:
        if entry.problem is not None:
            return self._bad(entry, entry.problem)
        split = entry.split if entry.split in self._host.info.splits else self._settings.split
        if entry.unscored is not None:
            return _Ready(entry, _ending("null", entry.unscored.value), entry.unscored)
        index = self._indexes.get(split)
        if index is None:
            index = self._indexes[split] = TaskIndex(
                self._host, split, self._settings.seed, skip_bad=self._settings.skip_bad
            )
        card = index.kept(entry.task_id)
        if card is None:
            try:
                card = await index.find(entry.task_id)
            except UnknownNameError as error:
                return self._bad(entry, str(error))
        self.in_flight += 1
        try:
            return await self._judged(entry, card, split)
        finally:
            self.in_flight -= 1

    async def _judged(self, entry: CompletionLine, card: TaskCard, split: str) -> _Ready:
        seed = entry.seed
        if seed is None:
            seed = episode_seed(self._settings.seed, self._host.info.name, split, entry.task_id)
        for left in reversed(range(_TRIES)):
            CALLER.set(Caller(f"line-{entry.number}", _TRIES - 1 - left, is_episode=True))
            try:
                score = await self._host.score(card, entry.submission, seed=seed, deadlines=self._settings.deadlines)
            except EpisodeError as error:
                if left and error.retryable:
                    continue
                outcome = OUTCOMES[fault_of(error, "verify").boundary]
                return _Ready(entry, _ending("null", outcome.value, str(error)), outcome)
            text = score.model_dump_json(exclude_defaults=True)
            return _Ready(entry, _ending(text, Outcome.SCORED.value), Outcome.SCORED, score)
        raise AssertionError("the last try returns")

    def _bad(self, entry: CompletionLine, problem: str) -> _Ready:
        failure = None if self._settings.skip_bad else DataError(with_hint(problem), self._name, entry.number)
        return _Ready(entry, _ending("null", BAD_ROW, problem), None, failure=failure)


async def _flush_often(writer: LineWriter) -> None:
    """Flush the writer twice a second, so that a kill loses at most half a second of paid judge scores."""
    while True:
        await anyio.sleep(_FLUSH_SECONDS)
        writer.flush()


def _ending(score: str, outcome: str, error: str | None = None) -> bytes:
    """The end of an output line: the fields that scoring adds."""
    said = b"" if error is None else b', "error": ' + to_json(error)
    return b'"score": ' + score.encode() + b', "outcome": "' + outcome.encode() + b'"' + said + b"}\n"
