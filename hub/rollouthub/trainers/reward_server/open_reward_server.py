"""A reward server, from its environments and scorer to its socket, until it is told to leave."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError, first_error
from rollouthub.frozen import Frozen
from rollouthub.hosting.server.control_socket import authority
from rollouthub.http.listener import bind_tcp, listening
from rollouthub.http.loopback import is_local_host, local_guard
from rollouthub.models.credentials import Credentials
from rollouthub.trainers.reward_server.image_scorer import ImageScorer, open_image_scorer
from rollouthub.trainers.reward_server.reward_routes import RewardHttp
from rollouthub.trainers.scorer import open_scorer

TOKEN_VARIABLE = "ROLLOUTHUB_REWARD_TOKEN"
"""Holds the token of a reward server, for the server and for those who ask it."""
LEAVE_SECONDS = 5.0
"""For requests in flight to end once the server is told to leave; less than what stops it waits (`docker stop`: 10)."""


@dataclass(frozen=True)
class RewardOrder:
    """What to serve, and how."""

    request: RunRequest
    """The environments and their settings; none is a server of picture rewards alone."""
    credentials: Credentials
    token: str | None = field(repr=False)
    """None serves everybody who reaches it, on the loopback alone."""
    token_file: Path | None = None
    """Where the token is kept; None where the caller gave it."""
    host: str = "127.0.0.1"
    port: int = 0
    seconds: float = 170.0
    """Most for one request: less than the 180 that OpenRLHF waits."""
    most_requests: int = 64
    """Most requests answered at once."""
    scorer: str | None = None
    """`module:function` or `FILE.py:function` that scores pictures."""
    images: Path | None = None
    """The folder that pictures may be named in."""
    image_requests: int = 1
    """Most requests whose pictures are scored at once."""
    leave_seconds: float = LEAVE_SECONDS


class RewardReady(Frozen):
    """Said when it is up."""

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
    """Serve until `gone` returns; requests in flight get `leave_seconds` to end, and those that do not are told so.

    Raises:
        UsageError: an environment, the scorer, the folder or the address does not hold.
    """
    if not order.host:
        raise ConfigError(
            "--host is empty; give 127.0.0.1 for this machine alone, or 0.0.0.0 for every network it is in"
        )
    if order.token is None and not is_local_host(order.host):
        raise ConfigError(f"a reward server on {order.host} is open to a network; it needs its token (no --no-token)")
    images: ImageScorer | None = None
    try:
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
    except BaseExceptionGroup as group:
        raise first_error(group) from group


@contextmanager
def reward_token(*, is_open: bool) -> Generator[tuple[str | None, Path | None]]:
    """The token: `$ROLLOUTHUB_REWARD_TOKEN`, else a new one in a file that only this user can read, gone with the
    context.

    None where the server is to be open.
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
