"""Runs an answer's tests; the result is a verdict on the answer, or an error if the tests themselves failed."""

import signal
from dataclasses import dataclass

from rollouthub import SandboxError, VerifierError
from rollouthub.sandbox import CommandNotStarted
from rollouthub_servers.code.programs import WALL_FACTOR, limit
from rollouthub_servers.code.sandbox_pair import Exchange, OpenSandbox, Side
from rollouthub_servers.code.values import TooLong, pack

SHOWN = 500


@dataclass(frozen=True)
class CodeVerdict:
    """Whether an answer passes its tests."""

    passed: bool
    why: str | None = None
    """The test that failed, or how the answer's process ended; None if it passed."""


async def examine(
    open_sandbox: OpenSandbox,
    *,
    prompt: str,
    test: str,
    entry_point: str,
    answer: str,
    cpu_seconds: float,
    known: str | None = None,
) -> CodeVerdict:
    """Run the tests on an answer; `known` is a right answer, to check the tests if their sandbox breaks.

    Raises:
        VerifierError: the tests cannot be run; never because of the answer.
    """
    question = {"prompt": prompt, "entry_point": entry_point}
    try:
        tests = pack({**question, "test": test})
    except TooLong:
        raise VerifierError("the tests are more than a message can hold", retryable=False) from None
    try:
        asked = pack({**question, "answer": answer})
    except TooLong:
        return CodeVerdict(passed=False, why="it is more than a message can hold")
    async with limit():
        exchange = await _exchange(open_sandbox, cpu_seconds, tests, asked)
        if exchange.tests.broke is None and exchange.answer.broke and not exchange.has_passed:
            # by the answer, or by chance: what happens twice is no chance
            exchange = await _exchange(open_sandbox, cpu_seconds, tests, asked)
        if (overrun := exchange.tests.broke) is not None:
            right = None if known is None else pack({**question, "answer": known})
            if right is None or (await _exchange(open_sandbox, cpu_seconds, tests, right)).tests.broke is not None:
                raise VerifierError(f"the tests could not be run: {overrun}", retryable=False)
            return CodeVerdict(passed=False, why=f"its values broke the tests' sandbox: {overrun}")
    return _verdict(exchange, cpu_seconds)


async def _exchange(open_sandbox: OpenSandbox, cpu_seconds: float, tests: bytes, answer: bytes) -> Exchange:
    exchange = Exchange(open_sandbox, cpu_seconds)
    try:
        await exchange.run(tests, answer)
    except SandboxError as error:
        if exchange.has_started and exchange.tests.broke is not None:
            return exchange
        raise VerifierError(f"the tests could not be run: {error}", retryable=error.retryable) from error
    except CommandNotStarted as error:
        raise VerifierError(f"the sandbox cannot run Python: {error}", retryable=False) from error
    return exchange


def _verdict(exchange: Exchange, cpu_seconds: float) -> CodeVerdict:
    said = exchange.said
    if said is not None:
        if "fault" in said:
            raise VerifierError(said["fault"], retryable=False)
        if said["passed"]:
            return CodeVerdict(passed=True)
        return CodeVerdict(passed=False, why=_ending(exchange.answer, cpu_seconds) or said["why"])
    examined = exchange.tests.finished
    assert examined is not None  # it said nothing, so it was waited for
    crashed = examined.exit_status not in (None, -signal.SIGKILL) or examined.used_up_its_cpu or examined.out_of_memory
    if exchange.has_started and crashed:
        # The tests hold for the reference, so what broke their process is what the answer gave them to compare.
        return CodeVerdict(
            passed=False, why=f"its values broke the tests' process (exit status {examined.exit_status})"
        )
    how = "was not done in time" if examined.timed_out else f"ended with exit status {examined.exit_status}"
    raise VerifierError(f"the process that runs the tests {how}: {_shown(exchange.tests)}")


def _ending(answer: Side, cpu_seconds: float) -> str | None:
    """How the answer's process ended, if that is why the answer failed; else None."""
    if answer.broke:
        return f"its sandbox broke, twice in a row: {answer.broke}"
    if answer.is_flood:
        return f"its process was ended for what it wrote to its standard error: {_shown(answer)}"
    candidate = answer.finished
    if candidate is None or candidate.exit_status == 0:
        return None
    if candidate.timed_out:
        return f"it took over {WALL_FACTOR * cpu_seconds:g} s"
    if candidate.used_up_its_cpu:
        return f"it took over {cpu_seconds:g} s of CPU"
    if candidate.out_of_memory:
        return "it used up its memory"
    return f"its process ended with exit status {candidate.exit_status}: {_shown(answer)}"


def _shown(side: Side) -> str:
    return side.errors.decode(errors="replace").strip()[-SHOWN:]
