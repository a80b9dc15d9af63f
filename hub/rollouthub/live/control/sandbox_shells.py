"""Ways into the sandbox of an attempt in flight, for a person: who asks runs the command, and not the hub."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import anyio

from rollouthub.engine.in_flight import InFlight
from rollouthub.hosting.local.shell_access import EnterableEpisode, WaysIn, ways_into
from rollouthub.live.control.live_machines import public
from rollouthub.live.control.live_protocol import ShellView
from rollouthub.protocols import Episode
from rollouthub.sandbox import Sandbox
from rollouthub.store.run_facts import State
from rollouthub.text import plain_name

ASKING_SECONDS = 2.0
"""For the server of an environment in another process to tell its doors."""


@runtime_checkable
class PlayedHere(Protocol):
    """An attempt that this process plays."""

    @property
    def episode(self) -> Episode | None:
        """What it plays; None before it is set up, and once it is over."""
        ...

    @property
    def homes(self) -> Sequence[Sandbox]:
        """Where its players' programs run, as far as those are sandboxes of the agent's own."""
        ...


async def shells(attempt: InFlight) -> tuple[tuple[ShellView, ...], str | None]:
    """The ways in, the agent's own first, or why there is none."""
    if not isinstance(attempt, PlayedHere):
        return (), "a worker plays it, and tells no way in; `hub sandbox list` on its machine does"
    own = [way for home in attempt.homes for way in ways_into(home, "the agent's own: ").ways]
    known = await _ways_in(attempt.episode, attempt.state)
    found = tuple(ShellView(label=plain_name(way.label), command=way.command) for way in (*own, *known.ways))
    return found, None if found else public(known.why_not or "its environment tells no way in")


async def _ways_in(episode: Episode | None, state: State) -> WaysIn:
    if episode is None:
        return WaysIn(why_not="it is not set up yet" if state in ("queued", "setup") else "it is over")
    if not isinstance(episode, EnterableEpisode):
        return WaysIn()
    with anyio.move_on_after(ASKING_SECONDS):
        return await episode.ways_in()
    return WaysIn(why_not=f"its environment's server told no way in within {ASKING_SECONDS:g} s")
