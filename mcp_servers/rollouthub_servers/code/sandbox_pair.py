"""Runs the tests and the answer in two fresh sandboxes, and passes only values between them.

Output of the answer's program is forwarded without parsing, and only as fast as the tests' program reads it. An
endless stream therefore waits in its own sandbox, and none of it is stored here.
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
"""Opens a fresh sandbox."""

MARGIN_SECONDS = 30.0
"""Wall seconds that the tests' program gets beyond those of the answer's program."""
PARTING_SECONDS = 1.0
"""Seconds that a program gets to end after it closed its streams."""
SHOWN_BYTES = 2000
MOST_ERRORS = 1 << 20
"""Bytes on stderr at which the answer's program is killed."""


@dataclass
class Side:
    """The state of one of the two programs."""

    finished: Finished | None = None
    """How the program ended; None if it was killed because the examination was over."""
    errors: bytes = b""
    """The last bytes of the program's stderr."""
    is_flood: bool = False
    """Whether the program was killed because it wrote too much to stderr."""
    broke: SandboxError | None = None
    """The error if the program's sandbox broke, else None."""


class Exchange:
    """One examination: two programs, and the messages between them."""

    def __init__(self, open_sandbox: OpenSandbox, cpu_seconds: float) -> None:
        self.tests, self.answer = Side(), Side()
        self.has_started = False
        """Whether the tests' program has loaded the tests."""
        self.said: dict[str, Any] | None = None
        """The verdict or fault that the tests' program reported; None before that."""
        self._open, self._cpu_seconds = open_sandbox, cpu_seconds
        self._examiner, self._candidate = _Slot(), _Slot()
        self._patience = anyio.CancelScope()
        self._is_answer_over = False

    @property
    def has_passed(self) -> bool:
        """Whether the tests are finished and have passed."""
        return self.said is not None and self.said.get("passed") is True

    async def run(self, tests: bytes, answer: bytes) -> None:
        """Send both programs their first message, and forward messages until the tests are finished.

        Raises:
            SandboxError: a sandbox could not be opened, or the tests' sandbox broke.
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
        """End the answer's program after the tests; if they failed because it ended, wait for its exit status."""
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
        """Forward the output of the answer's program to the tests' program."""
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
        """Close the tests' input, so that they see that no more replies come."""
        self._is_answer_over = True
        if examiner := await self._examiner.get():
            await examiner.send_eof()


class _Slot:
    """A program that others wait for; None if it broke before it started."""

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
    """Splits a stream into messages and the mark before each."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Add data; yields the messages that are now complete, with their marks.

        Raises:
            VerifierError: a message is too long.
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
