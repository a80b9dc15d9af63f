"""Runs the tests and the answer in two fresh sandboxes and passes only values between them.

What the answer's program writes goes to the tests' program unread, at the pace at which that one reads it. So an
endless stream waits in its own sandbox, and nothing of it is kept here.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import anyio

from rollouthub import Sandbox, SandboxError, SandboxSpec, VerifierError
from rollouthub.errors import SandboxOverrun, first_error
from rollouthub.sandbox import Finished, Program
from rollouthub_servers.code.examiner import CALL, SAY
from rollouthub_servers.code.programs import (
    CANDIDATE,
    EXAMINER,
    EXAMINER_MEMORY_BYTES,
    SPEC,
    WALL_FACTOR,
    command,
    limits,
)
from rollouthub_servers.code.values import LENGTH, MAX_MESSAGE

OpenSandbox = Callable[[SandboxSpec], AbstractAsyncContextManager[Sandbox]]
"""Opens a fresh one."""

MARGIN_SECONDS = 30.0
"""Which the tests get on top of what the answer gets."""
PARTING_SECONDS = 1.0
"""For a program that closed its streams to end as well."""
SHOWN_BYTES = 2000
MOST_ERRORS = 1 << 20
"""Bytes of last words after which the answer's program is ended; what it prints is none of them."""


@dataclass
class Side:
    """What is known of one of the two programs."""

    finished: Finished | None = None
    """How it ended; None where it was ended because the examination was over."""
    errors: bytes = b""
    """The end of what it wrote to its standard error."""
    is_flood: bool = False
    """It was ended for how much it wrote there."""
    broke: SandboxError | None = None
    """Its sandbox broke under it."""


class Exchange:
    """One examination under way."""

    def __init__(self, open_sandbox: OpenSandbox, cpu_seconds: float) -> None:
        self.tests, self.answer = Side(), Side()
        self.has_started = False
        """Whether the first test was reached."""
        self.said: dict[str, Any] | None = None
        """The verdict, or the fault, in the words of the tests' program."""
        self._open, self._cpu_seconds = open_sandbox, cpu_seconds
        self._examiner, self._candidate = _Slot(), _Slot()
        self._patience = anyio.CancelScope()
        self._is_answer_over = False

    @property
    def has_passed(self) -> bool:
        """Whether the tests are over, and hold."""
        return self.said is not None and self.said.get("passed") is True

    async def run(self, tests: bytes, answer: bytes) -> None:
        """Give both programs their first message, and carry what they say until the tests are over.

        Raises:
            SandboxError: a sandbox could not be had, or that of the tests broke.
        """
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._run_tests, tests)
                group.start_soon(self._run_answer, answer)
        except ExceptionGroup as errors:
            raise first_error(errors) from errors

    async def _run_tests(self, request: bytes) -> None:
        try:
            await self._examine(request)
        except SandboxOverrun as error:
            self.tests.broke = error
            raise

    async def _examine(self, request: bytes) -> None:
        cpu = self._cpu_seconds
        async with (
            self._open(SPEC) as sandbox,
            sandbox.start(
                command(EXAMINER),
                timeout_seconds=WALL_FACTOR * cpu + MARGIN_SECONDS,
                limits=limits(2 * cpu, EXAMINER_MEMORY_BYTES),
            ) as program,
        ):
            await program.send(request)
            self._examiner.put(program)
            messages = _Messages()
            async for stream, data in program.output():
                if stream == "stderr":
                    self.tests.errors = (self.tests.errors + data)[-SHOWN_BYTES:]
                    continue
                for mark, message in messages.feed(data):
                    await self._hear(mark, message)
                if self.said is not None:
                    break
            else:
                self.tests.finished = await program.wait()
        self._part()

    async def _hear(self, mark: bytes, message: bytes) -> None:
        if mark == CALL:
            if candidate := await self._candidate.get():
                await candidate.send(message)
        elif mark == SAY:
            said = json.loads(message[LENGTH:])
            if said.get("started"):
                self.has_started = True
            else:
                self.said = said
        else:
            raise VerifierError(f"the tests' program wrote what is no message: {mark!r}")

    def _part(self) -> None:
        """The tests are over; an answer that has nothing more to say may still tell how it ended."""
        if self._is_answer_over and self.said is not None and not self.has_passed:
            self._patience.deadline = anyio.current_time() + PARTING_SECONDS
        else:
            self._patience.cancel()

    async def _run_answer(self, request: bytes) -> None:
        cpu = self._cpu_seconds
        with self._patience:
            async with self._open(SPEC) as sandbox:
                try:
                    async with sandbox.start(
                        command(CANDIDATE), timeout_seconds=WALL_FACTOR * cpu, limits=limits(cpu)
                    ) as program:
                        await self._carry(program, request)
                except SandboxError as error:
                    self.answer.broke = error  # under an answer that may have broken it
                    self._candidate.put(None)
                    await self._end_answer()

    async def _carry(self, program: Program, request: bytes) -> None:
        """Hand what the answer's program writes to the tests'."""
        await program.send(request)
        self._candidate.put(program)
        examiner = await self._examiner.get()
        assert examiner is not None
        written = 0
        async for stream, data in program.output():
            if stream == "stdout":
                await examiner.send(data)
                continue
            written += len(data)
            self.answer.errors = (self.answer.errors + data)[-SHOWN_BYTES:]
            if written > MOST_ERRORS:
                self.answer.is_flood = True
                await program.kill()
                break
        await self._end_answer()
        if not self.answer.is_flood:
            self.answer.finished = await program.wait()

    async def _end_answer(self) -> None:
        """Let the tests see that no more replies come."""
        self._is_answer_over = True
        if examiner := await self._examiner.get():
            await examiner.send_eof()


class _Slot:
    """A program that others wait for; None where it broke before it could be spoken to."""

    def __init__(self) -> None:
        self._program: Program | None = None
        self._filled = anyio.Event()

    def put(self, program: Program | None) -> None:
        self._program = program
        self._filled.set()

    async def get(self) -> Program | None:
        await self._filled.wait()
        return self._program


class _Messages:
    """The messages in a stream, each with the mark before it."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Those that are whole by now.

        Raises:
            VerifierError: what comes is no message.
        """
        rest = self._rest
        rest += data
        while len(rest) > LENGTH:
            size = int.from_bytes(rest[1 : 1 + LENGTH], "big")
            if size > MAX_MESSAGE:
                raise VerifierError(f"the tests' program announced a message of {size:,} bytes")
            end = 1 + LENGTH + size
            if len(rest) < end:
                return
            mark, message = bytes(rest[:1]), bytes(rest[1:end])
            del rest[:end]
            yield mark, message
