"""`Wall`: what separates the server process of an installed environment from this machine."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal, Protocol

from rollouthub.errors import ConfigError
from rollouthub.hosting.wall.view import View
from rollouthub.plugins.components import component
from rollouthub.plugins.installed import Installation, installations

WallKind = Literal["container", "bubblewrap"]
WallChoice = Literal["auto", "container", "bubblewrap", "none"]
"""`auto` is a container if an engine answers, else bubblewrap if that works; none only for what is trusted."""
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


def choice_for(installation: Installation, choice: WallChoice) -> WallChoice:
    """The choice for one environment: `auto` is no wall for one that the user trusts for good."""
    return "none" if choice == "auto" and installation.needs_no_wall else choice


async def open_wall(choice: WallChoice, view: View | None = None) -> Wall | None:
    """The wall for servers of installed environments; None where the choice is `none`.

    With `view`, one behind which a server has what that says.

    Raises:
        ConfigError: the chosen one does not work on this machine, or not for this view; for `auto`, none does.
    """
    if choice == "none":
        return None
    find: Callable[[WallChoice], Awaitable[Wall | str]] = component(COMPONENT)
    found = await find(choice)
    lacking = found if isinstance(found, str) else None if view is None else found.lacks(view)
    if lacking is None:
        assert not isinstance(found, str)
        return found
    name = "an installed environment" if view is None else view.name
    behind = "a wall" if choice == "auto" else f"--wall {choice}"
    raise ConfigError(
        f"{name} cannot be put behind {behind} here: {lacking}. Install bubblewrap (`apt-get install bubblewrap`) or "
        "start Docker or Podman; or let it read and reach what you do, as a plain process: --trust for once"
        + (f", `hub trust add {view.name}` for good" if view is not None and installations().find(view.name) else "")
    )
