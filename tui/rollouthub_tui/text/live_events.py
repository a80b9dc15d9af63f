"""Reports the events of a live run as they happen."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence

import anyio

from rollouthub.errors import RunDirectoryError, raise_first_error
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.rollout import Outcome, OutcomeKind
from rollouthub.statistics.amounts import number
from rollouthub_tui.text.output import Output
from rollouthub_tui.text.position import Position
from rollouthub_tui.text.rollout_words import ended_words
from rollouthub_tui.text.run_words import endings, means_words, progress_words, standing_line

PROGRESS_SECONDS = 30.0
PATIENCE_SECONDS = 10.0
"""Seconds that a run may be unreadable before it is no longer followed."""
_LOOK_SECONDS, _HUB_SECONDS = 0.5, 2.0
_MOST_AT_ONCE = 10
"""Most rollouts ended between two checks that are reported one by one at a prompt; more are summed up."""


async def follow(session: Position, rest: str) -> None:
    """Report events until the run ends or a line is typed."""
    run = session.here
    is_on = run.feed.info.status == "running"
    hint = " Enter, or Ctrl-C, goes back." if is_on and session.lines.is_prompted else ""
    session.output.say(standing_line(run) + hint)
    if not is_on:
        return

    async def listen() -> None:
        session.ahead = await session.lines.interruption()
        tasks.cancel_scope.cancel()

    async with raise_first_error(), anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        await Announcer(run, session.output, is_heard=session.lines.is_prompted).announce()
        tasks.cancel_scope.cancel()


class Announcer:
    """Reports what is new in a run from now on."""

    def __init__(
        self,
        run: WatchedRun,
        output: Output,
        *,
        is_heard: bool,
        progress_seconds: float = PROGRESS_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """`is_heard`: whether a person listens at a prompt; then many events at once are summed up."""
        self._run, self._output, self._is_heard = run, output, is_heard
        self._progress_seconds, self._patience_seconds = progress_seconds, patience_seconds
        self._seen, self._generation = len(run.feed.columns), run.feed.columns.generation
        self._said = standing_line(run)

    async def announce(self) -> None:
        """Report events until the run ends.

        Raises:
            RunDirectoryError: the run can no longer be read.
        """
        run = self._run
        progress_at = time.monotonic() + self._progress_seconds
        readable_at = looked_at = time.monotonic()
        while run.feed.info.status == "running":
            await anyio.sleep(_LOOK_SECONDS)
            run.refresh()
            now = time.monotonic()
            if run.problem is None:
                readable_at = now
            elif now - readable_at > self._patience_seconds:
                raise RunDirectoryError(run.problem)
            if now - looked_at >= _HUB_SECONDS:
                looked_at = now
                await run.look_in()
            self._tell_new()
            if now >= progress_at:
                progress_at = now + self._progress_seconds
                self._output.say(f"progress: {progress_words(run)}; {means_words(run)}")
        await run.look_in()
        self._tell_standing()

    def _tell_new(self) -> None:
        columns = self._run.feed.columns
        if columns.generation != self._generation:
            # Another run is there now; or the same, of which nothing had ended before.
            self._generation, self._seen = columns.generation, len(columns) if self._seen else 0
        places = range(self._seen, len(columns))
        self._seen = len(columns)
        if len(places) > _MOST_AT_ONCE and self._is_heard:
            self._output.say(self._together(places))
        else:
            self._output.say_all(self._one_by_one(places))
        self._tell_standing()

    def _one_by_one(self, places: Sequence[int]) -> Iterator[str]:
        return (ended_words(self._run.feed.columns, place) for place in places)

    def _together(self, places: Sequence[int]) -> str:
        columns = self._run.feed.columns
        kinds: Counter[OutcomeKind] = Counter(Outcome(columns.value("outcome", place)).kind for place in places)
        rewards = [reward for place in places if (reward := columns.numbers["reward"][place]) == reward]
        mean = f", mean reward {number(sum(rewards) / len(rewards))}" if rewards else ""
        return f"ended: {len(places):,} rollouts, {endings(kinds)}{mean}"

    def _tell_standing(self) -> None:
        """Report the run's status if it has changed."""
        said = standing_line(self._run)
        if said != self._said:
            self._said = said
            self._output.say(said)
