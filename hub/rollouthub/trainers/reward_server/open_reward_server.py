"""Runs a reward server: opens its environments and scorer, listens, and serves until asked to stop."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError, raise_first_error
from rollouthub.hosting.server.control_socket import authority
from rollouthub.http.listener import bind_tcp, listening
from rollouthub.http.loopback import is_local_host, local_guard
from rollouthub.models.credentials import Credentials
from rollouthub.trainers.reward_server.image_scorer import ImageScorer, open_image_scorer
from rollouthub.trainers.reward_server.reward_routes import RewardHttp
from rollouthub.trainers.scorer import open_scorer
from rollouthub.values import Frozen

TOKEN_VARIABLE = "ROLLOUTHUB_REWARD_TOKEN"
"""Environment variable that holds the reward server's token, for the server and for its clients."""
LEAVE_SECONDS = 5.0
"""Seconds that requests in flight have to finish after a stop request; less than `docker stop` waits before it kills
(10).
"""


@dataclass(frozen=True)
class RewardOrder:
    """The settings of a reward server."""

    request: RunRequest
    """The environments and their settings. Without environments the server scores only pictures."""
    credentials: Credentials
    token: str | None = field(repr=False)
    """The token that clients must send. None admits every client, and is allowed on the loopback only."""
    token_file: Path | None = None
    """The file that holds the token; None if the caller supplied it."""
    host: str = "127.0.0.1"
    port: int = 0
    seconds: float = 170.0
    """Time limit of one request in seconds: less than the 180 that OpenRLHF waits."""
    most_requests: int = 64
    """How many requests are answered at once, at most."""
    scorer: str | None = None
    """The function that scores pictures, as `module:function` or `FILE.py:function`."""
    images: Path | None = None
    """The folder that requests may name pictures in; None refuses paths."""
    image_requests: int = 1
    """How many requests have their pictures scored at once, at most."""
    leave_seconds: float = LEAVE_SECONDS


class RewardReady(Frozen):
    """Reported when the server accepts requests."""

    url: str
    environments: tuple[str, ...]
    scorer: str | None
    token_file: str | None


async def serve_rewards(
    order: RewardOrder,
    ready: Callable[[RewardReady], None],
    gone: Callable[[], Awaitable[None]],
    leave_at_once: Callable[[], None],
) -> None:
    """Serve until `gone` returns. Requests in flight then have `leave_seconds` to finish; unfinished ones get an error.

    Raises:
        UsageError: an environment, the scorer, the folder or the address is invalid.
    """
    if not order.host:
        raise ConfigError(
            "--host is empty; give 127.0.0.1 for this machine alone, or 0.0.0.0 for every network it is in"
        )
    if order.token is None and not is_local_host(order.host):
        raise ConfigError(f"a reward server on {order.host} is open to a network; it needs its token (no --no-token)")
    images: ImageScorer | None = None
    async with raise_first_error():
        async with AsyncExitStack() as stack:
            bound = bind_tcp(order.host, order.port)
            stack.callback(bound.close)
            scorer = None
            if order.request.environments:
                opening = open_scorer(request=order.request, credentials=order.credentials)
                scorer = await stack.enter_async_context(opening)
            if order.scorer is not None:
                opened = open_image_scorer(order.scorer, order.images, order.image_requests)
                images = await stack.enter_async_context(opened)
            if scorer is None and images is None:
                raise ConfigError("there is nothing to score with: name an environment, a --scorer of pictures or both")
            application = RewardHttp(
                order.token,
                local_guard(order.host),
                scorer,
                images,
                seconds=order.seconds,
                most_requests=order.most_requests,
            )
            await stack.enter_async_context(listening(application, bound))
            ready(
                RewardReady(
                    url=f"http://{authority(order.host, bound)}",
                    environments=() if scorer is None else scorer.environments,
                    scorer=order.scorer,
                    token_file=None if order.token_file is None else str(order.token_file),
                )
            )
            await gone()
            await application.leave(order.leave_seconds)
        if images is not None and images.is_stuck:
            if order.token_file is not None:
                shutil.rmtree(order.token_file.parent, ignore_errors=True)
            leave_at_once()


@contextmanager
def reward_token(*, is_open: bool) -> Generator[tuple[str | None, Path | None]]:
    """The server's token and its file: `$ROLLOUTHUB_REWARD_TOKEN`, else a new token in a file that only this user can
    read. The file is deleted when the context ends.

    The token is None if the server is to be open.
    """
    given = os.environ.pop(TOKEN_VARIABLE, None)  # what the server starts is not to inherit it
    if is_open or given:
        yield (None if is_open else given), None
        return
    folder = Path(tempfile.mkdtemp(prefix="rollouthub-"))  # for this user alone
    try:
        file, token = folder / "reward.token", secrets.token_urlsafe(32)
        file.touch(mode=0o600)
        file.write_text(token)
        yield token, file
    finally:
        shutil.rmtree(folder, ignore_errors=True)
