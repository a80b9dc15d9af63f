"""A run drawn while it plays: curves are added up where records are committed, and drawn by worker threads.

A tracker that is slow or broken costs the run nothing: what waits for it is bounded, and so is the wait for its end.
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
from rollouthub.errors import HubError, describe, first_error
from rollouthub.rollout import Rollout
from rollouthub.store import open_run
from rollouthub.telemetry.trackers.curves import Before, Curves
from rollouthub.telemetry.trackers.flat_settings import shown_settings
from rollouthub.telemetry.trackers.tracker import Ending, Point, TrackedRun, Tracker, TrackerFactory, find_tracker

logger = logging.getLogger(__name__)

GATHER_SECONDS = 2.0
"""How long points wait for company; a run shorter than that is drawn at its end."""
END_SECONDS = 30.0
"""How long the end of a run waits for its trackers; one that has failed to keep up by then is left behind."""
CUT_SHORT_SECONDS = 2.0
"""The same, where the run is stopped at once."""
MOST_WAITING = 10_000
"""Points; further ones push out the oldest."""


class _Pen:
    """One tracker, and the thread that serves it."""

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
        """Whether its thread is in a call; once the run is over, one that does not come back."""
        return self._calls > 0

    def offer(self, points: Sequence[Point]) -> None:
        """Have these drawn, soon."""
        if not self._is_lost:
            self._waiting.extend(points)

    async def serve(self, run: Callable[[], TrackedRun], over: anyio.Event) -> None:
        """Draw what is offered until the run is over."""
        while not over.is_set():
            with anyio.move_on_after(GATHER_SECONDS):
                await over.wait()
            if self._waiting and not over.is_set():
                await self._work(run)

    async def end(self, run: Callable[[], TrackedRun], ending: Ending, figures: dict[str, float]) -> None:
        """Draw the rest and close."""
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
        """In the thread. Whatever goes wrong is the tracker's loss, said once."""
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
    """An observer that draws what it hears of, and passes it on to another."""

    def __init__(self, directory: Path, observer: Observer, note: Callable[[str], None], *, is_resumed: bool) -> None:
        self.directory, self.note = directory, note
        self._observer, self._is_resumed = observer, is_resumed
        self.pens: list[_Pen] = []
        self.curves: Curves | None = None
        """None before the run plays."""
        self.complaints: deque[str] = deque()
        """Made in threads, shown from the event loop."""
        self.run_id, self.step, self.planned = "", 0, 0

    @property
    def is_stuck(self) -> bool:
        """Whether a tracker's thread still runs, though nobody waits for it any more."""
        return any(pen.is_stuck for pen in self.pens)

    @property
    def is_complete(self) -> bool:
        """Whether every planned rollout has a record."""
        return self.curves is not None and self.curves.step >= self.planned

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """The run is about to play; of a resumed one, what it came to before counts."""
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
        """These records are durable."""
        self._observer.committed(rollouts)
        if self.curves is not None and (points := self.curves.add(rollouts)):
            self._offer(points)

    def stopped(self, reason: str) -> None:
        """The run ends before everything planned was played."""
        self._observer.stopped(reason)

    def rest(self) -> None:
        """Have drawn what makes no whole window."""
        if self.curves is not None and (point := self.curves.rest()) is not None:
            self._offer([point])

    def say(self) -> None:
        """Show the complaints there are."""
        while self.complaints:
            self.note(self.complaints.popleft())

    def _offer(self, points: Sequence[Point]) -> None:
        for pen in self.pens:
            pen.offer(points)
        self.say()


def read_before(directory: Path) -> Before:
    """What a run has come to, for the curves of its next part.

    Raises:
        HubError: it cannot be read.
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
    """Draw a run with these trackers, while it is played within; what is yielded observes it.

    Raises:
        UnknownNameError: nobody draws under a name.
        ConfigError: a tracker needs a package that is not installed.
    """
    tracking = Tracking(directory, observer, note, is_resumed=is_resumed)
    found = {name: find_tracker(name) for name in dict.fromkeys(names)}

    def complain(text: str) -> None:
        tracking.complaints.append(redact(text))
        logger.warning("%s", redact(text))

    tracking.pens = [_Pen(name, load, complain) for name, load in found.items()]
    drawing = _Drawing(tracking, redact)
    try:
        async with anyio.create_task_group() as pens:
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
    except BaseExceptionGroup as group:
        raise first_error(group) from group


class _Drawing:
    """How the drawing of a run ends."""

    def __init__(self, tracking: Tracking, redact: Callable[[str], str]) -> None:
        self._tracking, self._redact = tracking, redact
        self.over = anyio.Event()
        self.ending: Ending = "failed"
        self.patience = END_SECONDS

    def run(self) -> TrackedRun:
        """What is drawn; asked in a thread."""
        tracking = self._tracking
        resolved = json.loads((tracking.directory / "resolved.json").read_text())
        return TrackedRun(tracking.run_id, tracking.directory, shown_settings(resolved, self._redact), tracking.step)

    async def end(self) -> None:
        """Draw the rest, for as long as there is patience."""
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
