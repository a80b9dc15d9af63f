"""Seals an episode's environment once: kills the agent's programs in the sandbox and runs the environment's own
`seal`.
"""

import logging
from collections.abc import Callable
from typing import Any

import anyio

from rollouthub.environment import Environment
from rollouthub.errors import SandboxError, TaskError
from rollouthub.event_loop import call_hook
from rollouthub.rollout import Phase
from rollouthub.sandbox import Sandbox

logger = logging.getLogger(__name__)


class WorldSeal:
    """Seals one episode's environment within `seconds`; a failure is recorded as a fault, not raised."""

    def __init__(self, environment: Environment[Any], seconds: float) -> None:
        self._environment, self._seconds = environment, seconds
        self._lock: anyio.Lock | None = None
        self._is_applied = False

    async def apply(
        self, sandbox: Sandbox | None, record_fault: Callable[[Exception, Phase], None], *, stops_sandbox: bool
    ) -> None:
        """Kill what runs in the sandbox, and run the environment's `seal`; a second call waits for the first."""
        self._lock = self._lock or anyio.Lock()
        with anyio.CancelScope(shield=True):
            async with self._lock:
                if self._is_applied:
                    return
                self._is_applied = True
                try:
                    with anyio.move_on_after(self._seconds) as scope:
                        if sandbox is not None and stops_sandbox and self._environment.stops_at_seal:
                            await sandbox.stop()
                        await call_hook(self._environment.seal)
                except Exception as error:
                    logger.exception("the seal of task %r failed", self._environment.task.id)
                    record_fault(error, "agent")
                else:
                    if scope.cancelled_caught:
                        record_fault(await self._why_slow(sandbox), "agent")

    async def _why_slow(self, sandbox: Sandbox | None) -> Exception:
        """The error to record for a seal that was not done in time: the sandbox's error if it broke meanwhile."""
        if sandbox is not None and not sandbox.is_alive:
            try:
                await sandbox.stop()
            except SandboxError as error:
                return error
        return TaskError(f"seal was not done after {self._seconds:g} s")
