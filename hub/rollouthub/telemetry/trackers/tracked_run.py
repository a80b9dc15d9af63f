"""Sends a run's curves to trackers while it plays: sums are updated when records are committed, and trackers run in
worker threads.

A slow or broken tracker does not delay the run: the number of waiting points is bounded, and so is the wait at the end.
"""

import json
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread

from rollouthub.engine.run import Observer
from rollouthub.errors import HubError, describe, raise_first_error
from rollouthub.rollout import Rollout
from rollouthub.store import open_run
from rollouthub.telemetry.trackers.curves import Before, Curves
from rollouthub.telemetry.trackers.flat_settings import shown_settings
from rollouthub.telemetry.trackers.tracker import Ending, Point, TrackedRun, Tracker, TrackerFactory, find_tracker

logger = logging.getLogger(__name__)

GATHER_SECONDS = 2.0
"""Seconds for which points are gathered before they are sent; a shorter run is sent at its end."""
END_SECONDS = 30.0
"""Most seconds that the end of a run waits for its trackers; a tracker that needs longer is abandoned."""
CUT_SHORT_SECONDS = 2.0
"""As `END_SECONDS`, if the run is cancelled."""
MOST_WAITING = 10_000
"""Most points that wait for a tracker; beyond that the oldest are dropped."""


class _Pen:
    """One tracker, and the thread that calls it."""

    def __init__(self, name: str, load: Callable[[], TrackerFactory], complain: Callable[[str], None]) -> None:
        self.name, self._load, self._complain = name, load, complain
        self._calls = 0
        self._waiting: deque[Point] = deque(maxlen=MOST_WAITING)
        self._resources = ExitStack()
        self._tracker: Tracker | None = None
        self._is_lost = False
        self._thread = anyio.CapacityLimiter(1)

    @property
    def is_stuck(self) -> bool:
        """Whether a call in the thread has not returned."""
        return self._calls > 0

    def offer(self, points: Sequence[Point]) -> None:
        """Queue points for the tracker."""
        if not self._is_lost:
            self._waiting.extend(points)

    async def serve(self, run: Callable[[], TrackedRun], over: anyio.Event) -> None:
        """Send queued points until the run is over."""
        while not over.is_set():
            with anyio.move_on_after(GATHER_SECONDS):
                await over.wait()
            if self._waiting and not over.is_set():
                await self._work(run)

    async def end(self, run: Callable[[], TrackedRun], ending: Ending, figures: dict[str, float]) -> None:
        """Send the remaining points and the run's end, and close the tracker."""
        await self._work(run, (ending, figures))

    async def _work(self, run: Callable[[], TrackedRun], end: tuple[Ending, dict[str, float]] | None = None) -> None:
        if self._is_lost:
            return
        points = list(self._waiting)
        self._waiting.clear()
        self._calls += 1
        await anyio.to_thread.run_sync(self._draw, run, points, end, limiter=self._thread, abandon_on_cancel=True)
        self._calls -= 1  # not of a call that is left behind

    def _draw(
        self, run: Callable[[], TrackedRun], points: Sequence[Point], end: tuple[Ending, dict[str, float]] | None
    ) -> None:
        """Call the tracker, in its thread. After any exception the tracker is not called again; the problem is
        reported once.
        """
        try:
            if self._tracker is None:
                self._tracker = self._resources.enter_context(self._load()(run()))
            if points:
                self._tracker.write(points)
            if end is not None:
                self._tracker.end(*end)
                self._resources.close()
        except Exception as error:
            self._is_lost = True
            with suppress(Exception):  # a full disk refuses the last bytes, too, and nobody needs to hear it twice
                self._resources.close()
            # Without a traceback: what a service says of a refused key may hold the key.
            self._complain(f"the tracker {self.name!r} failed and draws no more: {describe(error)}")


class Tracking:
    """A run observer that sums up records for trackers, and passes everything on to another observer."""

    def __init__(self, directory: Path, observer: Observer, note: Callable[[str], None], *, is_resumed: bool) -> None:
        self.directory, self.note = directory, note
        self._observer, self._is_resumed = observer, is_resumed
        self.pens: list[_Pen] = []
        self.curves: Curves | None = None
        """The run's curves; None before the run plays."""
        self.complaints: deque[str] = deque()
        """Messages about failed trackers, added in threads and shown from the event loop."""
        self.run_id, self.step, self.planned = "", 0, 0

    @property
    def is_stuck(self) -> bool:
        """Whether a tracker's thread is still in a call."""
        return any(pen.is_stuck for pen in self.pens)

    @property
    def is_complete(self) -> bool:
        """Whether every planned rollout has a record."""
        return self.curves is not None and self.curves.step >= self.planned

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Called when the run is about to play; a resumed run's earlier totals are read."""
        self._observer.started(run_id, planned, done, bad_rows)
        before = Before()
        if self._is_resumed:
            try:
                before = read_before(self.directory)
            except HubError as error:  # it can be played, and the curves begin anew
                logger.warning("the curves of %s do not go on: %s", self.directory, error)
        self.curves = Curves(planned, time.time(), before)
        self.run_id, self.step, self.planned = run_id, self.curves.step, planned

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Called when records are durable."""
        self._observer.committed(rollouts)
        if self.curves is not None and (points := self.curves.add(rollouts)):
            self._offer(points)

    def stopped(self, reason: str) -> None:
        """Called when the run ends before everything planned was played."""
        self._observer.stopped(reason)

    def rest(self) -> None:
        """Queue the point of an incomplete last window."""
        if self.curves is not None and (point := self.curves.rest()) is not None:
            self._offer([point])

    def say(self) -> None:
        """Show the queued messages about failed trackers."""
        while self.complaints:
            self.note(self.complaints.popleft())

    def _offer(self, points: Sequence[Point]) -> None:
        for pen in self.pens:
            pen.offer(points)
        self.say()


def read_before(directory: Path) -> Before:
    """A run's totals so far, to continue its curves after a resumption.

    Raises:
        HubError: the run cannot be read.
    """
    with open_run(directory) as reader:
        means = reader.means()
        totals = reader.totals()
        unscored = {row.rollout_id: row.outcome for row in reader.summaries() if row.reward is None}
    return Before(means, unscored, totals.prompt_tokens, totals.output_tokens, totals.cost or 0.0)


@asynccontextmanager
async def tracked(
    names: Sequence[str],
    directory: Path,
    observer: Observer,
    *,
    is_resumed: bool,
    note: Callable[[str], None],
    redact: Callable[[str], str],
) -> AsyncGenerator[Tracking]:
    """Track a run with these trackers within the block; yields the run's observer.

    Raises:
        UnknownNameError: there is no tracker of a given name.
        ConfigError: a tracker needs a package that is not installed.
    """
    tracking = Tracking(directory, observer, note, is_resumed=is_resumed)
    found = {name: find_tracker(name) for name in dict.fromkeys(names)}

    def complain(text: str) -> None:
        tracking.complaints.append(redact(text))
        logger.warning("%s", redact(text))

    tracking.pens = [_Pen(name, load, complain) for name, load in found.items()]
    drawing = _Drawing(tracking, redact)
    async with raise_first_error(), anyio.create_task_group() as pens:
        for pen in tracking.pens:
            pens.start_soon(pen.serve, drawing.run, drawing.over)
        try:
            yield tracking
            drawing.ending = "finished" if tracking.is_complete else "interrupted"
        except anyio.get_cancelled_exc_class():
            drawing.ending, drawing.patience = "interrupted", CUT_SHORT_SECONDS
            raise
        finally:
            await drawing.end()
            pens.cancel_scope.cancel()


class _Drawing:
    """How the tracking of a run ends."""

    def __init__(self, tracking: Tracking, redact: Callable[[str], str]) -> None:
        self._tracking, self._redact = tracking, redact
        self.over = anyio.Event()
        self.ending: Ending = "failed"
        self.patience = END_SECONDS

    def run(self) -> TrackedRun:
        """The run's description for trackers; called in a thread."""
        tracking = self._tracking
        resolved = json.loads((tracking.directory / "resolved.json").read_text())
        return TrackedRun(tracking.run_id, tracking.directory, shown_settings(resolved, self._redact), tracking.step)

    async def end(self) -> None:
        """Send the remaining points to all trackers, for at most `patience` seconds."""
        tracking = self._tracking
        self.over.set()
        with anyio.CancelScope(shield=True, deadline=anyio.current_time() + self.patience) as scope:
            if tracking.curves is not None:  # else the run was refused, and there is nothing to draw
                tracking.rest()
                figures = tracking.curves.figures()
                async with anyio.create_task_group() as ends:
                    for pen in tracking.pens:
                        ends.start_soon(pen.end, self.run, self.ending, figures)
        if scope.cancelled_caught:
            slow = ", ".join(pen.name for pen in tracking.pens if pen.is_stuck)
            tracking.note(f"the tracker {slow} did not finish within {self.patience:g} s and is left behind")
        tracking.say()
