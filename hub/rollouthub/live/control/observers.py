"""What looks on while a run plays: curves, metrics, and who times the code that blocks."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rollouthub.engine.plan import Plan
from rollouthub.engine.run import Observer
from rollouthub.engine.run_control import LiveRun
from rollouthub.event_loop import watched_loop
from rollouthub.hosting.image_progress import told_to
from rollouthub.models.credentials import Credentials
from rollouthub.telemetry.trackers.tracked_run import Tracking, tracked


@asynccontextmanager
async def observed(
    plan: Plan,
    directory: Path,
    observer: Observer,
    *,
    is_resumed: bool,
    credentials: Credentials,
    live: LiveRun,
    note: Callable[[str], None],
    warn: Callable[[str], None],
    elsewhere: str = "",
) -> AsyncGenerator[tuple[Observer, Tracking]]:
    """Draw and expose a run as it asks for, while it is played within; what is yielded observes it.

    `note` hears what is going on, `warn` what is wrong, a line at a time; `elsewhere` is the advice to the author of a
    method that blocks the event loop.

    Raises:
        UsageError: a tracker is unknown or not installed, or the address of the metrics cannot be had.
    """
    async with AsyncExitStack() as stack:
        tracking = await stack.enter_async_context(
            tracked(
                plan.request.track,
                directory,
                observer,
                is_resumed=is_resumed,
                note=warn,
                redact=credentials.redact,
            )
        )
        looking: Observer = tracking
        if plan.request.metrics is not None:
            from rollouthub.telemetry.metrics.metrics_endpoint import (  # prometheus_client and a server of HTTP
                TOKEN_VARIABLE,
                monitored,
            )

            token = credentials.key(TOKEN_VARIABLE)
            exposing = monitored(plan.request.metrics, live, tracking, token=token, note=note)
            looking = await stack.enter_async_context(exposing)
        stack.enter_context(watched_loop(warn, elsewhere=elsewhere))
        stack.enter_context(told_to(note))
        yield looking, tracking
