"""`StepTests`: runs the tests of a step once, in a fresh sandbox or in the agent's own."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import anyio

from rollouthub.errors import SandboxOverrun, VerifierError
from rollouthub.sandbox import CommandNotStarted, Finished, Sandbox, SandboxFileError
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.containers import verifier_folder, verifier_spec, verifier_surroundings, verifier_user
from rollouthub_servers.terminal.harbor import HarborTask, Step
from rollouthub_servers.terminal.harbor.task import TEST_SCRIPT
from rollouthub_servers.terminal.harbor.templates import filled_in
from rollouthub_servers.terminal.health import NotBegun
from rollouthub_servers.terminal.planted_files import NOTHING, Planted, is_suspect, take_out
from rollouthub_servers.terminal.side_cars import Opener
from rollouthub_servers.terminal.step_grade import Grade
from rollouthub_servers.terminal.step_work import StepWork
from rollouthub_servers.terminal.surroundings import surrounded
from rollouthub_servers.terminal.tests_folder import (
    TESTS,
    find_program,
    make_room,
    read_rewards,
    refused_hosts,
    wanting,
)
from rollouthub_servers.terminal.tests_output import shown

IN_PLACE = "in place"
"""Mark of grades for work that was tested in the agent's own sandbox."""


class StepTests:
    """Runs the tests of a task's steps."""

    def __init__(
        self, task: HarborTask, config: TerminalConfig, caller: Callable[[], Mapping[str, str]], open_sandbox: Opener
    ) -> None:
        self._task, self._config, self._caller, self._open = task, config, caller, open_sandbox

    async def run(self, step: Step, work: StepWork) -> Grade:
        """Run the tests once in a fresh sandbox.

        Raises:
            VerifierError: they gave no reward.
            SandboxError: a sandbox broke.
        """
        async with self._fresh(step, work) as (fresh, planted):
            user = verifier_user(self._task, step)
            return replace(await self.run_in(step, fresh, work, user, work.crossed), planted=planted)

    async def run_in(self, step: Step, fresh: Sandbox, work: StepWork, user: str | None, crossed: str) -> Grade:
        """Run the tests in a sandbox that has the work in it.

        Raises:
            VerifierError: they gave no reward.
            SandboxError: the sandbox broke.
        """
        known = await anyio.to_thread.run_sync(self._task.tests, step)
        has_tests = verifier_folder(self._task, step) is not None
        is_live = crossed == IN_PLACE
        try:
            await make_room(fresh, [] if has_tests else known, is_live=is_live)
            if not has_tests:
                await fresh.place(known, TESTS, user="0")
            finished = await self._script(step, fresh, user, is_live=is_live)
            if not is_live or step is self._task.steps[-1]:
                await fresh.stop()
            if finished.timed_out:
                raise VerifierError(
                    f"the tests were not done after {step.section.verifier.timeout_sec:g} s", retryable=False
                )
            said = finished.stdout.text
            refused = refused_hosts(said)
            try:
                rewards = await read_rewards(fresh, finished, known)
            except VerifierError as error:
                if not refused:
                    raise
                raise VerifierError(f"{wanting(refused)}: {error}", retryable=False) from error
        except (SandboxFileError, CommandNotStarted) as error:
            raise VerifierError(f"the tests could not be run: {error}") from error
        files = len(work.artifacts)
        return Grade(rewards, shown(said), NOTHING, crossed, files, refused=refused)

    @asynccontextmanager
    async def image(self, step: Step) -> AsyncGenerator[Sandbox]:
        """A fresh sandbox of the image alone; exceeding its limits is not the agent's fault."""
        try:
            async with self._open(verifier_spec(self._task, step, self._config, self._caller())) as image:
                yield image
        except SandboxOverrun as error:
            raise VerifierError(f"the untouched image cannot be used: {error}", retryable=False) from error

    @asynccontextmanager
    async def _fresh(self, step: Step, work: StepWork) -> AsyncGenerator[tuple[Sandbox, Planted]]:
        """A fresh sandbox with the agent's work in it, and what was removed from that work."""
        spec = verifier_spec(self._task, step, self._config, self._caller())
        around = verifier_surroundings(self._task, step, self._config)
        async with AsyncExitStack() as stack:
            fresh = await stack.enter_async_context(self._open(spec, snapshot=work.snapshot))
            try:
                await stack.enter_async_context(surrounded(fresh, around, self._config, self._open))
            except NotBegun as error:
                raise VerifierError(f"beside the tests: {error}", retryable=False) from error
            await fresh.place(work.artifacts, "/", user="0")
            changed, keeps = work.changed, self._config.keeps_start_files
            if any(is_suspect(path) for path in changed):
                async with self.image(step) as image:
                    planted = await take_out(fresh, image, changed, keeps)
            else:
                planted = await take_out(fresh, None, changed, keeps)
            yield fresh, planted

    async def _script(self, step: Step, fresh: Sandbox, user: str | None, *, is_live: bool) -> Finished:
        verifier = step.section.verifier
        script = f"exec 2>&1; exec bash {TESTS}/{TEST_SCRIPT}"
        if (await find_program(fresh, "bash")) is None:
            script = f"exec 2>&1; exec sh {TESTS}/{TEST_SCRIPT}"
        return await fresh.exec(
            ["/bin/sh", "-c", script],
            user=user,
            environment=self.variables(step),
            timeout_seconds=verifier.timeout_sec,
            output_bytes=64_000,
            keeps_background=is_live,
        )

    def variables(self, step: Step) -> dict[str, str]:
        """The variables that the tests get beside the image's."""
        return filled_in({**self._task.settings.verifier.env, **step.section.verifier.env}, self._caller())
