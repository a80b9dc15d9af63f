"""Health checks: commands that must succeed in a container before anybody works in it."""

import anyio

from rollouthub.sandbox import Sandbox
from rollouthub_servers.terminal.harbor.settings import Healthcheck


class NotBegun(Exception):
    """A step cannot begin with what is in the sandbox; the message says why."""


async def see_that_it_is_healthy(check: Healthcheck, sandbox: Sandbox, what: str = "the container") -> None:
    """Wait for a health check.

    Raises:
        NotBegun: it has failed too often.
        SandboxError: the sandbox broke.
    """
    grace = anyio.current_time() + check.start_period_sec
    failures = 0
    while True:
        in_grace = anyio.current_time() < grace
        done = await sandbox.exec(
            ["/bin/sh", "-c", check.command], timeout_seconds=check.timeout_sec, keeps_background=True
        )
        if done.exit_status == 0:
            return
        failures += not in_grace
        if failures >= check.retries:
            said = (done.stderr.text or done.stdout.text)[-500:]
            raise NotBegun(f"{what} is not healthy after {failures} checks: {said}")
        await anyio.sleep(check.start_interval_sec if in_grace else check.interval_sec)
