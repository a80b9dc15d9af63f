"""Runs hidden tests in a fresh sandbox, and reads which of them passed."""

import json
import secrets
import shlex
from pathlib import Path
from typing import Any, cast

from anyio import to_thread

from rollouthub.event_loop import is_crowded
from rollouthub.sandbox import MIB, Finished, Sandbox, SandboxFileError
from rollouthub_servers.swe.junit_report import files_of, in_report, outcomes_of, passed_tests, sympy_passed
from rollouthub_servers.swe.swe_row import SweSecret
from rollouthub_servers.terminal.tests_output import SHOWN, shown

CUT_SHORT = "the tests ended before they had all run"
_RECORDER = Path(__file__).with_name("recorder.py")
_MOST_REPORT = 64 * MIB
_MOST_NAMES = 500_000
"""Most values of a report in JSON; its tests are one each."""


class NotRun(Exception):
    """The tests could not be run, or did not finish, because of the code under test or their own."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        self.timed_out = timed_out
        super().__init__(message)


class TestRun:
    """Runs a task's hidden tests in a sandbox that contains them and the code."""

    __test__ = False

    def __init__(self, secret: SweSecret, fresh: Sandbox, seconds: float) -> None:
        self._secret, self._fresh, self._seconds = secret, fresh, seconds
        self._tests = (*secret.fail_to_pass, *secret.pass_to_pass)
        self._folder = f"/tmp/{secrets.token_hex(16)}"

    async def results(self) -> tuple[frozenset[str], str]:
        """The tests that pass, and the runner's output.

        Raises:
            NotRun: they could not be run.
        """
        match self._secret.runner:
            case "pytest":
                return await self._pytest()
            case "django":
                return await self._django()
            case "sympy":
                return await self._sympy()
            case "plain":
                return await self._plain()
            case "outcomes":
                return await self._outcomes()

    async def _run(self, command: str) -> Finished:
        shell, prelude = ("bash", f"{self._secret.prelude}\n") if self._secret.prelude else ("/bin/sh", "")
        finished = await self._fresh.exec(
            [shell, "-c", f"exec 2>&1; {prelude}{command}"],
            cwd=self._secret.repository,
            environment={"PYTHONDONTWRITEBYTECODE": "1"},
            timeout_seconds=self._seconds,
            keeps_background=False,
        )
        if finished.timed_out:
            said = self._shown(finished)
            raise NotRun(f"the tests were not done after {self._seconds:g} s\n{said}", timed_out=True)
        if finished.exit_status in (126, 127):
            raise NotRun(f"the tests' command ended with {finished.exit_status}: {self._shown(finished)[-500:]}")
        return finished

    async def _reported(self, command: str, name: str) -> tuple[bytes | None, Finished]:
        """Run a command that writes a report to a folder of its own; the report is None if the command left none."""
        finished = await self._run(f"mkdir -p -m 700 {self._folder} && {command}")
        await self._fresh.stop()
        try:
            return await self._fresh.read_file(
                f"{self._folder}/{name}", max_bytes=_MOST_REPORT, follows_links=False
            ), finished
        except SandboxFileError:
            return None, finished

    async def _pytest(self) -> tuple[frozenset[str], str]:
        """Run the files of all tests with pytest, and read its JUnit report."""
        files = " ".join(shlex.quote(file) for file in files_of(self._tests))
        report, finished = await self._junit(f"{self._secret.test_command} {self._options} {files}")
        if report is None:
            return frozenset(), self._unreported(finished)
        good, expected = await to_thread.run_sync(passed_tests, report)
        kept = good | expected if self._secret.is_published else good
        passed = {test for test in self._secret.fail_to_pass if in_report(test) in good}
        passed |= {test for test in self._secret.pass_to_pass if in_report(test) in kept}
        return frozenset(passed), self._shown(finished)

    async def _outcomes(self) -> tuple[frozenset[str], str]:
        """Run the tests with the image's own program for them; those count that end as they must.

        None counts if another test fails, as in R2E-Gym.
        """
        options = shlex.quote(self._options)
        report, finished = await self._junit(f"export PYTEST_ADDOPTS={options} && {self._secret.test_command}")
        if report is None:
            return frozenset(), self._unreported(finished)
        found, wanted = await to_thread.run_sync(outcomes_of, report), self._secret.outcomes
        others = [test for test, outcome in found.items() if test not in wanted and outcome != "PASSED"]
        if others:
            return frozenset(), f"failed besides: {', '.join(others)}\n{self._shown(finished)}"
        return frozenset(test for test, outcome in wanted.items() if found.get(test) == outcome), self._shown(finished)

    @property
    def _options(self) -> str:
        return f"-p no:cacheprovider --junitxml={self._folder}/report.xml"

    async def _junit(self, command: str) -> tuple[bytes | None, Finished]:
        """Run a command that has pytest write its JUnit report."""
        report, finished = await self._reported(command, "report.xml")
        if finished.exit_status in (3, 4):
            raise NotRun(f"pytest ended with {finished.exit_status}: {self._shown(finished)}")
        return report, finished

    async def _django(self) -> tuple[frozenset[str], str]:
        """Run the tests under the recorder, since Django's runner mixes its output with that of the tests."""
        recorder = f"{self._folder}/recorder.py"
        await self._fresh.write_file(recorder, _RECORDER.read_bytes(), mode=0o644)
        command = f"python {recorder} {self._folder}/report.json {self._secret.test_command} {self._given()}"
        report, finished = await self._reported(command, "report.json")
        if report is None:
            return frozenset(), self._unreported(finished)
        good = await to_thread.run_sync(_recorded, report)
        if good is None:
            return frozenset(), self._unreported(finished)
        return frozenset(test for test in self._tests if good.get(test) is True), self._shown(finished)

    async def _sympy(self) -> tuple[frozenset[str], str]:
        """Run the tests with SymPy's own runner, whose printed lines are the only report."""
        command = f"{self._secret.test_command} {self._given()} > {self._folder}/lines.txt"
        report, finished = await self._reported(command, "lines.txt")
        if report is None:
            return frozenset(), self._unreported(finished)
        text = report.decode(errors="replace")
        good = await to_thread.run_sync(sympy_passed, text)
        return frozenset(test for test in self._tests if test in good), shown(text)

    async def _plain(self) -> tuple[frozenset[str], str]:
        """Run each group of tests; an exit status of 0 means that all tests of the group passed."""
        passed: set[str] = set()
        said = ""
        for group in (self._secret.fail_to_pass, self._secret.pass_to_pass):
            if not group:
                continue
            names = " ".join(shlex.quote(test) for test in group)
            command = self._secret.test_command
            command = command.replace("{tests}", names) if "{tests}" in command else f"{command} {names}"
            finished = await self._run(command)
            said += self._shown(finished)[-SHOWN // 2 :]
            if finished.exit_status == 0:
                passed |= set(group)
        return frozenset(passed), said

    def _given(self) -> str:
        return " ".join(shlex.quote(file) for file in self._secret.test_names)

    def _shown(self, finished: Finished) -> str:
        return shown(finished.stdout.text, self._folder)

    def _unreported(self, finished: Finished) -> str:
        return f"{CUT_SHORT}\n{self._shown(finished)}"


def _recorded(report: bytes) -> dict[str, Any] | None:
    """The tests and results of a report in JSON; None if it is unreadable."""
    try:
        found: Any = None if is_crowded(report, _MOST_NAMES) else json.loads(report)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None
