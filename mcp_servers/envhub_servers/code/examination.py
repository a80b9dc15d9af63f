"""Running a task's tests on an answer: two programs, one that is trusted and one that is not, and a pipe of values."""

import json
import os
import signal
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType

import anyio
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from envhub import SandboxError, VerifierError
from envhub.errors import first_error
from envhub_servers.code.sandbox import Finished, Sandbox

CANDIDATE, EXAMINER = ("values.py", "answer.py", "candidate.py"), ("values.py", "examiner.py")
MEMORY_BYTES = 1 << 30
EXAMINER_MEMORY_BYTES = 2 << 30
WALL_FACTOR = 6.0
"""Wall time a program gets for each second of CPU: a busy machine fails no answer."""
MARGIN_SECONDS = 30.0
"""Which the tests get on top of what the answer gets."""
PARTING_SECONDS = 1.0
SHOWN = 500

_limiter: RunVar[CapacityLimiter] = RunVar("envhub_code_runs")


@dataclass(frozen=True)
class Verdict:
    """Whether an answer passes its tests."""

    passed: bool
    why: str | None = None
    """The test that failed, or what became of the answer's process."""


def limit() -> CapacityLimiter:
    """One limiter per event loop for all programs of all episodes: two for each core."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(2 * (os.cpu_count() or 1))
        _limiter.set(limiter)
        return limiter


async def examine(
    sandbox: Sandbox, *, prompt: str, test: str, entry_point: str, answer: str, cpu_seconds: float
) -> Verdict:
    """Run the tests on an answer.

    Raises:
        VerifierError: they could not be run; never for anything the answer does.
    """
    question = {"prompt": prompt, "entry_point": entry_point}
    async with limit():
        try:
            examined, candidate = await _run_both(
                sandbox,
                json.dumps({**question, "test": test}).encode(),
                json.dumps({**question, "answer": answer}).encode(),
                cpu_seconds,
            )
        except SandboxError as error:
            raise VerifierError(f"the tests could not be run: {error}", retryable=error.retryable) from error
    return _verdict(examined, candidate, cpu_seconds)


async def _run_both(
    sandbox: Sandbox, tests: bytes, answer: bytes, cpu_seconds: float
) -> tuple[Finished, Finished | None]:
    """The tests' program and the answer's; None for an answer that had to be ended when the tests were over."""
    finished: dict[str, Finished] = {}
    patience = anyio.CancelScope()
    trusted, untrusted = socket.socketpair()

    async def run_tests() -> None:
        finished["tests"] = await sandbox.run_python(
            _program(EXAMINER),
            stdin=tests,
            cpu_seconds=2 * cpu_seconds,
            wall_seconds=WALL_FACTOR * cpu_seconds + MARGIN_SECONDS,
            memory_bytes=EXAMINER_MEMORY_BYTES,
            channel=trusted,
            is_hidden=True,
        )
        patience.deadline = anyio.current_time() + PARTING_SECONDS

    async def run_answer() -> None:
        with patience:
            finished["answer"] = await sandbox.run_python(
                _program(CANDIDATE),
                stdin=answer,
                cpu_seconds=cpu_seconds,
                wall_seconds=WALL_FACTOR * cpu_seconds,
                memory_bytes=MEMORY_BYTES,
                output_bytes=2 * SHOWN,
                channel=untrusted,
            )

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(run_tests)
            group.start_soon(run_answer)
    except ExceptionGroup as errors:
        raise first_error(errors) from errors
    return finished["tests"], finished.get("answer")


def _verdict(examined: Finished, candidate: Finished | None, cpu_seconds: float) -> Verdict:
    lines = examined.stdout.text.splitlines()
    last = lines[-1] if lines else ""
    if last.startswith("{"):
        said = json.loads(last)
        if "fault" in said:
            raise VerifierError(said["fault"], retryable=False)
        if said["passed"]:
            return Verdict(passed=True)
        return Verdict(passed=False, why=_ending(candidate, cpu_seconds) or said["why"])
    crashed = examined.exit_status not in (None, -signal.SIGKILL) or examined.used_up_its_cpu
    if last == "started" and crashed:
        # The tests hold for the reference, so what broke their process is what the answer gave them to compare.
        return Verdict(passed=False, why=f"its values broke the tests' process (exit status {examined.exit_status})")
    how = "was not done in time" if examined.timed_out else f"ended with exit status {examined.exit_status}"
    raise VerifierError(f"the process that runs the tests {how}: {examined.stderr.text[-SHOWN:]}")


def _ending(candidate: Finished | None, cpu_seconds: float) -> str | None:
    """What became of the answer's process, where that is why it failed."""
    if candidate is None or candidate.exit_status == 0:
        return None
    if candidate.timed_out:
        return f"it took over {WALL_FACTOR * cpu_seconds:g} s"
    if candidate.used_up_its_cpu:
        return f"it took over {cpu_seconds:g} s of CPU"
    return f"its process ended with exit status {candidate.exit_status}: {candidate.stderr.text[-SHOWN:].strip()}"


@cache
def _program(files: tuple[str, ...]) -> CodeType:
    """These modules as one program, compiled once: in the sandbox there is no package to import them from."""
    folder = Path(__file__).parent
    source = "\n".join((folder / file).read_text() for file in files)
    return compile(source, files[-1], "exec", dont_inherit=True)
