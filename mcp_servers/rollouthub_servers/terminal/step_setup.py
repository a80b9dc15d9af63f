"""Begins a step of a task: places its files, runs its `setup.sh`, and waits until its health check succeeds."""

import json
import logging

import anyio

from rollouthub.errors import SandboxOverrun
from rollouthub.sandbox import CommandNotStarted, Sandbox, SandboxFileError
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.containers import agent_spec, agent_surroundings, agent_user, is_in_place
from rollouthub_servers.terminal.harbor import HarborTask, Step
from rollouthub_servers.terminal.harbor.templates import MissingVariable, filled_in
from rollouthub_servers.terminal.health import NotBegun, see_that_it_is_healthy
from rollouthub_servers.terminal.image_baseline import untouched
from rollouthub_servers.terminal.oracle import solution_messages
from rollouthub_servers.terminal.side_cars import Opener
from rollouthub_servers.terminal.surroundings import surrounded
from rollouthub_servers.terminal.timeouts import SETUP_SECONDS, acting_seconds

logger = logging.getLogger(__name__)

_FOLDERS = "mkdir -p /logs/agent /logs/artifacts && chmod 0777 /logs/agent /logs/artifacts"


def acting_user(task: HarborTask, step: Step, config: TerminalConfig) -> str | None:
    """The user of the agent's commands in a step; None for the container's own."""
    named = agent_user(task, step)
    return None if named == agent_spec(task, config, config.caller()).user else named


async def prepare(task: HarborTask, sandbox: Sandbox) -> None:
    """Make the usual folders in an agent's new sandbox, and wait for its health check.

    Raises:
        NotBegun: it is not healthy.
        SandboxError: the sandbox broke.
    """
    root = "0" if sandbox.ref.profile == "root-compat" else None  # else an agent goes without
    await sandbox.exec(["/bin/sh", "-c", _FOLDERS], cwd="/", user=root)
    if (check := task.settings.environment.healthcheck) is not None:
        await see_that_it_is_healthy(check, sandbox)


async def begin(task: HarborTask, step: Step, sandbox: Sandbox, user: str | None) -> None:
    """Begin a step in an agent's sandbox.

    Raises:
        NotBegun: its files cannot be placed, its `setup.sh` fails, or its health check does.
        SandboxError: the sandbox broke.
    """
    files = await anyio.to_thread.run_sync(task.workdir_files, step)
    try:
        await sandbox.place(files, sandbox.workdir, user=user)
        if any(file.path == "setup.sh" for file in files):
            done = await sandbox.exec(["bash", "setup.sh"], user=user, timeout_seconds=SETUP_SECONDS)
            if done.exit_status != 0:
                said = done.stderr.text[-500:]
                raise NotBegun(f"setup.sh of step {step.name!r} ended with {done.exit_status}: {said}")
        if step.section.healthcheck is not None:
            await see_that_it_is_healthy(step.section.healthcheck, sandbox)
    except (SandboxFileError, CommandNotStarted) as error:
        raise NotBegun(f"step {step.name!r} cannot be set up: {error}") from error


class StepRehearsal:
    """Finds out whether a step can begin without the agent; each step is tried once in a process."""

    def __init__(self, task: HarborTask, config: TerminalConfig, open_sandbox: Opener) -> None:
        self._task, self._config, self._open = task, config, open_sandbox

    async def can_begin(self, step: Step) -> bool:
        """Whether a step begins in a container that no agent was in.

        The steps before it are begun there, too; if that does not do, they are also solved where the task says how.

        Raises:
            SandboxError: a sandbox broke.
        """
        spec = agent_spec(self._task, self._config, self._config.caller())
        known = untouched(f"{self._task.folder}|{self._task.digest}|begin {step.name}|{spec.model_dump_json()}")
        async with known.lock:
            if known.can_begin is None:
                known.can_begin = await self._begins(step, solves=False) or await self._begins(step, solves=True)
        return known.can_begin

    async def _begins(self, step: Step, *, solves: bool) -> bool:
        spec = agent_spec(self._task, self._config, self._config.caller())
        try:
            around = agent_surroundings(self._task, self._config)
            async with self._open(spec) as sandbox, surrounded(sandbox, around, self._config, self._open):
                await prepare(self._task, sandbox)
                for each in self._task.steps:
                    await begin(self._task, each, sandbox, acting_user(self._task, each, self._config))
                    if each is step:
                        return True
                    if solves:
                        await self._solve(each, sandbox)
                    if not is_in_place(self._task, each, self._config):
                        await sandbox.stop()
        except (NotBegun, MissingVariable, SandboxOverrun, CommandNotStarted) as error:
            logger.info("step %r of task %r does not begin without its agent: %s", step.name, self._task.id, error)
        return False

    async def _solve(self, step: Step, sandbox: Sandbox) -> None:
        seconds = acting_seconds(self._task, step)
        variables = filled_in(self._task.settings.solution.env, self._config.caller())
        files = self._task.solution(step)
        if not files:
            raise NotBegun(f"step {step.name!r} has no solution")
        for message in solution_messages(files, sandbox.workdir, seconds):
            for request in message.tool_requests:
                await sandbox.exec(
                    ["bash", "-c", json.loads(request.arguments)["command"]],
                    user=acting_user(self._task, step, self._config),
                    environment=variables,
                    timeout_seconds=seconds,
                )
