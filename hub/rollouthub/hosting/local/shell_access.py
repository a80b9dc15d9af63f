"""How a person opens a shell in an episode's sandbox. Only the control plane offers this, never the agent plane."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pydantic import Field

from rollouthub.errors import NotOffered
from rollouthub.sandbox import Container, EnterableSandbox, Sandbox
from rollouthub.values import Frozen

_LABEL_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class WayIn:
    """One way to open a shell in a sandbox."""

    label: str
    """The sandbox's provider, isolation and image."""
    inside: Container | tuple[str, ...]
    """The container to enter, or a command on this machine that opens a shell in the sandbox."""

    @property
    def command(self) -> tuple[str, ...]:
        """The command that opens a shell in the sandbox."""
        return self.inside.shell if isinstance(self.inside, Container) else self.inside


@dataclass(frozen=True, slots=True)
class WaysIn:
    """All ways to open a shell in an episode's sandboxes, or why there is none."""

    ways: tuple[WayIn, ...] = ()
    why_not: str | None = None


@runtime_checkable
class EnterableEpisode(Protocol):
    """An episode that can tell how to open a shell in its sandbox."""

    async def ways_in(self) -> WaysIn:
        """Ways into the sandbox in which the agent's programs run, never into a verifier's."""
        ...


@runtime_checkable
class HousedSeat(Protocol):
    """A seat that knows the sandbox of its agent's program."""

    home: Sandbox | None
    """The agent's own sandbox, in which its program runs; None if it has none."""


class ShellAccess(Frozen):
    """A way in as the control plane sends it: only a container, because a command from a server would be run
    unchecked.
    """

    label: str = Field(max_length=_LABEL_CHARACTERS)
    container: Container


class OfferedShells(Frozen):
    """Answer to `GET /v1/episodes/{id}/doors`: ways for a person to open a shell in the episode's sandbox."""

    doors: tuple[ShellAccess, ...] = Field(default=(), max_length=16)
    why_none: str | None = Field(default=None, max_length=500)

    @classmethod
    def of(cls, known: WaysIn) -> "OfferedShells":
        """The ways in that may be sent: those into containers."""
        doors = tuple(
            ShellAccess(label=way.label[:_LABEL_CHARACTERS], container=way.inside)
            for way in known.ways
            if isinstance(way.inside, Container)
        )
        is_other = bool(known.ways) and not doors
        return cls(doors=doors, why_none="its sandbox is not a container" if is_other else known.why_not)

    @property
    def ways_in(self) -> WaysIn:
        """The ways in that the hub accepts: only containers of this machine's engine, so that a server cannot connect a
        person's terminal to another machine.
        """
        near = [door for door in self.doors if not (door.container.address or "").startswith("tcp://")]
        why_none = self.why_none if near or not self.doors else "its container's engine is on another machine"
        return WaysIn(tuple(WayIn(door.label, door.container) for door in near), why_none)


def ways_into(sandbox: Sandbox, whose: str = "") -> WaysIn:
    """The ways into one sandbox; `whose` is the beginning of their labels."""
    ref = sandbox.ref
    if not sandbox.is_alive:
        return WaysIn(why_not="its sandbox has broken, or ended")
    if not isinstance(sandbox, EnterableSandbox):
        return WaysIn(why_not=f"sandboxes of the provider {ref.provider!r} tell no way in")
    try:
        inside = sandbox.way_in()
    except NotOffered as error:
        return WaysIn(why_not=str(error))
    image = f", {ref.image}" if ref.image else ""
    return WaysIn((WayIn(f"{whose}{ref.provider}, {ref.walls}{image}", inside),))
