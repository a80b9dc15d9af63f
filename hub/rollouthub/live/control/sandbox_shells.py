"""Ways for a person to open a shell in the sandbox of an attempt in flight; the client runs the command, not the
hub.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import anyio

from rollouthub.engine.in_flight import InFlight
from rollouthub.hosting.local.shell_access import EnterableEpisode, WaysIn, ways_into
from rollouthub.live.control.live_machines import public
from rollouthub.live.control.live_views import ShellView
from rollouthub.protocols import Episode
from rollouthub.sandbox import Sandbox
from rollouthub.store.run_facts import State
from rollouthub.text import plain_name

ASKING_SECONDS = 2.0
"""Seconds to wait for the server of an environment in another process to list its shells."""


@runtime_checkable
class PlayedHere(Protocol):
    """An attempt played in this process."""

    @property
    def episode(self) -> Episode | None:
        """The open episode; None before set-up and after the attempt."""
        ...

    @property
    def homes(self) -> Sequence[Sandbox]:
        """The agents' own sandboxes, in which their programs run."""
        ...


async def shells(attempt: InFlight) -> tuple[tuple[ShellView, ...], str | None]:
    """The ways to open a shell, the agent's own sandbox first, or why there is none."""
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
