"""Grades a step: copies the agent's changes to a fresh container, and runs the tests there."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import anyio

from rollouthub.errors import DataError, SandboxError, SandboxOverrun, VerifierError
from rollouthub.sandbox import MIB, CommandNotStarted, Sandbox, SandboxFileError
from rollouthub_servers.terminal.collect_hooks import HOOKS_BROKE, run_hooks
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.containers import (
    agent_spec,
    agent_surroundings,
    agent_user,
    is_in_place,
    is_separate,
    verifier_folder,
    verifier_spec,
    verifier_user,
)
from rollouthub_servers.terminal.harbor import HarborTask, Step
from rollouthub_servers.terminal.harbor.compose import MAIN
from rollouthub_servers.terminal.health import NotBegun
from rollouthub_servers.terminal.image_baseline import Untouched, untouched
from rollouthub_servers.terminal.image_look import TaskTexts, look_into
from rollouthub_servers.terminal.named_paths import some
from rollouthub_servers.terminal.planted_files import is_suspect, system_files
from rollouthub_servers.terminal.protected_paths import Protected, topmost
from rollouthub_servers.terminal.reward import Rewards, total
from rollouthub_servers.terminal.side_cars import Opener, see_that_they_live
from rollouthub_servers.terminal.step_grade import Grade
from rollouthub_servers.terminal.step_tests import IN_PLACE, StepTests
from rollouthub_servers.terminal.step_work import (
    ArtifactWork,
    SnapshotWork,
    StepWork,
    artifacts_of,
    declared,
    programs_changed,
)
from rollouthub_servers.terminal.surroundings import surrounded
from rollouthub_servers.terminal.tests_folder import wanting
from rollouthub_servers.terminal.timeouts import grading_seconds

logger = logging.getLogger(__name__)

MOST_CHANGED = 200_000
"""Most paths that an agent may change, since each is examined and copied."""
_MOST_RESTORED = 20_000
"""Most paths whose state in the image is restored before the tests run."""
_MOST_PLANTED = 1_000
"""Most files that are examined one by one before the tests run."""
_QUICK = 0.1
"""Share of the time for grading within which an untouched container's work is collected by an engine that keeps up."""
_MOST_QUICK_SECONDS = 60.0
"""Maximum of that time, because the time that tests may take says nothing about an engine."""
_MOST_TEXT = 1 * MIB
"""Most bytes of a file of the tests that is read for the paths it names."""
_NOT_RUN = (VerifierError, SandboxOverrun, SandboxFileError, CommandNotStarted)
"""Errors that mean that the content of the sandbox may have kept the tests from running."""


class Grader:
    """Runs the tests of a task's steps."""

    def __init__(
        self, task: HarborTask, config: TerminalConfig, caller: Callable[[], Mapping[str, str]], open_sandbox: Opener
    ) -> None:
        self._task, self._config, self._caller, self._open = task, config, caller, open_sandbox
        self._tests = StepTests(task, config, caller, open_sandbox)

    async def grade(self, step: Step, agent: Sandbox, beside: Mapping[str, Sandbox]) -> Grade:
        """Grade what the agent left in its sandbox, and in the side-cars beside it.

        If the tests cannot run on it although they can on the image alone, the agent is to blame: the rewards are 0.

        Raises:
            VerifierError: the tests give no reward on the untouched image either; that is never a 0.
            SandboxOverrun: what the agent left in its own sandbox made that end.
            SandboxError: a sandbox broke, and nothing shows that its content is the cause.
        """
        is_live = is_in_place(self._task, step, self._config)
        await see_that_they_live(beside)
        grade = await (self._in_place(step, agent) if is_live else self._afresh(step, agent, beside))
        if grade.refused:
            await self._see_that_tests_can_do_without(grade.refused, step, grade)
        return grade

    async def _afresh(self, step: Step, agent: Sandbox, beside: Mapping[str, Sandbox]) -> Grade:
        try:
            await agent.stop()
            try:
                await run_hooks(self._task, step, {MAIN: agent, **beside})
            except HOOKS_BROKE as error:
                await self._see_that_hooks_run(step)
                return await self._nothing(step, f"the collect hooks cannot be: {error}", "collect hooks")
            return await self._within_time(step, agent, beside)
        except DataError as error:
            raise VerifierError(str(error), retryable=False) from error

    async def _within_time(self, step: Step, agent: Sandbox, beside: Mapping[str, Sandbox]) -> Grade:
        """Grade the agent's work; work that cannot be graded in time scores 0.

        Raises:
            VerifierError: the engine is also slow with an untouched container.
        """
        crossed = "artifacts" if self._takes_artifacts(step) else "snapshot"
        await self._protected(step)  # may build the tests' image first, which must not count as the agent's time
        work: StepWork | None = None
        seconds = grading_seconds(step)
        try:
            with anyio.move_on_after(seconds):
                work = await self._work_of(step, agent, beside)
                return await self._of_work(step, agent, work)
        except SandboxFileError as error:
            return await self._nothing(step, f"the agent's work cannot be collected: {error}", crossed)
        finally:
            if work is not None:
                await work.discard()
        many = "the files" if work is None else f"{len(work.changed):,} changed paths"
        why = f"{many} that the agent left could not be graded within {seconds:g} s"
        await self._see_that_the_engine_keeps_up(step, min(seconds * _QUICK, _MOST_QUICK_SECONDS), why)
        return await self._nothing(step, why, crossed)

    async def _see_that_the_engine_keeps_up(self, step: Step, seconds: float, why: str) -> None:
        """Collect the work of an untouched container.

        Raises:
            VerifierError: that takes longer than `seconds`, so the agent is not to blame for `why`.
        """
        async with self._open(agent_spec(self._task, self._config, self._caller())) as untouched_one:
            with anyio.move_on_after(seconds):
                await (await self._work_of(step, untouched_one, {})).discard()
                return
        raise VerifierError(f"{why}; an untouched container's took longer than {seconds:g} s")

    async def _work_of(self, step: Step, agent: Sandbox, beside: Mapping[str, Sandbox]) -> StepWork:
        if self._takes_artifacts(step):
            return await artifacts_of(self._task, step, agent, beside, self._config.artifact_mb * MIB)
        return SnapshotWork(await agent.snapshot())

    async def _see_that_tests_can_do_without(self, hosts: Sequence[str], step: Step, grade: Grade) -> None:
        """Refuse a reward of 0 from tests that need a network and have none, whatever they are run on.

        Raises:
            VerifierError: the tests try to reach hosts on the untouched image, too, and no work got a reward without
            them.
        """
        known = self._known(step)
        if total(grade.rewards, self._config.reward_key).reward > 0:
            known.is_solved_offline = True
            return
        if verifier_spec(self._task, step, self._config, self._caller()).network != "none":
            return
        await self._on_image(step)
        if known.refused and not known.is_solved_offline:
            raise VerifierError(wanting(known.refused), retryable=False)
        logger.info("the tests of task %r do without %s on its image", self._task.id, ", ".join(hosts))

    async def _in_place(self, step: Step, agent: Sandbox) -> Grade:
        """Run the tests in the agent's sandbox, beside processes it left running, as Harbor does by default."""
        user = verifier_user(self._task, step)
        if user is None and agent_user(self._task, step) is not None:
            user = "0"  # an agent of another name is no reason for tests of that name
        try:
            return await self._tests.run_in(step, agent, ArtifactWork(), user, IN_PLACE)
        except (VerifierError, SandboxOverrun) as error:
            return await self._nothing(step, error, IN_PLACE)
        except DataError as error:
            raise VerifierError(str(error), retryable=False) from error

    async def _of_work(self, step: Step, agent: Sandbox, work: StepWork) -> Grade:
        """Grade on the image's system, and on the agent's if changed: the lower reward counts."""
        changed = work.changed
        if len(changed) > MOST_CHANGED:
            why = f"{len(changed):,} paths are changed, more than {MOST_CHANGED:,}"
            return await self._nothing(step, why, work.crossed)
        wanted = () if work.snapshot is not None else declared(self._task, step, agent.workdir)
        quiet, loud = await programs_changed(await self._protected(step), agent, changed, wanted)
        planted = sum(is_suspect(path) for path in changed)
        if planted > _MOST_PLANTED or len(topmost([*quiet, *loud])) > _MOST_RESTORED:
            return await self._nothing(step, "too many of the changed files could affect the tests", work.crossed)
        if not (quiet or loud):
            return await self._tried(step, work)
        base = await work.restored([*quiet, *loud])
        try:
            left = frozenset(base.changed)
            taken = tuple(path for path in changed if path not in left)
            system = topmost(path for path in loud if path not in left)
            if system and self._config.keeps_system:
                grade = await self._tried(step, work)
                return replace(grade, suspect=f"graded on a system that the agent changed: {some(system)}")
            grade = _with(await self._tried(step, base), taken, changed)
            if not system:
                return grade
            own = await self._tried(step, work, grade.rewards)
        finally:
            if base is not work:
                await base.discard()
        here, there = (total(each.rewards, self._config.reward_key).reward for each in (grade, own))
        if here == there:
            return grade
        why = f"reward {here:g} on the image's system and {there:g} on the one the agent left, which differs in "
        lower = grade if here < there else _with(own, taken, changed)
        return replace(lower, suspect=why + some(system))

    def _texts(self, step: Step) -> TaskTexts:
        """The texts that say what a step asks for, and the variables of its tests."""
        tests = [file.data.decode(errors="replace") for file in self._task.tests(step) if len(file.data) <= _MOST_TEXT]
        return TaskTexts(self._task.instruction(step), "\n".join(tests), self._tests.variables(step))

    async def _tried(self, step: Step, work: StepWork, known: Rewards | None = None) -> Grade:
        """Run the tests, again if their sandbox breaks; 0 if they cannot be run, but can on the image alone.

        `known` are the rewards of this work on the image's own system.

        Raises:
            SandboxError: sandboxes broke, and their providers do not blame what ran in them.
        """
        try:
            try:
                return await self._tests.run(step, work)
            except _NOT_RUN:
                raise
            except SandboxError as error:
                logger.warning("the tests of task %r are tried again, as their sandbox broke: %s", self._task.id, error)
            return await self._tests.run(step, work)
        except _NOT_RUN as error:
            return await self._nothing(step, error, work.crossed, known)

    async def _nothing(self, step: Step, why: object, crossed: str, rewards: Rewards | None = None) -> Grade:
        """Rewards of 0, if the tests cannot run on the agent's work but can on the image alone.

        Raises:
            VerifierError: they cannot run on the image either; `why` itself if it is a VerifierError.
        """
        if rewards is None:
            rewards = await self._on_image(step)
        if rewards is None:
            if isinstance(why, VerifierError):
                raise why
            raise VerifierError(f"the tests could not be run: {why}", retryable=not isinstance(why, SandboxOverrun))
        said = f"the tests could not be run on what the agent left, though they can on the image: {why}"
        return Grade(dict.fromkeys(rewards, 0.0), said, crossed=crossed)

    async def _on_image(self, step: Step) -> Rewards | None:
        """The rewards of the untouched image; None if the tests cannot run there."""
        known = self._known(step)
        async with known.lock:
            if not known.is_tried:
                try:
                    grade = await self._tests.run(step, ArtifactWork())
                    known.rewards, known.refused = grade.rewards, grade.refused
                except _NOT_RUN as error:
                    logger.warning(
                        "the tests of task %r cannot be run on its untouched image: %s", self._task.id, error
                    )
                known.is_tried = True
        return known.rewards

    async def _see_that_hooks_run(self, step: Step) -> None:
        """Run the collect hooks in an untouched sandbox of the agent's image.

        Raises:
            VerifierError: they cannot run there either, so the agent is not to blame.
        """
        try:
            around = agent_surroundings(self._task, self._config)
            async with (
                self._open(agent_spec(self._task, self._config, self._caller())) as untouched_one,
                surrounded(untouched_one, around, self._config, self._open) as beside,
            ):
                await run_hooks(self._task, step, {MAIN: untouched_one, **beside})
        except (*HOOKS_BROKE, NotBegun) as error:
            why = f"the collect hooks cannot be run on the untouched image: {error}"
            raise VerifierError(why, retryable=False) from error

    def _known(self, step: Step) -> Untouched:
        spec = verifier_spec(self._task, step, self._config, self._caller())
        return untouched(f"{self._task.folder}|{self._task.digest}|{step.name}|{spec.model_dump_json()}")

    async def _protected(self, step: Step) -> Protected:
        known = self._known(step)
        if known.protected is not None:
            return known.protected
        async with known.lock:
            if known.protected is None:
                texts = await anyio.to_thread.run_sync(self._texts, step)
                try:
                    async with self._tests.image(step) as image:
                        known.protected = await look_into(image, verifier_user(self._task, step), texts)
                except (SandboxFileError, CommandNotStarted) as error:
                    raise VerifierError(f"the image cannot be looked into: {error}", retryable=False) from error
        return known.protected

    def _takes_artifacts(self, step: Step) -> bool:
        if self._config.crossing != "auto":
            return self._config.crossing == "artifacts"
        asked = is_separate(self._task, step)
        if verifier_folder(self._task, step) is not None:
            return True  # another image: its files and a snapshot's would not fit together
        return bool(self._task.artifacts(step)) and asked is not False


def _with(grade: Grade, taken: Sequence[str], changed: Sequence[str]) -> Grade:
    """The grade with a record of the paths that were restored before the tests ran."""
    names = {*grade.planted.removed, *(path for path in taken if is_suspect(path))} - {*grade.planted.restored}
    planted = replace(grade.planted, removed=tuple(sorted(names)), system_files=len(system_files(changed)))
    return replace(grade, planted=planted)
