"""Server-sent events for pages of what plays: each only says that something is new, and the page fetches it."""

from collections.abc import AsyncGenerator

import anyio

from rollouthub.errors import HubError, said
from rollouthub.text import one_line
from rollouthub.views.web.opened_runs import OpenedRun, OpenedRuns

MOST_STREAMS = 64
"""Most pages that are told what is new."""
RUN_SECONDS, LIST_SECONDS = 1.0, 2.0
"""Seconds between two looks at a run, and at the list of runs."""
_QUIET = 15
"""Looks without news after which a comment is sent, so that a connection that is gone is noticed."""


class EventFeed:
    """The events of runs and of the list of runs."""

    def __init__(self, runs: OpenedRuns) -> None:
        self._runs = runs
        self._streams = 0

    @property
    def has_room(self) -> bool:
        """Whether one more page may be told."""
        return self._streams < MOST_STREAMS

    async def of_run(self, name: str) -> AsyncGenerator[bytes]:
        """`changed` whenever a run has something new, and `ended` at its end."""
        self._streams += 1
        try:
            yield b"retry: 3000\n\n"
            known: tuple[object, ...] | None = None
            quiet = 0
            while True:
                try:
                    async with self._runs.using(name) as opened:
                        # In its turn: a page may be bringing the same figures up to date in another thread.
                        now, has_ended = await opened.read(_seen)
                except HubError as error:
                    yield _event("ended", one_line(said(error)))
                    return
                if known is not None and now != known:
                    yield _event("changed", str(now[0]))
                    quiet = 0
                if has_ended:
                    yield _event("ended", "")
                    return
                known = now
                quiet += 1
                if quiet % _QUIET == 0:
                    yield b": quiet\n\n"
                await anyio.sleep(RUN_SECONDS)
        finally:
            self._streams -= 1

    async def of_list(self) -> AsyncGenerator[bytes]:
        """`changed` whenever the list of runs or a figure in it has."""
        self._streams += 1
        try:
            yield b"retry: 5000\n\n"
            known: list[object] | None = None
            quiet = 0
            while True:
                runs = await self._runs.list()
                await self._runs.read_tallies(runs)
                now: list[object] = [(run, self._runs.tally(run)) for run in runs]
                if known is not None and now != known:
                    yield _event("changed", str(len(runs)))
                    quiet = 0
                known = now
                quiet += 1
                if quiet % _QUIET == 0:
                    yield b": quiet\n\n"
                await anyio.sleep(LIST_SECONDS)
        finally:
            self._streams -= 1


def _seen(opened: OpenedRun) -> tuple[tuple[object, ...], bool]:
    """What a page would show of a run, and whether it has ended."""
    feed, view = opened.feed, opened.watched.view
    live = tuple((state.rollout_id, state.updated_at) for state in feed.live)
    status = feed.info.status
    return (feed.counts.attempts, live, status, view.status if view else None), status != "running"


def _event(name: str, text: str) -> bytes:
    return f"event: {name}\ndata: {text}\n\n".encode()
