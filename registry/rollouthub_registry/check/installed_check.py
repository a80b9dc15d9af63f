"""Checks an installed environment with its own interpreter, within a time limit."""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process
from pydantic import ValidationError

from rollouthub import Model
from rollouthub.errors import ConfigError, UsageError
from rollouthub.hosting.role_endpoints import serve_roles_for
from rollouthub.hosting.server_program import ServerProgram
from rollouthub.hosting.wall.socket_folder import socket_folder
from rollouthub.hosting.wall.wall import choice_for
from rollouthub.hosting.wall.walled_start import behind_wall, program_of
from rollouthub.models.credentials import Credentials
from rollouthub.plugins.installed import Installation
from rollouthub.processes import kill_group
from rollouthub_registry.check.check_finding import Finding
from rollouthub_registry.check.check_protocol import CheckAnswer, CheckOrder
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.check_suite import chosen_checks, open_roles

CHECK_INSTALLED_SECONDS = 900.0
"""Most seconds for all checks together."""
_MOST_ANSWER = 8 * 2**20
_MOST_SAID = 4000
_LAST_WORDS_SECONDS = 2.0
_KILL_SECONDS = 5.0
_LOOK_SECONDS = 0.5


class CheckRefused(UsageError):
    """The check of an installed environment did not start, did not end, or gave no answer."""


async def check_installed(
    installation: Installation, asked: CheckRequest, seconds: float = CHECK_INSTALLED_SECONDS
) -> list[Finding]:
    """Check an installed environment.

    It is checked in a process of its own, behind the wall that its server has in a run: a class by its own interpreter,
    a declared server by the hub's. The secrets given to the environment are masked in the findings.

    Raises:
        UsageError: the environment cannot be hosted with these options, or the checks do not end in time.
    """
    redact = redactor(installation)
    try:
        async with AsyncExitStack() as stack:
            models = await open_roles(stack, asked.roles)
            with anyio.fail_after(seconds):
                findings = await _in_its_own(installation, asked, models, redact)
    except TimeoutError:
        raise CheckRefused(
            f"{installation.target} was not checked within {seconds:g} s, and was ended; an environment must answer in "
            "seconds: look for a wait without a bound"
        ) from None
    return [_without_secrets(finding, redact) for finding in findings]


def redactor(installation: Installation) -> Callable[[str], str]:
    """A function that masks the secrets given to the environment, and texts that look like keys."""
    given = {f"{number}_SECRET": os.environ.get(name, "") for number, name in enumerate(installation.secrets)}
    return Credentials(given).redact


def _without_secrets(finding: Finding, redact: Callable[[str], str]) -> Finding:
    return replace(finding, says=redact(finding.says), details=tuple(redact(detail) for detail in finding.details))


async def _in_its_own(
    installation: Installation, asked: CheckRequest, models: Mapping[str, Model], redact: Callable[[str], str]
) -> list[Finding]:
    """Have a process behind a wall check it."""
    chosen_checks(asked.only)
    choice = choice_for(installation, asked.wall)
    async with serve_roles_for(choice, models) as roles:
        program = await program_of(installation, asked.settings, roles, choice)
        order = CheckOrder(
            split=asked.split,
            limit=asked.limit,
            seed=asked.seed,
            settings=dict(asked.settings),
            roles=roles,
            only=asked.only,
            python=program.python,
        )
        answer = await _answered(installation, program, order, redact)
    if answer.error is not None:
        raise CheckRefused(f"{installation.target} cannot be hosted from where it is installed: {redact(answer.error)}")
    return [told.finding for told in answer.findings]


async def _answered(
    installation: Installation, program: ServerProgram, order: CheckOrder, redact: Callable[[str], str]
) -> CheckAnswer:
    """Start the process, send it the request, and wait for its answer; the process and its children are ended on
    return.
    """
    answer, said = _Tail(_MOST_ANSWER), _Tail(_MOST_SAID)
    async with _process(installation, program) as process:
        try:
            async with anyio.create_task_group() as tasks:
                assert process.stdin is not None
                assert process.stdout is not None
                assert process.stderr is not None
                tasks.start_soon(said.take, process.stderr)
                tasks.start_soon(answer.take, process.stdout)
                with contextlib.suppress(anyio.BrokenResourceError, ConnectionError):
                    await process.stdin.send(order.model_dump_json(exclude_defaults=True).encode() + b"\n")
                tasks.start_soon(_give_up_after, process, answer)
                await answer.line.wait()
                # What it started may hold its pipes open; nothing more is wanted of it.
                with anyio.move_on_after(_LAST_WORDS_SECONDS):
                    await said.ended.wait()
                tasks.cancel_scope.cancel()
        finally:
            await _end(process)
    try:
        return CheckAnswer.model_validate_json(answer.first_line)
    except ValidationError:
        words = redact(said.text.strip()) or "it said nothing"
        raise CheckRefused(
            f"the check of {installation.target} ended without an answer (exit code {process.returncode}): {words}"
        ) from None


@asynccontextmanager
async def _process(installation: Installation, program: ServerProgram) -> AsyncGenerator[Process]:
    """The process of a check, as its program says: behind a wall, or in a folder of its own."""
    checking = replace(program, words=("check", str(installation.file), "--from-stdin"))
    async with AsyncExitStack() as stack:
        if program.wall is None:
            made = tempfile.TemporaryDirectory(prefix="rollouthub-check-", ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(made))
            yield await _start(installation, folder, checking.command, program.environment(os.environ))
        else:
            folder = stack.enter_context(socket_folder())
            enclosed, variables = await stack.enter_async_context(behind_wall(checking, folder))
            yield await _start(installation, None, enclosed.command, variables)


async def _start(
    installation: Installation, folder: Path | None, command: Sequence[str], variables: Mapping[str, str]
) -> Process:
    try:
        return await anyio.open_process(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=variables,
        )
    except OSError as error:
        raise ConfigError(f"the interpreter of {installation.target} cannot be started: {error}") from error


async def _give_up_after(process: Process, answer: "_Tail") -> None:
    """Stop waiting for the answer once the process has ended, even if another process holds its pipes open."""
    while process.returncode is None:
        with anyio.move_on_after(_LOOK_SECONDS):
            await process.wait()  # asyncio's waits for the pipes, too
    with anyio.move_on_after(_LAST_WORDS_SECONDS):
        await answer.ended.wait()
    answer.line.set()


async def _end(process: Process) -> None:
    """Kill a process with its whole process group, and wait for it."""
    with anyio.CancelScope(shield=True):
        kill_group(process.pid)
        with anyio.move_on_after(_KILL_SECONDS):
            await process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
                await stream.aclose()


class _Tail:
    """Keeps the end of a process's output, so that its size is bounded."""

    def __init__(self, most: int) -> None:
        self._most, self._kept = most, b""
        self.line, self.ended = anyio.Event(), anyio.Event()

    async def take(self, stream: ByteReceiveStream) -> None:
        """Read the output to its end."""
        try:
            async for chunk in stream:
                self._kept = (self._kept + chunk)[-self._most :]
                if b"\n" in chunk:
                    self.line.set()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self.line.set()
            self.ended.set()

    @property
    def first_line(self) -> bytes:
        """The kept text up to its first line break."""
        return self._kept.partition(b"\n")[0]

    @property
    def text(self) -> str:
        """All text that was kept."""
        return self._kept.decode(errors="replace")
