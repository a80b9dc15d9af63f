"""`Swe`: a problem in a repository, solved in its container; hidden tests run in a fresh one."""

import base64
import json
import secrets
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import anyio

from envhub import BadRow, EnvironmentConfig, Message, Public, Score, Secret, Submission, Task, ToolRequest
from envhub.errors import VerifierError
from envhub.messages import assistant
from envhub.sandbox import MIB, CommandNotStarted, File, Finished, Sandbox, SandboxFileError, SandboxSpec
from envhub_servers.swe.crossing import crossing
from envhub_servers.swe.report import files_of, in_report, passed_tests
from envhub_servers.swe.row import SweConfig, SweSecret, make_task, patched, spec_of
from envhub_servers.terminal.workbench import Workbench

_APPLY = "git apply --whitespace=nowarn {file} 2>&1 || patch -p1 --batch < {file}"
_CUT_SHORT = "the tests ended before they had all run"
SHOWN = 4_000
_AT_ONCE = 200
"""Paths in one command: it has a longest length."""


class _NotRun(Exception):
    """The tests did not come to run, by the fault of the code they import or by their own."""


class Swe(Workbench[SweConfig]):
    """Mend a repository in its container; hidden tests that failed must pass, and those that passed still do."""

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """Those of the data set."""
        assert isinstance(config, SweConfig)
        return config.rows().splits()

    @classmethod
    def tasks(cls, config: SweConfig, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        """A task a row, in the order of the file."""
        return config.tasks(split, make_task)

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """This package and the tools it is made of."""
        here = Path(__file__).parent
        return [*sorted(here.rglob("*.py")), *sorted((here.parent / "terminal").rglob("*.py"))]

    @property
    def _secret(self) -> SweSecret:
        secret = self.task.secret
        assert isinstance(secret, SweSecret)
        return secret

    def sandbox_spec(self) -> SandboxSpec:
        """The container of the task's repository."""
        return spec_of(self._secret, self.config)

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Nobody answers: the agent is done."""
        return None

    def reference(self) -> Sequence[Message]:
        """Apply the known patch; empty where the row has none."""
        secret = self._secret
        if not secret.patch:
            return ()
        data = base64.encodebytes(secret.patch.encode()).decode()
        apply = _APPLY.format(file="$file")
        command = (
            f"cd {shlex.quote(secret.repository)}; file=$(mktemp); base64 -d > $file <<'END'\n{data}END\n"
            f"{apply}\nstatus=$?; rm -f $file; exit $status"
        )
        request = ToolRequest(id="reference-1", name="bash", arguments=json.dumps({"command": command}))
        return (assistant("", request), assistant("Done."))

    async def verify(self, submission: Submission) -> Score:
        """Carry the agent's changes into a fresh container, put the tests there, and run them."""
        secret = self._secret
        try:
            kept, held, removed = await self._changes()
            async with self.open_sandbox(self.sandbox_spec()) as fresh:
                tests = await self._place_tests(fresh)
                await _bring(fresh, kept, removed)
                await fresh.place(tests, "/")  # again, where a folder above them was changed
                try:
                    passed, said = await self._results(fresh)
                except _NotRun as error:
                    await self._see_that_it_runs()
                    passed, said = frozenset[str](), f"the changes keep the tests from being run: {error}"
        except (SandboxFileError, CommandNotStarted) as error:
            raise VerifierError(f"the tests could not be run: {error}") from error
        wanted = (*secret.fail_to_pass, *secret.pass_to_pass)
        failed = [test for test in wanted if test not in passed]
        if held:
            said = f"held back, as tests or their settings: {', '.join(held)}\n{said}"
        if failed:
            said = f"not passed: {', '.join(failed)}\n{said}"
        return Score(
            reward=float(not failed),
            passed=not failed,
            metrics={
                "fail_to_pass": _share(secret.fail_to_pass, passed),
                "pass_to_pass": _share(secret.pass_to_pass, passed),
                "changed_files": float(len(kept) + len(removed)),
                "held_back_files": float(len(held)),
            },
            feedback=said[: 2 * SHOWN],
        )

    async def _changes(self) -> tuple[list[File], list[str], list[str]]:
        """The files that cross, the paths held back, and the paths that the agent removed."""
        secret = self._secret
        snapshot = await self.sandbox.snapshot()
        try:
            changed = snapshot.changed
        finally:
            with anyio.CancelScope(shield=True):
                await snapshot.discard()
        paths, held = crossing(changed, secret.repository, secret.hidden, patched(secret.patch))
        try:
            found = await self.sandbox.collect(paths, max_bytes=self.config.changed_mb * MIB)
        except SandboxFileError as error:
            raise VerifierError(f"the changed files cannot be collected: {error}", retryable=False) from error
        there = {f"/{file.path}" for file in found}
        wanted, _ = crossing(sorted(there), secret.repository, secret.hidden, patched(secret.patch))
        removed = [path for path in paths if not any(each == path or each.startswith(f"{path}/") for each in there)]
        return [file for file in found if f"/{file.path}" in wanted], held, removed

    async def _see_that_it_runs(self) -> None:
        """Run the tests without the agent's changes, on the known solution where there is one.

        Raises:
            VerifierError: they cannot be run there either, so it is not the agent's doing.
        """
        secret = self._secret
        async with self.open_sandbox(self.sandbox_spec()) as fresh:
            await self._place_tests(fresh)
            if secret.patch:
                await fresh.write_file("/tmp/known.patch", secret.patch.encode())
                await fresh.exec(_APPLY.format(file="/tmp/known.patch"), cwd=secret.repository)
            try:
                await self._results(fresh)
            except _NotRun as error:
                raise VerifierError(f"the tests cannot be run as asked: {error}", retryable=False) from None

    async def _place_tests(self, fresh: Sandbox) -> list[File]:
        """Put the tests into a sandbox of the image alone; their files."""
        secret = self._secret
        files = [File(path, text.encode()) for path, text in secret.test_files.items()]
        await fresh.place(files, secret.repository)
        if secret.test_patch:
            await fresh.write_file("/tmp/tests.patch", secret.test_patch.encode())
            finished = await fresh.exec(_APPLY.format(file="/tmp/tests.patch"), cwd=secret.repository)
            if finished.exit_status != 0:
                raise VerifierError(f"the patch with the tests does not apply: {finished.stdout.text}", retryable=False)
        return await fresh.collect([f"{secret.repository}/{path}" for path in sorted(secret.hidden)])

    async def _results(self, fresh: Sandbox) -> tuple[frozenset[str], str]:
        """Those of the tests that pass, and what the runner said."""
        return await (self._run_pytest(fresh) if "pytest" in self._secret.test_command else self._run_plain(fresh))

    async def _run_tests(self, fresh: Sandbox, command: str) -> Finished:
        finished = await fresh.exec(
            ["/bin/sh", "-c", f"exec 2>&1; {command}"],
            cwd=self._secret.repository,
            environment={"PYTHONDONTWRITEBYTECODE": "1"},
            timeout_seconds=self.config.test_seconds,
            keeps_background=False,
        )
        if finished.exit_status in (126, 127):
            raise _NotRun(f"the tests' command ended with {finished.exit_status}: {finished.stdout.text[-500:]}")
        return finished

    async def _run_pytest(self, fresh: Sandbox) -> tuple[frozenset[str], str]:
        """Run the files of all tests, and read what the runner reports; one that is ended early reports nothing."""
        secret = self._secret
        tests = (*secret.fail_to_pass, *secret.pass_to_pass)
        folder = f"/tmp/{secrets.token_hex(16)}"
        files = " ".join(shlex.quote(file) for file in files_of(tests))
        options = f"-p no:cacheprovider --junitxml={folder}/report.xml"
        command = f"mkdir -m 700 {folder} && {secret.test_command} {options} {files}"
        finished = await self._run_tests(fresh, command)
        await fresh.stop()
        said = finished.stdout.text[-SHOWN:]
        if finished.timed_out:
            return frozenset(), f"the tests were not done after {self.config.test_seconds:g} s\n{said}"
        if finished.exit_status in (3, 4):
            raise _NotRun(f"pytest ended with {finished.exit_status}: {said}")
        try:
            report = await fresh.read_file(f"{folder}/report.xml", max_bytes=64 * MIB, follows_links=False)
        except SandboxFileError:
            return frozenset(), f"{_CUT_SHORT}\n{said}"
        good = passed_tests(report)
        return frozenset(test for test in tests if in_report(test) in good), said

    async def _run_plain(self, fresh: Sandbox) -> tuple[frozenset[str], str]:
        """Run each group of tests; the exit status of the runner says whether all of them passed."""
        secret = self._secret
        passed: set[str] = set()
        said = ""
        for group in (secret.fail_to_pass, secret.pass_to_pass):
            if not group:
                continue
            names = " ".join(shlex.quote(test) for test in group)
            command = secret.test_command
            command = command.replace("{tests}", names) if "{tests}" in command else f"{command} {names}"
            finished = await self._run_tests(fresh, command)
            said += finished.stdout.text[-SHOWN // 2 :]
            if finished.exit_status == 0:
                passed |= set(group)
        return frozenset(passed), said


async def _bring(fresh: Sandbox, kept: Sequence[File], removed: Sequence[str]) -> None:
    """Make an agent's changes in a fresh sandbox, also where a file took a folder's place or a folder a file's."""
    paths = [f"/{file.path}" for file in kept]
    above = sorted({str(parent) for path in paths for parent in PurePosixPath(path).parents})
    gone = [*removed, *paths]
    for script, each in (
        ('rm -rf -- "$@"', gone),
        ('for path; do if [ ! -d "$path" ]; then rm -f -- "$path"; fi; done', above),
    ):
        for start in range(0, len(each), _AT_ONCE):
            await fresh.exec(["/bin/sh", "-c", script, "change", *each[start : start + _AT_ONCE]], cwd="/")
    await fresh.place(kept, "/")


def _share(tests: Sequence[str], passed: frozenset[str]) -> float:
    return sum(test in passed for test in tests) / len(tests) if tests else 1.0
