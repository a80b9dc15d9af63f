"""The one writer of a run: records are queued on the event loop and committed in batches by a worker thread."""

import json
import shutil
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import anyio
import anyio.to_thread
from mcp_types import Tool
from pydantic import JsonValue

from rollouthub.errors import HubError, StoreError
from rollouthub.rollout import Rollout
from rollouthub.store.database import Batch, RunDatabase, open_database
from rollouthub.store.run_facts import LiveState, Status

_GATHER_SECONDS = 0.05
"""Seconds for which a batch collects records before it is committed: waking a thread costs as much as ten records."""
_LIVE_SECONDS = 0.5
_BATCH_ROLLOUTS, _BATCH_BYTES = 256, 8 * 2**20
_WAITING_ROLLOUTS = 1024
_WAITING_BYTES = 32 * 2**20
"""`add` waits while the queue holds more records or bytes than these limits: a slow disk then slows the run instead
of filling the memory.
"""
_NO_MEDIA: Mapping[str, bytes] = MappingProxyType({})

_Waiting = tuple[Rollout, Mapping[str, bytes], int]


@dataclass
class Commits:
    """Number and duration of the commits so far."""

    count: int = 0
    records: int = 0
    seconds: float = 0.0
    longest_seconds: float = 0.0

    def add(self, records: int, seconds: float) -> None:
        """Count one more commit."""
        self.count += 1
        self.records += records
        self.seconds += seconds
        self.longest_seconds = max(self.longest_seconds, seconds)


class RunWriter:
    """Stores the records of a run while it is played."""

    def __init__(self, database: RunDatabase, on_commit: Callable[[Sequence[Rollout]], None] | None) -> None:
        self.run_id = database.run_id
        self.resumed = database.resumed
        """Whether the run existed before."""
        self.stored_resolved = database.resolved
        """The resolved request with which the run was created."""
        self.latest_resolved = database.latest_resolved
        """The resolved request with which the run was last played before."""
        self._done, self._following = database.done, database.following
        self.done_count = len(self._done)
        """Number of samples that were settled when the run was opened."""
        self.waiting_members = database.waiting.records
        """Rollout id → record that waited for its group's verdict when the run was opened; counted as done."""
        self._judged = database.waiting.judged
        self.kept_count = self.done_count + sum(name not in self._done for name in self._following)
        """Number of samples that had a record when the run was opened, settled or not."""
        self.commits = Commits()
        self._database, self._on_commit = database, on_commit
        self._queue: deque[_Waiting] = deque()
        self._bytes = 0
        self._next = Batch()
        self._tools: set[str] = set()
        self._live: dict[str, Callable[[], LiveState]] = {}
        self._live_written = 0.0
        self._records_asked = self._records_kept = self._facts_asked = self._facts_kept = 0
        self._status: Status | None = None
        self._failure: StoreError | None = None
        self._is_closing = False
        self._is_begun = not self.resumed
        self._work, self._records, self._hurry, self._progress = (anyio.Event() for _ in range(4))
        # A thread of its own: those that everyone shares may all be held by environments that block.
        self._thread = anyio.CapacityLimiter(1)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        directory: Path,
        *,
        resolved: dict[str, JsonValue],
        given: str,
        resume: bool,
        on_commit: Callable[[Sequence[Rollout]], None] | None = None,
    ) -> AsyncGenerator["RunWriter"]:
        """Create or resume a run, and write to it within the block; `on_commit` gets each batch of committed records.

        Resuming a directory without a run creates one. A resumed run is not written before its plan or its first record
        is set; leaving the block before that leaves the run unchanged.

        Raises:
            RunDirectoryError: the directory cannot be used as requested.
            StoreError: the store could not write; what was committed before stays.
        """
        database = await anyio.to_thread.run_sync(
            lambda: open_database(directory, resolved=resolved, given=given, resume=resume)
        )
        problem: BaseException | None = None
        unended: HubError | None = None
        writer = cls(database, on_commit)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(writer._run)
                try:
                    yield writer
                except Exception as error:
                    problem = error  # raised below, outside the task group, so that it arrives as it is
                except BaseException as error:
                    problem = error
                    raise
                finally:
                    writer._close()
        finally:
            status = writer._ending(problem or writer._failure)
            with anyio.CancelScope(shield=True):
                unended = await anyio.to_thread.run_sync(_end, database, status, limiter=writer._thread)
        failure = problem if isinstance(problem, Exception) else writer._failure or unended
        if failure is not None:
            raise failure

    @property
    def waiting(self) -> int:
        """Number of records that are not committed yet."""
        return len(self._queue)

    def is_done(self, rollout_id: str) -> bool:
        """Whether a sample was settled (scored, or failed by its agent) when the run was opened."""
        return rollout_id in self._done

    def is_kept(self, rollout_id: str) -> bool:
        """Whether a sample had any record when the run was opened."""
        return rollout_id in self._done or rollout_id in self._following

    def is_judged(self, group_id: str) -> bool:
        """Whether a group's verdict has arrived, before the run was opened or since."""
        return group_id in self._judged

    def attempts(self, rollout_id: str) -> int:
        """Number of stored attempts at a sample when the run was opened, which is the number of the next one."""
        return self._following.get(rollout_id, 1 if rollout_id in self._done else 0)

    async def add(self, rollout: Rollout, media: Mapping[str, bytes] = _NO_MEDIA) -> None:
        """Queue a record; it is durable once `on_commit` was called with it. An attempt added twice is stored once.

        A record that waits for its group's verdict is stored apart; `on_commit` is called when the verdict has arrived.

        Raises:
            StoreError: the store cannot write any more.
        """
        self._check()
        self._is_begun = True
        while len(self._queue) >= _WAITING_ROLLOUTS or self._bytes >= _WAITING_BYTES:
            self._hurry.set()
            await self._progress.wait()
            self._check()
        size = _size(rollout, media)
        self._bytes += size
        self._queue.append((rollout, media, size))
        if not rollout.awaits_group:
            self._live.pop(rollout.rollout_id, None)
        self._records_asked += 1
        if len(self._queue) == 1:
            self._work.set()
            self._records.set()
        elif len(self._queue) >= _BATCH_ROLLOUTS:
            self._hurry.set()

    def conclude_group(self, members: Sequence[Rollout], media: Mapping[str, bytes] = _NO_MEDIA) -> None:
        """Write the final records of a group's waiting members, with scores or the error, in one transaction: a kill
        never leaves a group half scored. `media` are those that its judges were shown, by digest.
        """
        for rollout in members:
            self._live.pop(rollout.rollout_id, None)
        if any(rollout.score is not None for rollout in members):
            self._judged.add(members[0].group_id)
        self._next.groups.append(members)
        self._next.media.update(media)
        self._noted()

    def add_tools(self, digest: str, tools: Sequence[Tool]) -> None:
        """Store the schemas of a tool list, once."""
        if digest not in self._tools:
            self._tools.add(digest)
            self._next.tools[digest] = tools
            self._noted()

    def set_live(self, rollout_id: str, state: Callable[[], LiveState]) -> None:
        """Set the state of an attempt in flight; `state` is called when the state is written, at most every half
        second.
        """
        if not self._live:
            self._work.set()
        self._live[rollout_id] = state

    def set_plan(self, planned: int | None, bad_rows: int = 0) -> None:
        """Record the number of planned rollouts (None if unknown) and of bad rows.

        From this call on, the directory of a resumed run is written.
        """
        self._is_begun = True
        self._next.meta["bad_rows"] = str(bad_rows)
        self._next.meta["planned"] = "null" if planned is None else str(planned)
        self._noted()

    def set_resolved(self, resolved: dict[str, JsonValue], changes: Sequence[str] = ()) -> None:
        """Record the request with which the run is resumed, and its changes; the original request stays recorded."""
        self._next.resolved, self._next.changes = resolved, changes
        self._noted()

    def set_stopped(self, reason: str) -> None:
        """Record why the run ends before all planned rollouts were played."""
        self._next.meta["stopped"] = reason
        self._noted()

    def set_remarks(self, remarks: Sequence[str]) -> None:
        """Record what is to be said about the run, a line each, beside its figures."""
        self._next.meta["remarks"] = json.dumps(list(remarks))
        self._noted()

    def set_status(self, status: Status) -> None:
        """Set the status with which the run will end; by default failed after an error, interrupted when cancelled."""
        self._status = status

    async def flush(self) -> None:
        """Wait until everything added so far is durable.

        Raises:
            StoreError: the store cannot write any more.
        """
        self._is_begun = True
        records, facts = self._records_asked, self._facts_asked
        while self._records_kept < records or self._facts_kept < facts:
            self._check()
            self._hurry.set()
            self._records.set()
            await self._progress.wait()
        self._check()

    def _noted(self) -> None:
        """Count a requested fact, and wake the writer if the run has begun."""
        self._facts_asked += 1
        if self._is_begun:
            self._work.set()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _run(self) -> None:
        """Commit batches until closed; shielded, so that finished records are stored even when the run is cancelled."""
        with anyio.CancelScope(shield=True):
            try:
                while await self._gather():
                    await self._commit(self._take())
            except Exception as error:
                # A bug ends the run; those who wait for this task must not wait on.
                self._failure = StoreError(f"the writer of {self._database.directory} broke: {error}")
                raise
            finally:
                self._is_closing = True
                self._progress.set()

    async def _gather(self) -> bool:
        """Wait until there is a batch to write; return False when no more will come."""
        if not self._is_closing:
            await self._work.wait()
        if self._is_closing:
            return self._is_begun and bool(self._queue or self._facts_kept < self._facts_asked)
        if not self._queue:
            with anyio.CancelScope(deadline=self._live_written + _LIVE_SECONDS):
                await self._records.wait()
        if len(self._queue) < _BATCH_ROLLOUTS and not self._is_closing:
            with anyio.move_on_after(_GATHER_SECONDS):
                await self._hurry.wait()
        return True

    def _take(self) -> tuple[Batch, int]:
        """Return the next batch, and the number of facts requested up to it."""
        batch, now = self._next, anyio.current_time()
        self._next = Batch()
        left = self._bytes - _BATCH_BYTES
        while self._queue and len(batch.rollouts) < _BATCH_ROLLOUTS and (self._bytes > left or not batch.rollouts):
            rollout, media, size = self._queue.popleft()
            batch.rollouts.append((rollout, media))
            self._bytes -= size
        if self._live and not self._is_closing and now >= self._live_written + _LIVE_SECONDS:
            batch.live = {rollout_id: state() for rollout_id, state in self._live.items()}
            self._live, self._live_written = {}, now
        self._work, self._records, self._hurry = anyio.Event(), anyio.Event(), anyio.Event()
        if self._queue:
            self._work.set()
            self._records.set()
        elif self._live:
            self._work.set()
        return batch, self._facts_asked

    async def _commit(self, taken: tuple[Batch, int]) -> None:
        batch, facts = taken
        started = anyio.current_time()
        try:
            added = await anyio.to_thread.run_sync(self._database.commit, batch, limiter=self._thread)
        except (sqlite3.Error, OSError) as error:
            self._failure = write_error(self._database.directory, error)
            self._failure.__cause__ = error
            self._queue.clear()
            self._facts_kept = self._facts_asked
            self._is_closing = True
        else:
            self.commits.add(len(batch.rollouts), anyio.current_time() - started)
            self._records_kept += len(batch.rollouts)
            self._facts_kept = facts
            if added and self._on_commit is not None:
                self._on_commit(added)
        finally:
            progress, self._progress = self._progress, anyio.Event()
            progress.set()

    def _close(self) -> None:
        self._is_closing = True
        for event in (self._work, self._records, self._hurry):
            event.set()

    def _ending(self, error: BaseException | None) -> Status:
        if self._status is not None and not isinstance(error, Exception):
            return self._status
        if error is None:
            return "finished"
        return "failed" if isinstance(error, Exception) else "interrupted"


open_writer = RunWriter.open


def _end(database: RunDatabase, status: Status) -> HubError | None:
    try:
        database.close(status)
    except sqlite3.Error as error:
        failure = write_error(database.directory, error)
        failure.__cause__ = error
        return failure
    return None


def write_error(directory: Path, error: sqlite3.Error | OSError) -> StoreError:
    """The error for a failed commit; it names the free space, and says that nothing committed is lost."""
    try:
        free = f"{shutil.disk_usage(directory).free / 2**20:.1f} MiB are free there"
    except OSError as unknown:
        free = f"the free space is unknown ({unknown})"
    return StoreError(
        f"could not write to the run in {directory}: {error}; {free}. Every rollout committed so far is kept: "
        "make room, then go on with --resume"
    )


def _size(rollout: Rollout, media: Mapping[str, bytes]) -> int:
    """Approximate memory in bytes that a waiting record takes."""
    size = 2000 + sum(map(len, media.values()))
    for turn in rollout.turns:
        if turn.prompt_token_ids is not None:
            size += len(turn.prompt_token_ids.raw)
        if turn.output_token_ids is not None:
            size += 2 * len(turn.output_token_ids.raw)
    return size
