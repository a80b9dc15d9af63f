"""Grading a step: what the agent made crosses into a fresh container, and only there the tests are put and run."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Protocol

import anyio

from envhub.errors import DataError, VerifierError
from envhub.sandbox import (
    MIB,
    CommandNotStarted,
    File,
    Finished,
    Sandbox,
    SandboxFileError,
    SandboxSpec,
    Snapshot,
)
from envhub_servers.terminal.config import TerminalConfig
from envhub_servers.terminal.harbor import HarborTask, Step
from envhub_servers.terminal.harbor.settings import ArtifactEntry
from envhub_servers.terminal.harbor.task import TEST_SCRIPT
from envhub_servers.terminal.harbor.templates import filled_in
from envhub_servers.terminal.places import is_separate, verifier_folder, verifier_spec, verifier_user
from envhub_servers.terminal.planted import NOTHING, Planted, is_suspect, take_out
from envhub_servers.terminal.reward import REWARD_JSON, REWARD_TEXT, Rewards, parse_json, parse_text

logger = logging.getLogger(__name__)

TESTS, LOGS = "/tests", "/logs/verifier"
PUBLISHED = "/logs/artifacts"
"""Crosses wherever artifacts do, declared or not."""
REWARD_BYTES = 1 * MIB
SHOWN = 4_000
_CLEAN = """
set -e
for folder in /logs {tests}; do
    if [ -h "$folder" ] || {{ [ -e "$folder" ] && [ ! -d "$folder" ]; }}; then rm -f "$folder"; fi
done
rm -rf {clean}
mkdir -p {make} /logs/artifacts /logs/agent
chmod 0777 {make} /logs/artifacts /logs/agent
chmod 0755 /logs
"""


class Opener(Protocol):
    """Opens a fresh sandbox."""

    def __call__(
        self, spec: SandboxSpec, *, snapshot: Snapshot | None = None
    ) -> AbstractAsyncContextManager[Sandbox]: ...


@dataclass(frozen=True)
class Grade:
    """What the tests of a step said."""

    rewards: Rewards
    said: str
    """The end of their output."""
    planted: Planted = NOTHING
    crossed: str = "snapshot"
    files: int = 0
    """Artifacts that crossed."""
    seconds: float = 0.0


class Grader:
    """Runs the tests of a task's steps."""

    def __init__(
        self, task: HarborTask, config: TerminalConfig, caller: Callable[[], Mapping[str, str]], open_sandbox: Opener
    ) -> None:
        self._task, self._config, self._caller, self._open = task, config, caller, open_sandbox

    async def grade(self, step: Step, agent: Sandbox) -> Grade:
        """Grade what the agent left in its sandbox.

        Raises:
            VerifierError: the tests gave no reward; that is never a 0.
            SandboxError: a sandbox broke.
        """
        try:
            known = await anyio.to_thread.run_sync(self._task.tests, step)
            tests = [] if verifier_folder(self._task, step) else known
            async with self._crossed(step, agent) as (fresh, planted, files, crossed):
                await _make_room(fresh, tests)
                if verifier_folder(self._task, step) is None:
                    await fresh.place(tests, TESTS, user="0")
                finished = await self._run(step, fresh)
                await fresh.stop()
                if finished.timed_out:
                    raise VerifierError(
                        f"the tests were not done after {step.section.verifier.timeout_sec:g} s", retryable=False
                    )
                rewards = await _read_rewards(fresh, finished, known)
        except (SandboxFileError, CommandNotStarted) as error:
            raise VerifierError(f"the tests could not be run: {error}") from error
        except DataError as error:
            raise VerifierError(str(error), retryable=False) from error
        return Grade(rewards, finished.stdout.text[-SHOWN:], planted, crossed, files, finished.seconds)

    @asynccontextmanager
    async def _crossed(self, step: Step, agent: Sandbox) -> AsyncGenerator[tuple[Sandbox, Planted, int, str]]:
        """A fresh sandbox with the agent's work in it, and nothing of the agent running."""
        await agent.stop()
        await self._collect_hooks(step, agent)
        spec = verifier_spec(self._task, step, self._config, self._caller())
        if self._takes_artifacts(step):
            files = await self._artifacts(step, agent)
            async with self._open(spec) as fresh:
                await fresh.place(files, "/", user="0")
                yield fresh, NOTHING, len(files), "artifacts"
            return
        snapshot = await agent.snapshot()
        try:
            async with self._open(spec, snapshot=snapshot) as fresh:
                changed = snapshot.changed
                if any(is_suspect(path) for path in changed):
                    async with self._open(spec) as image:
                        planted = await take_out(fresh, image, changed, self._config.keeps_start_files)
                else:
                    planted = await take_out(fresh, None, changed, self._config.keeps_start_files)
                yield fresh, planted, 0, "snapshot"
        finally:
            with anyio.CancelScope(shield=True):
                await snapshot.discard()

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
        try:
            found = await agent.collect(sorted(set(sources.values())), max_bytes=limit)
        except SandboxFileError as error:
            raise VerifierError(f"the artifacts cannot be collected: {error}", retryable=False) from error
        dropped = [(sources[entry.source], entry.exclude) for entry in entries if entry.exclude]
        kept = [file for file in found if not any(_is_excluded(file, root, patterns) for root, patterns in dropped)]
        return [File(file.path, file.data, file.mode | 0o444) for file in kept]

    async def _collect_hooks(self, step: Step, agent: Sandbox) -> None:
        own, whole = step.section.verifier, self._task.settings.verifier
        for hook in own.collect if own is whole else (*whole.collect, *own.collect):
            finished = await agent.exec(
                hook.command, user=hook.user, timeout_seconds=hook.timeout_sec, keeps_background=False
            )
            if finished.exit_status != 0:
                logger.warning("a collect hook of task %r ended with %s", self._task.id, finished.exit_status)

    async def _run(self, step: Step, fresh: Sandbox) -> Finished:
        verifier = step.section.verifier
        variables = filled_in({**self._task.settings.verifier.env, **verifier.env}, self._caller())
        script = f"exec 2>&1; exec bash {TESTS}/{TEST_SCRIPT}"
        if (await _find(fresh, "bash")) is None:
            script = f"exec 2>&1; exec sh {TESTS}/{TEST_SCRIPT}"
        return await fresh.exec(
            ["/bin/sh", "-c", script],
            user=verifier_user(self._task, step),
            environment=variables,
            timeout_seconds=verifier.timeout_sec,
            output_bytes=64_000,
            keeps_background=False,
        )


async def _find(sandbox: Sandbox, program: str) -> str | None:
    finished = await sandbox.exec(["/bin/sh", "-c", f"command -v {program}"], user="0", cwd="/")
    return finished.stdout.text.strip() or None


async def _make_room(fresh: Sandbox, tests: Sequence[File]) -> None:
    """Empty folders for the tests and what they write; whatever the agent put in their places is gone, unfollowed."""
    places = f"{TESTS} {LOGS}" if tests else LOGS
    script = _CLEAN.format(tests=TESTS if tests else "", clean=places, make=places)
    finished = await fresh.exec(["/bin/sh", "-c", script], user="0", cwd="/", keeps_background=False)
    for place in places.split():
        parent = str(PurePosixPath(place).parent)
        kinds = {entry.path.rstrip("/").rpartition("/")[2]: entry.kind for entry in await fresh.list_files(parent)}
        logs = {entry.path.rstrip("/").rpartition("/")[2]: entry.kind for entry in await fresh.list_files("/")}
        is_real = kinds.get(PurePosixPath(place).name) == "directory" and logs.get("logs") == "directory"
        if finished.exit_status != 0 or not is_real or await fresh.list_files(place):
            raise VerifierError(
                f"{place} could not be made ready for the tests: {finished.stderr.text or 'it is not an empty folder'}",
                retryable=False,
            )


async def _read_rewards(fresh: Sandbox, finished: Finished, tests: Sequence[File]) -> Rewards:
    """The reward in the file that the tests speak of: the other may be of the code under test, which they run."""
    files = [(REWARD_JSON, parse_json), (REWARD_TEXT, parse_text)]
    files.sort(key=lambda file: not any(file[0].encode() in test.data for test in tests))
    for name, parse in files:
        try:
            data = await fresh.read_file(f"{LOGS}/{name}", max_bytes=REWARD_BYTES, follows_links=False)
        except SandboxFileError as error:
            if error.reason == "ENOENT":
                continue
            raise VerifierError(f"the reward in {LOGS}/{name} cannot be read: {error}", retryable=False) from error
        return parse(data)
    raise VerifierError(
        f"the tests wrote neither {LOGS}/{REWARD_JSON} nor {REWARD_TEXT} (exit status {finished.exit_status}): "
        f"{finished.stdout.text[-500:]}",
        retryable=False,
    )


def _absolute(source: str, workdir: str) -> str:
    return str(PurePosixPath(workdir) / source)


def _is_excluded(file: File, root: str, patterns: Sequence[str]) -> bool:
    path = PurePosixPath("/", file.path)
    if not path.is_relative_to(root):
        return False
    names = [*path.relative_to(root).parts, str(path.relative_to(root))]
    return any(fnmatch(name, pattern.rstrip("/")) for name in names for pattern in patterns)
