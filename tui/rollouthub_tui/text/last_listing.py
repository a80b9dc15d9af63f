"""The last listing shown; commands can name its lines by number."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from rollouthub.live.follow import RolloutList, SeenRun
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.store import LiveState
from rollouthub.text import plain_name
from rollouthub_tui.text.rollout_words import live_words, record_words
from rollouthub_tui.text.run_words import group_words
from rollouthub_tui.widgets.rollouts.in_flight import InFlight
from rollouthub_tui.widgets.rollouts.rollout_query import RolloutQuery
from rollouthub_tui.widgets.rollouts.search_hits import Hits


@dataclass(frozen=True)
class ShownRuns:
    """The runs of the last list of runs."""

    runs: Sequence[SeenRun]


@dataclass(frozen=True)
class ShownTasks:
    """The task groups of the last list of tasks, the hardest first."""

    groups: Sequence[str]
    lines: Callable[[], Iterator[str]]

    @classmethod
    def of(cls, run: WatchedRun) -> "ShownTasks":
        """List all tasks of a run by pass rate, or by mean reward if no sample has a verdict."""
        lines = run.feed.groups
        by = "pass_rate" if run.feed.counts.judged else "mean_reward"
        places = lines.places(by)

        def said() -> Iterator[str]:
            for number, place in enumerate(places, 1):
                line = lines.line(place)
                name = f"{plain_name(line.environment)} task {plain_name(line.task_id or line.name)}"
                yield f"{number}: {name}: {group_words(line)}"

        return cls([lines.line(place).name for place in places], said)


@dataclass(frozen=True)
class ShownRollouts:
    """The rollouts of the last list, as they were then, those in flight first."""

    run: WatchedRun
    found: RolloutList
    flights: Sequence[LiveState] = ()
    hits: Hits | None = None
    generation: int = field(default=0)

    @classmethod
    def of(cls, run: WatchedRun, query: RolloutQuery, hits: Hits | None = None) -> "ShownRollouts":
        """List the rollouts selected by `query`: those in flight, then those with a record."""
        line = run.feed.groups.find(query.group) if query.group else None
        flights = InFlight()
        flights.take(run.feed.live, query, (line.environment, line.task_id or "") if line else None)
        return cls(run, query.rollouts(run.feed), tuple(flights.states), hits, run.feed.columns.generation)

    def __len__(self) -> int:
        return len(self.flights) + len(self.found)

    @property
    def is_current(self) -> bool:
        """Whether the list's indices are still valid: they are not once the run was read anew."""
        return not len(self.found) or self.generation == self.run.feed.columns.generation

    def target(self, number: int) -> Target:
        """The rollout on a line of the list; lines are numbered from 1."""
        if number <= len(self.flights):
            state = self.flights[number - 1]
            return Target(state.rollout_id, state.attempt, None)
        return self.target_at(self.found[number - 1 - len(self.flights)])

    def target_at(self, place: int) -> Target:
        """The rollout at an index of the run's columns."""
        columns = self.run.feed.columns
        return Target(columns.texts["rollout_id"][place], columns.wholes["attempt"][place], place)

    def lines(self) -> Iterator[str]:
        """One numbered line per rollout."""
        run, columns = self.run, self.run.feed.columns
        several = len(columns.words["environment"].vocabulary) > 1
        plays, now = run.feed.info.status == "running", run.clock()
        for number in range(1, len(self) + 1):
            if number <= len(self.flights):
                said = live_words(self.flights[number - 1], now, plays=plays, environment=several)
            elif not self.is_current:
                yield "the run was read anew meanwhile: list its rollouts again"
                return
            else:
                place = self.found[number - 1 - len(self.flights)]
                match = self.hits.by_place.get(place) if self.hits else None
                said = record_words(columns, place, environment=several, match=match)
            yield f"{number}: {said}"
