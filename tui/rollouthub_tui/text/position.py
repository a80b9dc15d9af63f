"""`Position`: the run or rollout that is open in text mode, and the last listing."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import anyio.to_thread

from rollouthub.errors import UsageError
from rollouthub.live.follow import RunsFeed
from rollouthub.live.follow.run_tallies import Tallies
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.text import plain_name
from rollouthub_tui.text.command_input import CommandInput
from rollouthub_tui.text.last_listing import ShownRollouts, ShownRuns, ShownTasks
from rollouthub_tui.text.output import Output
from rollouthub_tui.text.pages import Pages
from rollouthub_tui.widgets.rollout.record_reader import ReadRecord, place_of, read_record
from rollouthub_tui.widgets.rollouts.rollout_query import RolloutQuery

_THIS = "this"
_MOST_DIGITS = 7
"""Most digits of a list's line number; a longer number is taken for an id."""


class Position:
    """The state that commands act on. Used by one thread; each command may run in its own event loop."""

    def __init__(
        self,
        output: Output,
        lines: CommandInput,
        roots: Sequence[Path],
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.output, self.lines, self.roots, self.environ, self.clock = output, lines, roots, environ, clock
        self.runs, self.tallies = RunsFeed(roots, environ), Tallies()
        self.run: WatchedRun | None = None
        self.shown: ShownRuns | ShownRollouts | ShownTasks | None = None
        self.rollout_query = RolloutQuery()
        self.target: Target | None = None
        self.pages = Pages()
        self.ahead: str | None = None
        """A command typed while another was running."""
        self._record: tuple[Target, ReadRecord] | None = None
        self._problem: str | None = None

    # What is said.

    def read(self, stretches: Iterable[Sequence[str]]) -> None:
        """Show the first page of a text; the whole text if there is no prompt."""
        self.pages = Pages(stretches)
        self.turn_page()

    def turn_page(self) -> None:
        """Show the next page."""
        while True:
            self.output.say_all(self.pages.turn())
            if self.lines.is_prompted or not self.pages.has_more:
                break
        if self.pages.has_more:
            self.output.say("There is more: more reads on.")

    # Where one is.

    @property
    def here(self) -> WatchedRun:
        """The open run.

        Raises:
            UsageError: no run is open.
        """
        if self.run is None:
            raise UsageError("no run is open: runs lists them, open and a number opens one")
        return self.run

    @property
    def this(self) -> Target:
        """The open rollout, with its record if it has ended meanwhile.

        Raises:
            UsageError: no rollout is open.
        """
        if self.target is None:
            raise UsageError("no rollout is open: rollouts lists them, open and a number opens one")
        return self.settled(self.target)

    async def open_run(self, directory: Path) -> WatchedRun:
        """Read a run, and close the one that was open.

        Raises:
            HubError: it is damaged, gone, or of a newer rollouthub.
        """
        run = WatchedRun(directory, self.environ, self.clock)
        try:
            await run.open()
            await run.look_in()
        except BaseException:
            run.close()
            raise
        self.leave_run()
        self.run = run
        return run

    def leave_run(self) -> None:
        """Close the open run."""
        if self.run is not None:
            self.run.close()
        self.run = self.shown = self.target = self._record = self._problem = None
        self.rollout_query = RolloutQuery()

    async def look(self) -> None:
        """Refresh the open run; if that fails, warn once, and keep what was read before."""
        run = self.run
        if run is None:
            return
        run.refresh()
        await run.look_in()
        if run.problem is not None and run.problem != self._problem:
            self.output.warn(f"The run cannot be read now: {run.problem}. What was read before is told.")
        self._problem = run.problem

    # Which rollout is meant.

    def settled(self, target: Target) -> Target:
        """The same rollout, with the index of its record if it has ended since it was listed."""
        place = place_of(self.here.feed.columns, target.rollout_id, target.attempt)
        return Target(target.rollout_id, target.attempt, place)

    def meant(self, word: str) -> Target:
        """The rollout that a word names: a line number of the list, an id or its beginning; `this` or no word is the
        open one.

        Raises:
            UsageError: no rollout matches, or several do.
        """
        if word in ("", _THIS):
            return self.this
        if word.isascii() and word.isdigit() and len(word) <= _MOST_DIGITS:
            return self.settled(self._numbered(int(word)))
        return self._named(word)

    def _numbered(self, number: int) -> Target:
        shown = self.shown
        if not isinstance(shown, ShownRollouts):
            raise UsageError(f"{number} is a number of a list of rollouts: rollouts, errors or find makes one")
        if not shown.is_current:
            raise UsageError("the run was read anew meanwhile: list its rollouts again")
        check_number(number, len(shown), "rollout")
        return shown.target(number)

    def _named(self, word: str) -> Target:
        feed = self.here.feed
        columns, ids = feed.columns, feed.columns.texts["rollout_id"]
        live = {state.rollout_id: state for state in feed.live}
        found = {name for name in chain(live, ids) if name.startswith(word)}
        names = [word] if word in found else sorted(found)
        if len(names) > 1:
            more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
            raise UsageError(f"{word!r} could be several: {', '.join(map(plain_name, names[:8]))}{more}")
        if not names:
            raise UsageError(f"no rollout is named {word!r}; a number is that of a list, which rollouts makes")
        name = names[0]
        if name in live:
            return Target(name, live[name].attempt, None)
        place = max(
            (place for place, known in enumerate(ids) if known == name), key=columns.wholes["attempt"].__getitem__
        )
        return Target(name, columns.wholes["attempt"][place], place)

    async def record(self) -> ReadRecord:
        """The record of the open rollout, which must have ended.

        Raises:
            HubError: the record cannot be read.
        """
        target = self.this
        if self._record is None or self._record[0] != target:
            directory = self.here.directory
            read = await anyio.to_thread.run_sync(read_record, directory, target.rollout_id, target.attempt)
            self._record = (target, read)
        return self._record[1]


def check_number(number: int, count: int, noun: str) -> None:
    """Check that a list has a line with this number.

    Raises:
        UsageError: it has none.
    """
    if not 1 <= number <= count:
        known = f"numbers from 1 to {count:,}" if count else "nothing"
        raise UsageError(f"there is no {noun} {number}: the list has {known}")
