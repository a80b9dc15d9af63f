"""What a serving hub has opened, written before anyone is told: so that a hub started again knows what it had open."""

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
from rollouthub.frozen import Frozen
from rollouthub.rollout import AgentRef, EnvironmentRef, Fault, Isolation, Outcome, Rollout, Stop, TaskRef

logger = logging.getLogger(__name__)

JOURNAL = "episodes.jsonl"
"""In the run's directory, a line for each attempt, in the order they were begun."""


class OpenAttempt(Frozen):
    """An attempt that was begun. It holds no token: those of before open nothing."""

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
    """The idempotency key it was asked for with."""
    fingerprint: str | None = None
    """Of the request that carried the key."""

    def lost(self, run_id: str) -> Rollout:
        """The record of an attempt that was in flight when the hub was killed."""
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
    """The entry of an attempt about to be played."""
    item = attempt.item
    cast = item.cast
    return OpenAttempt(
        rollout_id=item.rollout_id,
        attempt=attempt.number,
        group_id=item.group_id,
        sample=item.sample,
        environment=cast.environment,
        task=item.task_ref,
        seed=item.seed,
        agent=cast.agent_ref,
        model=cast.model.name if cast.model else None,
        tools_digest=cast.host.info.tools_digest,
        isolation=cast.host.info.isolation,
        begun_at=begun_at,
        key=key,
        fingerprint=fingerprint,
    )


class OpenSessionsLog:
    """The file, open for writing under the run's lock."""

    def __init__(self, path: Path, file: io.FileIO) -> None:
        self._path, self._file = path, file
        self._thread = anyio.CapacityLimiter(1)

    async def note(self, entry: OpenAttempt) -> None:
        """Write an entry; once this returns it survives that the hub is killed.

        Raises:
            StoreError: it cannot be written.
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
        """Go on with a run's journal, or begin it."""
        path = directory / JOURNAL

        def opened() -> io.FileIO:
            _end_last_line(path)
            return path.open("ab", buffering=0)

        file = await anyio.to_thread.run_sync(opened)
        try:
            yield cls(path, file)
        finally:
            file.close()


def read_journal(directory: Path) -> Iterator[OpenAttempt]:
    """The entries of before. A line that was cut off by a full disk is left out: nobody was told of its episode."""
    try:
        lines = (directory / JOURNAL).open("rb")
    except FileNotFoundError:
        return
    with lines:
        for line in lines:
            try:
                yield OpenAttempt.model_validate_json(line)
            except ValidationError:
                logger.warning("a line of %s is no entry; it is left out", directory / JOURNAL)


def _end_last_line(path: Path) -> None:
    """A line that was cut off must not spoil the next one."""
    if not path.is_file() or not path.stat().st_size:
        return
    with path.open("r+b") as file:
        file.seek(-1, io.SEEK_END)
        if file.read(1) != b"\n":
            file.write(b"\n")
