"""A log of the episodes that a serving hub has opened, written before their addresses are given out."""

import io
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
from pydantic import ValidationError

from rollouthub.engine.attempt import Attempt
from rollouthub.engine.trainable import why_not_trainable
from rollouthub.errors import StoreError
from rollouthub.rollout import AgentRef, EnvironmentRef, Fault, Isolation, Outcome, Rollout, Stop, TaskRef
from rollouthub.values import Frozen

logger = logging.getLogger(__name__)

LOG_FILE = "episodes.jsonl"
"""The log's file name in the run's directory; it has one line for each attempt, in the order they were begun."""


class OpenAttempt(Frozen):
    """An attempt that was begun. It holds no token, because tokens of an earlier process are invalid."""

    rollout_id: str
    attempt: int
    group_id: str
    sample: int
    environment: EnvironmentRef
    task: TaskRef
    seed: int
    agent: AgentRef
    model: str | None = None
    tools_digest: str
    isolation: Isolation
    begun_at: float
    key: str | None = None
    """The idempotency key of the request that opened it."""
    fingerprint: str | None = None
    """A hash of the request that had the key."""

    def lost(self, run_id: str) -> Rollout:
        """The record for an attempt that was in flight when the hub was killed."""
        fault = Fault(
            boundary="hub",
            phase="agent",
            type="HubKilled",
            message="the hub was killed while this episode was open; what was done in it is not known",
        )
        return Rollout(
            run_id=run_id,
            rollout_id=self.rollout_id,
            group_id=self.group_id,
            sample=self.sample,
            attempt=self.attempt,
            environment=self.environment,
            task=self.task,
            seed=self.seed,
            agent=self.agent,
            model=self.model,
            tools_digest=self.tools_digest,
            outcome=Outcome.CANCELLED,
            stop=Stop.CANCELLED,
            started_at=self.begun_at,
            faults=(fault,),
            isolation=self.isolation,
            trainable=False,
            trainable_reason=why_not_trainable(Outcome.CANCELLED, (), False),
            gaps=("turns",),
        )


def entry_of(attempt: Attempt, begun_at: float, key: str | None, fingerprint: str | None) -> OpenAttempt:
    """The log entry of an attempt that is about to be played."""
    sample = attempt.sample
    context = sample.context
    return OpenAttempt(
        rollout_id=sample.rollout_id,
        attempt=attempt.number,
        group_id=sample.group_id,
        sample=sample.index,
        environment=context.environment,
        task=sample.task_ref,
        seed=sample.seed,
        agent=context.agent_ref,
        model=context.model.name if context.model else None,
        tools_digest=context.host.info.tools_digest,
        isolation=context.host.info.isolation,
        begun_at=begun_at,
        key=key,
        fingerprint=fingerprint,
    )


class OpenSessionsLog:
    """The log file, open for writing under the run's lock."""

    def __init__(self, path: Path, file: io.FileIO) -> None:
        self._path, self._file = path, file
        self._thread = anyio.CapacityLimiter(1)

    async def note(self, entry: OpenAttempt) -> None:
        """Write an entry; once this returns, the entry survives a kill of the hub's process.

        Raises:
            StoreError: the entry cannot be written.
        """
        line = entry.model_dump_json(exclude_none=True).encode() + b"\n"
        try:
            await anyio.to_thread.run_sync(self._file.write, line, limiter=self._thread)
        except OSError as error:
            raise StoreError(
                f"could not write to {self._path}: {error}; make room, then go on with --resume"
            ) from error

    @classmethod
    @asynccontextmanager
    async def open(cls, directory: Path) -> AsyncGenerator["OpenSessionsLog"]:
        """Open a run's log for appending, or create it."""
        path = directory / LOG_FILE

        def opened() -> io.FileIO:
            _end_last_line(path)
            return path.open("ab", buffering=0)

        file = await anyio.to_thread.run_sync(opened)
        try:
            yield cls(path, file)
        finally:
            file.close()


def read_sessions_log(directory: Path) -> Iterator[OpenAttempt]:
    """The entries that earlier processes wrote; invalid lines, such as one truncated by a full disk, are skipped."""
    try:
        lines = (directory / LOG_FILE).open("rb")
    except FileNotFoundError:
        return
    with lines:
        for line in lines:
            try:
                yield OpenAttempt.model_validate_json(line)
            except ValidationError:
                logger.warning("a line of %s is no entry; it is left out", directory / LOG_FILE)


def _end_last_line(path: Path) -> None:
    """End a truncated last line, so that it does not spoil the next entry."""
    if not path.is_file() or not path.stat().st_size:
        return
    with path.open("r+b") as file:
        file.seek(-1, io.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")
