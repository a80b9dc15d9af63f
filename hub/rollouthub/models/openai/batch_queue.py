"""`BatchQueue`: collects calls into batches, follows them at their server, and hands out the answers."""

import hashlib
import logging
import re
import time
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from rollouthub.errors import raise_first_error
from rollouthub.http.exchange import MAX_ANSWER_BYTES
from rollouthub.limits import uncharged
from rollouthub.models.batch_run import CALLER, NAMELESS, BatchRun, Caller
from rollouthub.models.openai.batch_answers import AnswerPlace, BatchedAnswer, find_answers, read_answer
from rollouthub.models.openai.batch_journal import BatchJournal, StoredBatch
from rollouthub.models.openai.batch_server import ENDS, BatchServer, BatchState
from rollouthub.models.retry import TryFailed

logger = logging.getLogger(__name__)

MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000
"""Most requests, and bytes, of one batch's file."""
QUIET_SECONDS = 2.0
"""Seconds without a new call after which a batch is sent."""
FIRST_POLL_SECONDS, LONGEST_POLL_SECONDS = 1.0, 60.0
LONGEST_AGE_SECONDS = 72 * 3600.0
"""Age of a batch from which on it is not waited for; the server promises an end within 24 hours."""
FULL_SECONDS = 300.0
"""Seconds after which a batch is sent again for which the server had no room."""
PATIENCE_SECONDS, SHORT_PATIENCE_SECONDS = 6 * 3600.0, 30.0
"""Seconds for which a server that does not answer is tried, where its batches are waited for and where not."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")


@dataclass(eq=False)
class _BatchedCall:
    """One request: it waits to be sent, is in a batch, or has its answer."""

    custom_id: str
    path: str
    line: bytes = b""
    """Its line of the batch's input, until it is sent."""
    done: anyio.Event = field(default_factory=anyio.Event)
    place: AnswerPlace | None = None
    failure: TryFailed | None = None
    is_taken: bool = False
    """Whether a caller of this process waits for it or has its answer."""
    batch: StoredBatch | None = None

    def again(self) -> TryFailed:
        """Make it as it was before its batch could not be asked for, so that it is asked for again; the failure."""
        failure, self.failure = self.failure, None
        self.done, self.is_taken = anyio.Event(), False
        assert failure is not None, "it failed"
        return failure


class BatchQueue:
    """The batched calls of one model at one server. `open_batch_queue` makes one."""

    def __init__(self, server: BatchServer, journal: BatchJournal, run: BatchRun, tasks: anyio.abc.TaskGroup) -> None:
        self._server, self._journal, self._run, self._tasks = server, journal, run, tasks
        self._calls: dict[str, _BatchedCall] = {}
        self._parked: dict[str, list[_BatchedCall]] = {}
        """Path → calls that wait to be sent."""
        self._bytes: dict[str, int] = {}
        self._followed: set[str] = set()
        """Marks of batches that a task follows."""
        self._unseen = 0
        """Number of followed batches that the server was not asked about yet."""
        self._arrived = anyio.Event()
        self._opening = anyio.Lock()
        self._is_open = False

    @property
    def is_settled(self) -> bool:
        """Whether all that waits is at the server, which was asked about it."""
        return not any(self._parked.values()) and not self._unseen

    async def ask(self, path: str, body: dict[str, Any]) -> BatchedAnswer:
        """The answer to a request; waits for its batch, for which no deadline of the episode runs.

        Raises:
            TryFailed: its batch ended without an answer to it, or the server cannot be asked.
        """
        caller = CALLER.get(NAMELESS)
        with uncharged():
            await self._open()
            call = self._claim(caller, path, body)
            self._arrived.set()
            try:
                with self._run.counted(caller):
                    await call.done.wait()
            finally:
                if not call.done.is_set():
                    self._withdraw(call)
            if call.failure is not None and call.batch is not None and call.batch.status != "over":
                raise call.again()
            await anyio.to_thread.run_sync(self._journal.use, call.custom_id, caller.attempt)
            if call.failure is not None:
                raise call.failure
            assert call.place is not None, "a call that is done has an answer or failed"
            try:
                return await anyio.to_thread.run_sync(read_answer, call.place)
            except ValueError as error:
                raise TryFailed(str(error), status=200) from None

    async def _open(self) -> None:
        """Take up what the journal says was asked."""
        async with self._opening:
            if self._is_open:
                return
            await anyio.to_thread.run_sync(self._journal.open)
            for batch in self._journal.batches.values():
                if batch.status != "void":
                    self._calls |= {name: _BatchedCall(name, batch.path, batch=batch) for name in batch.custom_ids}
            self._is_open = True
            self._tasks.start_soon(self._tend)

    def _claim(self, caller: Caller, path: str, body: dict[str, Any]) -> _BatchedCall:
        """The call that asks this, of this caller: one that was asked before and whose answer no other attempt got,
        or a new one.
        """
        encoded = msgspec.json.encode(body, order="deterministic")
        name = caller.name if _NAME.fullmatch(caller.name) else hashlib.sha256(caller.name.encode()).hexdigest()[:16]
        base = f"{name}-{hashlib.sha256(path.encode() + encoded).hexdigest()[:16]}"
        for number in count():
            custom_id = f"{base}-{number}"
            call = self._calls.get(custom_id)
            if call is None:
                call = self._calls[custom_id] = self._park(custom_id, path, body)
            elif call.is_taken or self._journal.used.get(custom_id, caller.attempt) != caller.attempt:
                continue
            call.is_taken = True
            if call.batch is not None and call.batch.mark not in self._followed and not call.done.is_set():
                self._follow(call.batch)
            return call
        raise AssertionError("numbers do not end")

    def _park(self, custom_id: str, path: str, body: dict[str, Any]) -> _BatchedCall:
        line = msgspec.json.encode({"custom_id": custom_id, "method": "POST", "url": f"/v1{path}", "body": body})
        if len(line) >= MOST_BYTES:
            raise TryFailed(
                f"the request has {len(line):,} bytes, and a batch takes {MOST_BYTES:,}", is_retryable=False
            )
        call = _BatchedCall(custom_id, path, line)
        parked = self._parked.setdefault(path, [])
        if len(parked) >= MOST_REQUESTS or self._bytes.get(path, 0) + len(line) + 1 > MOST_BYTES:
            self._send(path)
            parked = self._parked[path]
        parked.append(call)
        self._bytes[path] = self._bytes.get(path, 0) + len(line) + 1
        return call

    def _withdraw(self, call: _BatchedCall) -> None:
        """Nobody waits for a call any more; one that was sent may be claimed again."""
        call.is_taken = False
        parked = self._parked.get(call.path, [])
        if call.batch is None and call in parked:
            parked.remove(call)
            self._bytes[call.path] -= len(call.line) + 1
            del self._calls[call.custom_id]

    async def _tend(self) -> None:
        """Send what waits when no more calls come, and put the run off where only batches are left."""
        while True:
            self._arrived = anyio.Event()
            with anyio.move_on_after(QUIET_SECONDS) as scope:
                await self._arrived.wait()
            if not scope.cancelled_caught:
                continue
            for path in [path for path, calls in self._parked.items() if calls]:
                self._send(path)
            if self._run.put_off_if_idle():
                return

    def _send(self, path: str) -> None:
        """Make a batch of what waits."""
        calls, self._parked[path], self._bytes[path] = self._parked[path], [], 0
        self._unseen += 1
        self._tasks.start_soon(self._begin, path, calls)

    async def _begin(self, path: str, calls: list[_BatchedCall]) -> None:
        lines = {call.custom_id: call.line for call in calls}
        batch = await anyio.to_thread.run_sync(self._journal.begin, path, lines)
        for call in calls:
            call.batch, call.line = batch, b""
        self._unseen -= 1
        self._follow(batch)

    def _follow(self, batch: StoredBatch) -> None:
        self._followed.add(batch.mark)
        self._unseen += 1
        self._tasks.start_soon(self._followed_to_its_end, batch)

    async def _followed_to_its_end(self, batch: StoredBatch) -> None:
        seen = False

        def see() -> None:
            nonlocal seen
            self._unseen -= not seen
            seen = True

        try:
            if batch.status != "over":
                state = await self._sent(batch)
                while state.status not in ENDS:
                    see()
                    if not self._run.is_waiting:
                        self._followed.discard(batch.mark)
                        return
                    state = await self._looked(batch, state)
                if state.is_full:
                    see()
                    await self._send_again(batch)
                    return
                await self._collect(batch, state)
            await self._deliver(batch)
        except TryFailed as failed:
            self._followed.discard(batch.mark)
            for call in self._waiting(batch):
                call.failure = failed
                call.done.set()
        finally:
            see()

    async def _sent(self, batch: StoredBatch) -> BatchState:
        """Send a batch that is not sent yet; how it is.

        Raises:
            TryFailed: the server refused it, or cannot be reached.
        """
        server, journal = self._server, self._journal
        while True:
            if batch.id is not None:
                return await server.look(batch.id, self._patience)
            state = None
            if batch.input_file is not None:  # it may have been created, and its id lost
                state = await server.find(batch.mark, self._patience)
            else:
                file_id = await server.upload(journal.requests(batch), self._patience)
                await anyio.to_thread.run_sync(journal.uploaded, batch, file_id)
            if state is None:
                assert batch.input_file is not None
                state = await server.create(batch.input_file, batch.path, batch.mark, self._patience)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(journal.sent, batch, state.id)
            self._run.note(f"{state.id} is sent, with {len(batch.custom_ids):,} requests")
            return state

    async def _send_again(self, batch: StoredBatch) -> None:
        """Send the requests of a batch again for which the server had no room."""
        self._run.note(f"{batch.id} waits for room at the server: too many tokens are in batches there")
        if self._run.is_waiting:
            await anyio.sleep(FULL_SECONDS)
            lines = await anyio.to_thread.run_sync(self._journal.lines, batch)
            anew = await anyio.to_thread.run_sync(self._journal.begin, batch.path, lines)
            for name in anew.custom_ids:
                self._calls[name].batch = anew
            self._follow(anew)
        await anyio.to_thread.run_sync(partial(self._journal.ended, batch, "full", is_void=True))

    async def _looked(self, batch: StoredBatch, before: BatchState) -> BatchState:
        """How a batch is after a while."""
        age = time.time() - batch.created
        if age > LONGEST_AGE_SECONDS:
            raise TryFailed(f"batch {batch.id} is not over after {age / 3600:.0f} h", is_retryable=False)
        await anyio.sleep(min(LONGEST_POLL_SECONDS, max(FIRST_POLL_SECONDS, age / 10)))
        state = await self._server.look(before.id, self._patience)
        batch.counts = state.counts
        if state.status not in ENDS and (state.status, state.counts) != (before.status, before.counts):
            self._run.note(_progress(batch, state))
        return state

    async def _collect(self, batch: StoredBatch, state: BatchState) -> None:
        """Download what a batch that has ended gave, and store that it has."""
        batch.counts = state.counts
        most_bytes = len(batch.custom_ids) * MAX_ANSWER_BYTES
        for file_id, to in zip(state.files, self._journal.answers(batch), strict=True):
            if file_id is not None and not to.is_file():
                await self._server.download(file_id, to, most_bytes, self._patience)
        why = f"{state.status}: {state.problem}" if state.problem else state.status
        await anyio.to_thread.run_sync(self._journal.ended, batch, why)
        self._run.note(_progress(batch, state))

    async def _deliver(self, batch: StoredBatch) -> None:
        """Hand a batch's answers to those who wait."""
        found = await anyio.to_thread.run_sync(find_answers, self._journal.answers(batch), batch.custom_ids)
        if found.strange:
            logger.warning("%s: %d lines of its output were not asked for, and are not read", batch.id, found.strange)
        for name in batch.custom_ids:
            call = self._calls[name]
            call.place = found.places.get(name)
            if call.place is None:
                call.failure = _without_answer(batch)
            call.done.set()

    def _waiting(self, batch: StoredBatch) -> Iterable[_BatchedCall]:
        return (call for name in batch.custom_ids if not (call := self._calls[name]).done.is_set())

    def _patience(self) -> float:
        return PATIENCE_SECONDS if self._run.is_waiting else SHORT_PATIENCE_SECONDS


def _progress(batch: StoredBatch, state: BatchState) -> str:
    counts = state.counts
    failed = f", {counts['failed']:,} failed" if counts["failed"] else ""
    minutes = max(0.0, time.time() - batch.created) / 60
    return (
        f"{state.id} is {state.status}: {counts['completed']:,}/{counts['total']:,} done{failed}, {minutes:.0f} min old"
    )


def _without_answer(batch: StoredBatch) -> TryFailed:
    """Why a request has no answer in a batch that is over."""
    ended = batch.ended_as or ""
    kind = ended.partition(":")[0]
    # What somebody cancelled, or the server refuses as a whole, is asked again by a person: on resume.
    return TryFailed(
        f"batch {batch.id} has no answer to it (the batch is {ended[:300]})",
        status=400 if kind == "failed" else None,
        is_retryable=kind not in ("failed", "cancelled"),
    )


@asynccontextmanager
async def open_batch_queue(server: BatchServer, directory: Path, run: BatchRun) -> AsyncGenerator[BatchQueue]:
    """Open a queue of batched calls that is kept in a folder; what is sent stays at the server."""
    journal = BatchJournal(directory)
    try:
        async with raise_first_error(), anyio.create_task_group() as tasks:
            yield BatchQueue(server, journal, run, tasks)
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(partial(journal.close))
