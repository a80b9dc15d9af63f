"""Grades a step: copies the agent's changes to a fresh container, and runs the tests there."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Protocol

import anyio

from rollouthub.errors import DataError, SandboxError, SandboxOverrun, VerifierError
from rollouthub.sandbox import (
    MIB,
    CommandNotStarted,
    File,
    Finished,
    Sandbox,
    SandboxFileError,
    SandboxSpec,
    Snapshot,
)
from rollouthub_servers.terminal.collect_hooks import HOOKS_BROKE, run_hooks
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.containers import (
    agent_spec,
    agent_user,
    is_in_place,
    is_separate,
    verifier_folder,
    verifier_spec,
    verifier_user,
)
from rollouthub_servers.terminal.harbor import HarborTask, Step
from rollouthub_servers.terminal.harbor.settings import ArtifactEntry
from rollouthub_servers.terminal.harbor.task import TEST_SCRIPT
from rollouthub_servers.terminal.harbor.templates import filled_in
from rollouthub_servers.terminal.image_baseline import Untouched, untouched
from rollouthub_servers.terminal.image_look import TaskTexts, look_into
from rollouthub_servers.terminal.planted_files import NOTHING, Planted, is_suspect, system_files, take_out
from rollouthub_servers.terminal.protected_paths import Protected, topmost
from rollouthub_servers.terminal.reward import Rewards, total
from rollouthub_servers.terminal.step_grade import Grade
from rollouthub_servers.terminal.step_work import ArtifactWork, SnapshotWork, StepWork, programs_changed
from rollouthub_servers.terminal.tests_folder import TESTS, find_program, make_room, read_rewards, refused_hosts

logger = logging.getLogger(__name__)

IN_PLACE = "in place"
"""Mark of grades for work that was tested in the agent's own sandbox."""
PUBLISHED = "/logs/artifacts"
"""Folder that is always copied along with artifacts, declared or not."""
SHOWN = 4_000
_MOST_NAMED = 40
_MOST_TEXT = 1 * MIB
"""Most bytes of a file of the tests that is read for the paths it names."""
_NOT_RUN = (VerifierError, SandboxOverrun, SandboxFileError, CommandNotStarted)
"""Errors that mean that the content of the sandbox may have kept the tests from running."""


class Opener(Protocol):
    """Opens a fresh sandbox."""

    def __call__(
        self, spec: SandboxSpec, *, snapshot: Snapshot | None = None
    ) -> AbstractAsyncContextManager[Sandbox]: ...


class Grader:
    """Runs the tests of a task's steps."""

    def __init__(
        self, task: HarborTask, config: TerminalConfig, caller: Callable[[], Mapping[str, str]], open_sandbox: Opener
    ) -> None:
        self._task, self._config, self._caller, self._open = task, config, caller, open_sandbox

    async def grade(self, step: Step, agent: Sandbox) -> Grade:
        """Grade what the agent left in its sandbox.

        If the tests cannot run on it although they can on the image alone, the agent is to blame: the rewards are 0.

        Raises:
            VerifierError: the tests give no reward on the untouched image either; that is never a 0.
            SandboxOverrun: what the agent left in its own sandbox made that end.
            SandboxError: a sandbox broke, and nothing shows that its content is the cause.
        """
        is_live = is_in_place(self._task, step, self._config)
        grade = await (self._in_place if is_live else self._afresh)(step, agent)
        if grade.refused:
            await self._see_that_tests_can_do_without(grade.refused, step, grade)
        return grade

    async def _afresh(self, step: Step, agent: Sandbox) -> Grade:
        try:
            await agent.stop()
            try:
                await run_hooks(self._task, step, agent)
            except HOOKS_BROKE as error:
                await self._see_that_hooks_run(step)
                return await self._nothing(step, f"the collect hooks cannot be: {error}", "collect hooks")
            if self._takes_artifacts(step):
                return await self._of_artifacts(step, agent)
            try:
                snapshot = await agent.snapshot()
            except SandboxFileError as error:
                return await self._nothing(step, error, "snapshot")
            work = SnapshotWork(snapshot)
            try:
                return await self._of_work(step, agent, work)
            finally:
                await work.discard()
        except DataError as error:
            raise VerifierError(str(error), retryable=False) from error

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
            raise VerifierError(_wanting(known.refused), retryable=False)
        logger.info("the tests of task %r do without %s on its image", self._task.id, ", ".join(hosts))

    async def _in_place(self, step: Step, agent: Sandbox) -> Grade:
        """Run the tests in the agent's sandbox, beside processes it left running, as Harbor does by default."""
        user = verifier_user(self._task, step)
        if user is None and agent_user(self._task, step) is not None:
            user = "0"  # an agent of another name is no reason for tests of that name
        try:
            return await self._tests_in(step, agent, ArtifactWork(), user, IN_PLACE)
        except (VerifierError, SandboxOverrun) as error:
            return await self._nothing(step, error, IN_PLACE)
        except DataError as error:
            raise VerifierError(str(error), retryable=False) from error

    async def _of_artifacts(self, step: Step, agent: Sandbox) -> Grade:
        try:
            files = await self._artifacts(step, agent)
        except SandboxFileError as error:
            return await self._nothing(step, f"the artifacts cannot be collected: {error}", "artifacts")
        return await self._of_work(step, agent, ArtifactWork(files))

    async def _of_work(self, step: Step, agent: Sandbox, work: StepWork) -> Grade:
        """Grade on the image's system, and on the agent's if changed: the lower reward counts."""
        changed = work.changed
        declared = [_absolute(entry.source, agent.workdir) for entry in self._task.artifacts(step)]
        found = await programs_changed(
            await self._protected(step), agent, changed, declared if work.snapshot is None else ()
        )
        quiet, loud = found
        if not (quiet or loud):
            return await self._tried(step, work)
        try:
            base = await work.restored([*quiet, *loud])
        except SandboxFileError as error:
            return await self._nothing(step, error, work.crossed)
        try:
            left = frozenset(base.changed)
            taken = tuple(path for path in changed if path not in left)
            system = topmost(path for path in loud if path not in left)
            if system and self._config.keeps_system:
                grade = await self._tried(step, work)
                return replace(grade, suspect=f"graded on a system that the agent changed: {_some(system)}")
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
        return replace(lower, suspect=why + _some(system))

    def _texts(self, step: Step) -> TaskTexts:
        """The texts that say what a step asks for, and the variables of its tests."""
        tests = [file.data.decode(errors="replace") for file in self._task.tests(step) if len(file.data) <= _MOST_TEXT]
        return TaskTexts(self._task.instruction(step), "\n".join(tests), self._variables(step))

    def _variables(self, step: Step) -> dict[str, str]:
        return filled_in({**self._task.settings.verifier.env, **step.section.verifier.env}, self._caller())

    async def _tried(self, step: Step, work: StepWork, known: Rewards | None = None) -> Grade:
        """Run the tests, again if their sandbox breaks; 0 if they cannot be run, but can on the image alone.

        `known` are the rewards of this work on the image's own system.

        Raises:
            SandboxError: sandboxes broke, and their providers do not blame what ran in them.
        """
        try:
            try:
                return await self._run_in(step, work)
            except _NOT_RUN:
                raise
            except SandboxError as error:
                logger.warning("the tests of task %r are tried again, as their sandbox broke: %s", self._task.id, error)
            return await self._run_in(step, work)
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
                    grade = await self._run_in(step, ArtifactWork())
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
            async with self._open(agent_spec(self._task, self._config, self._caller())) as untouched_one:
                await run_hooks(self._task, step, untouched_one)
        except HOOKS_BROKE as error:
            why = f"the collect hooks cannot be run on the untouched image: {error}"
            raise VerifierError(why, retryable=False) from error

    def _known(self, step: Step) -> Untouched:
        spec = verifier_spec(self._task, step, self._config, self._caller())
        return untouched(f"{self._task.folder}|{self._task.digest}|{step.name}|{spec.model_dump_json()}")

    async def _protected(self, step: Step) -> Protected:
        known = self._known(step)
        async with known.lock:
            if known.protected is None:
                texts = await anyio.to_thread.run_sync(self._texts, step)
                async with self._image(step) as image:
                    known.protected = await look_into(image, verifier_user(self._task, step), texts)
        return known.protected

    async def _run_in(self, step: Step, work: StepWork) -> Grade:
        """Run the tests once in a fresh sandbox.

        Raises:
            VerifierError: they gave no reward.
            SandboxError: a sandbox broke.
        """
        async with self._fresh(step, work) as (fresh, planted):
            user = verifier_user(self._task, step)
            return replace(await self._tests_in(step, fresh, work, user, work.crossed), planted=planted)

    async def _tests_in(self, step: Step, fresh: Sandbox, work: StepWork, user: str | None, crossed: str) -> Grade:
        known = await anyio.to_thread.run_sync(self._task.tests, step)
        has_tests = verifier_folder(self._task, step) is not None
        is_live = crossed == IN_PLACE
        try:
            await make_room(fresh, [] if has_tests else known, is_live=is_live)
            if not has_tests:
                await fresh.place(known, TESTS, user="0")
            finished = await self._run(step, fresh, user, is_live=is_live)
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
                raise VerifierError(f"{_wanting(refused)}: {error}", retryable=False) from error
        except (SandboxFileError, CommandNotStarted) as error:
            raise VerifierError(f"the tests could not be run: {error}") from error
        files = len(work.artifacts)
        return Grade(rewards, said[-SHOWN:], NOTHING, crossed, files, refused=refused)

    @asynccontextmanager
    async def _image(self, step: Step) -> AsyncGenerator[Sandbox]:
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
        async with self._open(spec, snapshot=work.snapshot) as fresh:
            await fresh.place(work.artifacts, "/", user="0")
            changed, keeps = work.changed, self._config.keeps_start_files
            if any(is_suspect(path) for path in changed):
                async with self._image(step) as image:
                    planted = await take_out(fresh, image, changed, keeps)
            else:
                planted = await take_out(fresh, None, changed, keeps)
            yield fresh, planted

    def _takes_artifacts(self, step: Step) -> bool:
        if self._config.crossing != "auto":
            return self._config.crossing == "artifacts"
        asked = is_separate(self._task, step)
        if verifier_folder(self._task, step) is not None:
            return True  # another image: its files and a snapshot's would not fit together
        return bool(self._task.artifacts(step)) and asked is not False

    async def _artifacts(self, step: Step, agent: Sandbox) -> list[File]:
        entries = (*self._task.artifacts(step), ArtifactEntry(source=PUBLISHED))
        sources = {entry.source: _absolute(entry.source, agent.workdir) for entry in entries}
        limit = self._config.artifact_mb * MIB
        found = await agent.collect(sorted(set(sources.values())), max_bytes=limit)
        dropped = [(sources[entry.source], entry.exclude) for entry in entries if entry.exclude]
        kept = [file for file in found if not any(_is_excluded(file, root, patterns) for root, patterns in dropped)]
        return [File(file.path, file.data, file.mode | 0o444) for file in kept]

    async def _run(self, step: Step, fresh: Sandbox, user: str | None, *, is_live: bool) -> Finished:
        verifier = step.section.verifier
        script = f"exec 2>&1; exec bash {TESTS}/{TEST_SCRIPT}"
        if (await find_program(fresh, "bash")) is None:
            script = f"exec 2>&1; exec sh {TESTS}/{TEST_SCRIPT}"
        return await fresh.exec(
            ["/bin/sh", "-c", script],
            user=user,
            environment=self._variables(step),
            timeout_seconds=verifier.timeout_sec,
            output_bytes=64_000,
            keeps_background=is_live,
        )


def _with(grade: Grade, taken: Sequence[str], changed: Sequence[str]) -> Grade:
    """The grade with a record of the paths that were restored before the tests ran."""
    names = {*grade.planted.removed, *(path for path in taken if is_suspect(path))} - {*grade.planted.restored}
    planted = replace(grade.planted, removed=tuple(sorted(names)), system_files=len(system_files(changed)))
    return replace(grade, planted=planted)


def _wanting(hosts: Sequence[str]) -> str:
    return (
        f"the tests need the network ({_some(hosts)}), which they do not have; give it to them alone with "
        "--set verifier_network=bridge"
    )


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return ", ".join(paths[:_MOST_NAMED]) + more


def _absolute(source: str, workdir: str) -> str:
    return str(PurePosixPath(workdir) / source)


def _is_excluded(file: File, root: str, patterns: Sequence[str]) -> bool:
    path = PurePosixPath("/", file.path)
    if not path.is_relative_to(root):
        return False
    names = [*path.relative_to(root).parts, str(path.relative_to(root))]
    return any(fnmatch(name, pattern.rstrip("/")) for name in names for pattern in patterns)
