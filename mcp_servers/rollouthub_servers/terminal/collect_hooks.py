"""Collect hooks: commands of a task that run after the agent, and write artifacts."""

import logging
from collections.abc import Mapping

from rollouthub.errors import SandboxOverrun
from rollouthub.sandbox import CommandNotStarted, Sandbox
from rollouthub_servers.terminal.harbor import HarborTask, Step

HOOKS_BROKE = (SandboxOverrun, CommandNotStarted)
"""Errors that mean that the content of the sandbox kept the hooks from running."""
logger = logging.getLogger(__name__)


async def run_hooks(task: HarborTask, step: Step, sandboxes: Mapping[str, Sandbox]) -> None:
    """Run the hooks of a step in the sandboxes of their services, whatever their exit status.

    Raises:
        SandboxOverrun, CommandNotStarted: the content of the sandbox keeps them from running.
        SandboxError: the sandbox broke.
    """
    own, whole = step.section.verifier, task.settings.verifier
    for hook in own.collect if own is whole else (*whole.collect, *own.collect):
        finished = await sandboxes[hook.service].exec(
            hook.command, user=hook.user, timeout_seconds=hook.timeout_sec, keeps_background=False
        )
        if finished.exit_status != 0:
            logger.warning("a collect hook of task %r ended with %s", task.id, finished.exit_status)
