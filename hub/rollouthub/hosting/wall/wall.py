"""`Wall`: what separates the server process of an installed environment from this machine."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from rollouthub.errors import ConfigError
from rollouthub.hosting.wall.view import View
from rollouthub.plugins.components import component

logger = logging.getLogger(__name__)

WallKind = Literal["container", "bubblewrap"]
WallChoice = Literal["auto", "container", "bubblewrap", "none"]
"""`auto` is a container if an engine answers, else bubblewrap if that works, else none, with a warning."""
WalledBy = Literal["auto", "container", "bubblewrap"]
COMPONENT = "environment_wall"


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

    def lacks(self, view: View) -> str | None:
        """What a view needs and no server gets behind this wall; None if it has all that it needs."""
        ...

    def enclosed(
        self, command: Sequence[str], view: View, folder: Path, variables: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Enclosed]:
        """Put a command behind the wall: it sees what `view` says, and `folder`, where both sides make sockets.

        After the context, no process of it lives.

        Raises:
            ConfigError: the wall cannot be built around this view.
        """
        ...


async def open_wall(choice: WallChoice, view: View | None = None) -> Wall | None:
    """The wall for servers of installed environments; None where the choice is `none`, or `auto` finds none.

    With `view`, one behind which a server has what that says.

    Raises:
        ConfigError: the chosen one does not work on this machine, or not for this view.
    """
    if choice == "none":
        return None
    find: Callable[[WallChoice], Awaitable[Wall | str]] = component(COMPONENT)
    found = await find(choice)
    if not isinstance(found, str) and view is not None and (lacking := found.lacks(view)) is not None:
        if choice != "auto":
            raise ConfigError(f"{view.name} cannot be put behind --wall {choice}: {lacking}; --trust runs it without")
        found = f"{view.name}: {lacking}"
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
