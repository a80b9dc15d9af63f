"""`Swe`: a problem in a repository, solved in its container; hidden tests run in a fresh container."""

import base64
import hashlib
import json
import logging
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
from pydantic import JsonValue

from rollouthub import (
    BadRow,
    Deadlines,
    EnvironmentConfig,
    Message,
    Public,
    Score,
    Secret,
    Submission,
    Task,
    ToolRequest,
)
from rollouthub.authoring.sandbox_state import bring_back, changes_of
from rollouthub.errors import SandboxError, SandboxOverrun, VerifierError
from rollouthub.messages import assistant
from rollouthub.sandbox import MIB, CommandNotStarted, File, Sandbox, SandboxFileError, SandboxSpec, folders_above
from rollouthub.score import UNKEEPABLE, CollectedArtifacts, KeptArtifact
from rollouthub_servers.swe.agent_changes import bring, crossing
from rollouthub_servers.swe.agent_image import agent_image
from rollouthub_servers.swe.final_diff import DIFF, difference
from rollouthub_servers.swe.runners import NotRun, TestRun
from rollouthub_servers.swe.swe_row import SweConfig, SweSecret, make_task, patched, spec_of
from rollouthub_servers.terminal.image_baseline import untouched
from rollouthub_servers.terminal.tests_output import SHOWN
from rollouthub_servers.terminal.timeouts import AROUND_CALL, AROUND_TESTS, MOST_RUNS
from rollouthub_servers.terminal.workbench import Workbench

logger = logging.getLogger(__name__)

_APPLY = "git apply {reverse}--whitespace=nowarn {file} 2>&1 || patch {reverse}-p1 --batch < {file}"
_PATCH = "/tmp/swe.patch"
MOST_CHANGED = 50_000
"""Most paths that an agent may change, since each is examined and copied."""
_NOT_RUN = (NotRun, SandboxOverrun, SandboxFileError, CommandNotStarted)
"""Errors that mean that the content of the sandbox kept the tests from running."""


_Changes = tuple[list[File], list[str], list[str]]
"""The files to copy, the paths held back, and the paths that the agent removed."""


class Swe(Workbench[SweConfig]):
    """Mend a repository in its container; hidden tests that failed must pass, and those that passed still do."""

    scores_states = True
    _graded: _Changes | None = None
    """The changes that are graded, once the agent's time is over."""

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """The splits of the data set."""
        assert isinstance(config, SweConfig)
        return config.rows().splits()

    @classmethod
    def tasks(cls, config: SweConfig, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        """One task per row, in the order of the file."""
        return config.tasks(split, make_task)

    @classmethod
    def deadlines(cls, config: SweConfig) -> Deadlines:
        """Deadlines for the agent's longest command, and for repeated runs of the tests."""
        usual = Deadlines()
        call = max(usual.tool_call, config.most_command_seconds + AROUND_CALL)
        return Deadlines(tool_call=call, verify=max(usual.verify, MOST_RUNS * config.test_seconds + AROUND_TESTS))

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """All modules of this package and of `terminal`, on which it is built."""
        here = Path(__file__).parent
        return [*sorted(here.rglob("*.py")), *sorted((here.parent / "terminal").rglob("*.py"))]

    @property
    def _secret(self) -> SweSecret:
        secret = self.task.secret
        assert isinstance(secret, SweSecret)
        return secret

    def sandbox_spec(self) -> SandboxSpec:
        """The container of the task's repository, without what its image has of tests and answers."""
        return spec_of(self._secret, self.config, agent_image(self._secret))

    @property
    def _grading_spec(self) -> SandboxSpec:
        return spec_of(self._secret, self.config, self._secret.image)

    @property
    def agent_environment(self) -> dict[str, str]:
        """In a published image, the variables of the repository's environment."""
        return dict(self._secret.variables)

    def _run_of(self, fresh: Sandbox) -> TestRun:
        return TestRun(self._secret, fresh, self.config.test_seconds)

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """None: a message without a call ends the episode."""
        return None

    def reference(self) -> Sequence[Message]:
        """Apply the known patch; empty where the row has none."""
        secret = self._secret
        if not secret.patch:
            return ()
        data = base64.encodebytes(secret.patch.encode()).decode()
        apply = _apply("$file", is_reversed=secret.is_reversed)
        command = (
            f"cd {shlex.quote(secret.repository)}; file=$(mktemp); base64 -d > $file <<'END'\n{data}END\n"
            f"{apply}\nstatus=$?; rm -f $file; exit $status"
        )
        request = ToolRequest(id="reference-1", name="bash", arguments=json.dumps({"command": command}))
        return (assistant("", request), assistant("Done."))

    @classmethod
    def has_reference(cls, task: Task[Public, Secret]) -> bool:
        """Whether the row has a patch."""
        assert isinstance(task.secret, SweSecret)
        return bool(task.secret.patch)

    async def snapshot(self) -> JsonValue:
        """The agent's changes in the container.

        Raises:
            SandboxFileError: they are too large, or contain links or devices.
        """
        return await changes_of(self.sandbox, max_bytes=self.config.changed_mb * MIB)

    async def restore(self, state: JsonValue) -> None:
        """Make the changes of a snapshot in a fresh container."""
        root = "0" if self.sandbox.ref.profile == "root-compat" else None
        await bring_back(self.sandbox, state, user=root)

    async def verify(self, submission: Submission) -> Score:
        """Copy the agent's changes into a fresh container, add the tests, and run them."""
        secret = self._secret
        try:
            kept, held, removed = self._graded or await self._changes()
        except SandboxFileError as error:
            return Score(reward=0.0, passed=False, feedback=f"the changed files cannot be collected: {error}")
        passed, said = await self._tested(kept, removed)
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

    async def collect_artifacts(self, max_bytes: int) -> CollectedArtifacts:
        """The changes that are graded, as a patch, made by the image's git in a fresh container."""
        try:
            self._graded = kept, _, removed = await self._changes()
            if not (kept or removed):
                return CollectedArtifacts([KeptArtifact.of(DIFF, b"")])
            async with self.open_sandbox(self.sandbox_spec()) as fresh:
                patch = await difference(fresh, self._secret.repository, kept, removed)
        except (SandboxFileError, SandboxOverrun) as error:
            return CollectedArtifacts(missing=[f"{UNKEEPABLE}: {DIFF}: {error}"[:300]])
        except (SandboxError, CommandNotStarted) as error:
            return CollectedArtifacts(missing=[f"{DIFF} could not be made: {error}"[:300]])
        return CollectedArtifacts([KeptArtifact.of(DIFF, patch)])

    async def _changes(self) -> _Changes:
        """The changes that are graded.

        Raises:
            SandboxFileError: there are too many changes.
        """
        secret = self._secret
        snapshot = await self.sandbox.snapshot()
        try:
            changed = snapshot.changed
        finally:
            with anyio.CancelScope(shield=True):
                await snapshot.discard()
        if len(changed) > MOST_CHANGED:
            raise SandboxFileError(f"{len(changed):,} paths are changed, more than {MOST_CHANGED:,}", "EFBIG")
        own = (secret.repository, secret.hidden, patched(secret.patch))
        paths, held = await anyio.to_thread.run_sync(crossing, changed, *own)
        found = await self.sandbox.collect(paths, max_bytes=self.config.changed_mb * MIB)
        there = {f"/{file.path}" for file in found}
        wanted, _ = await anyio.to_thread.run_sync(crossing, sorted(there), *own)
        kept, full = set(wanted), folders_above(there)
        removed = [path for path in paths if path not in there and path not in full]
        return [file for file in found if f"/{file.path}" in kept], held, removed

    async def _tested(self, kept: Sequence[File], removed: Sequence[str]) -> tuple[frozenset[str], str]:
        """The tests that pass with the agent's changes, and the runner's output.

        No test counts as passed if the changes keep the tests from running.

        Raises:
            VerifierError: the tests cannot be run without the changes either.
            SandboxError: two sandboxes broke, and their provider does not blame what ran in them.
        """
        try:
            try:
                return await self._run_with(kept, removed)
            except _NOT_RUN:
                raise
            except SandboxError as error:
                logger.warning("the tests of task %r are tried again, as their sandbox broke: %s", self.task.id, error)
            return await self._run_with(kept, removed)
        except _NOT_RUN as error:
            why: Exception = error
        await self._see_that_it_runs()
        return frozenset(), f"the changes keep the tests from being run: {why}"

    async def _run_with(self, kept: Sequence[File], removed: Sequence[str]) -> tuple[frozenset[str], str]:
        async with self.open_sandbox(self._grading_spec) as fresh:
            tests = await self._place_tests(fresh)
            await bring(fresh, kept, removed)
            await fresh.place(tests, "/")  # again, where a folder above them was changed
            return await self._run_of(fresh).results()

    async def _see_that_it_runs(self) -> None:
        """Check that the tests run without the agent's changes; a success is remembered.

        Raises:
            VerifierError: they do not run, so the agent is not to blame.
        """
        secret, spec = self._secret, self._grading_spec
        asked = f"{vars(secret)}|{self.config.test_seconds}|{spec.model_dump_json()}"
        known = untouched(hashlib.sha256(asked.encode()).hexdigest())
        async with known.lock:
            if known.is_tried:
                return
            try:
                async with self.open_sandbox(spec) as fresh:
                    await self._place_tests(fresh)
                    if secret.patch:
                        await self._patch(fresh, secret.patch, is_reversed=secret.is_reversed)
                    await self._run_of(fresh).results()
            except _NOT_RUN as error:
                # Without a known solution, the code that is to be mended may be what hangs.
                if secret.patch or not isinstance(error, NotRun) or not error.timed_out:
                    raise VerifierError(f"the tests cannot be run as asked: {error}", retryable=False) from None
            known.is_tried = True

    async def _place_tests(self, fresh: Sandbox) -> list[File]:
        """Put the bug and the tests into a fresh sandbox; returns the tests' files."""
        secret = self._secret
        files = [File(path, text.encode()) for path, text in secret.test_files.items()]
        await fresh.place(files, secret.repository)
        if name := secret.tests_folder:
            command = f"if [ -d /{name} ]; then rm -rf {name} && mv /{name} {name}; fi"
            await fresh.exec(["/bin/sh", "-c", command], cwd=secret.repository)
        for patch, what in ((secret.bug, "with the bug"), (secret.test_patch, "with the tests")):
            said = await self._patch(fresh, patch) if patch else None
            if said is not None:
                raise VerifierError(f"the patch {what} does not apply: {said}", retryable=False)
        return await fresh.collect([f"{secret.repository}/{path}" for path in sorted(secret.hidden)])

    async def _patch(self, fresh: Sandbox, patch: str, *, is_reversed: bool = False) -> str | None:
        """Apply a patch in the repository; why it does not apply, or None."""
        await fresh.write_file(_PATCH, patch.encode())
        finished = await fresh.exec(_apply(_PATCH, is_reversed=is_reversed), cwd=self._secret.repository)
        return None if finished.exit_status == 0 else finished.stdout.text


def _apply(file: str, *, is_reversed: bool = False) -> str:
    """Shell code that applies a patch, or takes it back."""
    return _APPLY.format(file=file, reverse="-R " if is_reversed else "")


def _share(tests: Sequence[str], passed: frozenset[str]) -> float:
    return sum(test in passed for test in tests) / len(tests) if tests else 1.0
