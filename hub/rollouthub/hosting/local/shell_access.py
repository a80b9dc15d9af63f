"""How a person gets into the sandbox of an episode. Told to whoever runs the hub, and never on the agent plane."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pydantic import Field

from rollouthub.errors import NotOffered
from rollouthub.frozen import Frozen
from rollouthub.sandbox import Container, EnterableSandbox, Sandbox

_LABEL_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class WayIn:
    """A way into a sandbox in use."""

    label: str
    """What the sandbox is: its provider, and what separates it from the machine."""
    inside: Container | tuple[str, ...]
    """The container it is, or a command of this machine that gives a shell in it."""

    @property
    def command(self) -> tuple[str, ...]:
        """The command that opens a shell in the sandbox."""
        return self.inside.shell if isinstance(self.inside, Container) else self.inside


@dataclass(frozen=True, slots=True)
class WaysIn:
    """Every way into an episode's sandboxes, or why there is none."""

    ways: tuple[WayIn, ...] = ()
    why_not: str | None = None


@runtime_checkable
class EnterableEpisode(Protocol):
    """An episode that knows its ways in."""

    async def ways_in(self) -> WaysIn:
        """Those of the sandbox that the agent's programs run in; verifiers' are never among them."""
        ...


@runtime_checkable
class HousedSeat(Protocol):
    """A seat that notes where its player lives."""

    home: Sandbox | None
    """A sandbox of the agent's own, where its program runs; None where it has none."""


class ShellAccess(Frozen):
    """A way in as the control plane tells it: a container and nothing else, as a command would be run as it came."""

    label: str = Field(max_length=_LABEL_CHARACTERS)
    container: Container


class Doors(Frozen):
    """`GET /v1/episodes/{id}/doors`."""

    doors: tuple[ShellAccess, ...] = Field(default=(), max_length=16)
    why_none: str | None = Field(default=None, max_length=500)

    @classmethod
    def of(cls, known: WaysIn) -> "Doors":
        """What of it may cross a wire."""
        doors = tuple(
            ShellAccess(label=way.label[:_LABEL_CHARACTERS], container=way.inside)
            for way in known.ways
            if isinstance(way.inside, Container)
        )
        is_other = bool(known.ways) and not doors
        return cls(doors=doors, why_none="its sandbox is not a container" if is_other else known.why_not)

    @property
    def ways_in(self) -> WaysIn:
        """As the hub takes it: engines of this machine alone, lest a server lead a person's terminal elsewhere."""
        near = [door for door in self.doors if not (door.container.address or "").startswith("tcp://")]
        why_none = self.why_none if near or not self.doors else "its container's engine is on another machine"
        return WaysIn(tuple(WayIn(door.label, door.container) for door in near), why_none)


def ways_into(sandbox: Sandbox, whose: str = "") -> WaysIn:
    """The ways into one sandbox; `whose` begins their labels."""
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
