"""`Wall`: what separates the server process of an installed environment from this machine."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from rollouthub.hosting.wall.view import View
from rollouthub.plugins.components import component

logger = logging.getLogger(__name__)

WallKind = Literal["container", "bubblewrap"]
WallChoice = Literal["auto", "container", "bubblewrap", "none"]
"""`auto` is a container if an engine answers, else bubblewrap if that works, else none, with a warning."""
WalledBy = Literal["auto", "container", "bubblewrap"]
COMPONENT = "environment_wall"
PREFIX = "rollouthub-wall-"
"""Beginning of the names of folders for sockets."""


class Enclosed(Protocol):
    """A server's command behind a wall."""

    @property
    def command(self) -> tuple[str, ...]:
        """The command that starts it; stdin, stdout and stderr are the server's."""
        ...

    def process(self, started: int) -> int | None:
        """The pid of a process that all behind the wall are below, given that of the command; None if not known."""
        ...


class Wall(Protocol):
    """One kind of wall that works on this machine."""

    @property
    def kind(self) -> WallKind: ...

    def enclosed(
        self, command: Sequence[str], view: View, folder: Path, variables: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Enclosed]:
        """Put a command behind the wall: it sees what `view` says, and `folder`, where both sides make sockets.

        After the context, no process of it lives.

        Raises:
            ConfigError: the wall cannot be built around this view.
        """
        ...


async def open_wall(choice: WallChoice) -> Wall | None:
    """The wall for servers of installed environments; None where the choice is `none`, or `auto` finds none.

    Raises:
        ConfigError: the chosen one does not work on this machine.
    """
    if choice == "none":
        return None
    find: Callable[[WallChoice], Awaitable[Wall | str]] = component(COMPONENT)
    found = await find(choice)
    if isinstance(found, str):
        _warn(found)
        return None
    return found


@cache
def _warn(why: str) -> None:
    """Warn once of each reason for which there is no wall."""
    logger.warning(
        "installed environments run without a wall, as processes that read what you read: %s. With bubblewrap "
        "(`apt-get install bubblewrap`) or a container engine they have one; --trust says that they need none",
        why,
    )
