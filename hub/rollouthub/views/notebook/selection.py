"""Some rollouts of a run as tables, figures and charts: all of a `Run`, or those that a filter picks."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from rollouthub.export.record_columns import Table
from rollouthub.live.follow import RunFeed
from rollouthub.statistics import GroupCounts, SummaryTable, summarise_groups
from rollouthub.statistics.amounts import estimate, number, of_all, share
from rollouthub.store.sql_schema import SUMMARY_COLUMNS
from rollouthub.views.markup import Markup
from rollouthub.views.notebook import notebook_html as html
from rollouthub.views.notebook.arrow import chosen, load_arrow, record_table, summary_table, table_columns
from rollouthub.views.notebook.chart import Chart, chart_of
from rollouthub.views.notebook.frame import Frame
from rollouthub.views.notebook.noted_rows import noted_table

FAILED = "reward == null or passed == false"
"""The filter of `hub show --failed`: rollouts without a score, and rollouts that did not pass."""


class Selection:
    """Rollouts of a run, picked by a filter; an empty filter picks all."""

    def __init__(self, feed: RunFeed, where: str = "", of: "Selection | None" = None) -> None:
        self._feed, self._where = feed, where
        self._of = of
        """What it was picked from, kept, as a run closes its files when nothing refers to it."""

    @property
    def where(self) -> str:
        """The filter; empty for a whole run."""
        return self._where

    def filter(self, where: str) -> "Selection":
        """The rollouts of these that also match `where`, such as `outcome == "scored" and tokens > 4000`: tables,
        figures and charts of them alone. They follow the run when that is refreshed.

        Raises:
            FilterError: `where` is not a valid filter.
        """
        self._feed.rollouts(where=where)  # alone, so that a mistake is told with its place in what was given
        return Selection(self._feed, _both(self._where, where), self)

    @property
    def mean_reward(self) -> float | None:
        """Mean over scored rollouts; None if there are none. `pass_at_k()` and a run's `summary` have intervals."""
        return self._tables().overall.mean_reward

    @property
    def pass_rate(self) -> float | None:
        """Share of rollouts that passed among those with a verdict; None if there are none."""
        return self._tables().overall.pass_rate

    def pass_at_k(self, ks: Sequence[int] | None = None) -> Frame:
        """One row for each k: `k`, the `value` of pass@k, its 95 % interval `low` and `high`, how many `tasks` have
        k samples, and how many are `excluded`, with fewer. k doubles up to the number of samples unless `ks` is given.
        Empty where no verifier gives pass or fail.

        Raises:
            ConfigError: pyarrow is not installed.
            ValueError: a k is below 1, or given twice.
        """
        arrow = load_arrow()
        found = [(at.k, at.pass_at_k) for at in self._tables(ks).overall.at_k if at.pass_at_k is not None]
        columns: dict[str, list[float | int | None]] = {
            "k": [k for k, _ in found],
            **{name: [getattr(at, name) for _, at in found] for name in ("value", "low", "high", "tasks", "excluded")},
        }
        whole, real = arrow.int64(), arrow.float64()
        kinds = {"k": whole, "value": real, "low": real, "high": real, "tasks": whole, "excluded": whole}
        return Frame(arrow.table({name: arrow.array(columns[name], kinds[name]) for name in kinds}))

    def plot(self, what: Literal["pass_at_k", "rewards"] | None = None) -> Chart:
        """A chart: `pass_at_k` is pass@k and avg@k with their intervals, `rewards` how many rollouts got which reward;
        by default the first where tasks have several samples, else the second. Needs no other package.

        Raises:
            ConfigError: there is nothing to draw, as nothing is scored.
        """
        return chart_of(self._tables().overall, self._rewards(), what)

    @property
    def _count(self) -> int:
        return len(self._places("", effective=True))

    def _rewards(self) -> "array[float]":
        rewards = self._feed.columns.numbers["reward"]
        found = (rewards[place] for place in self._places("", effective=True))
        return array("d", (reward for reward in found if reward == reward))  # an absent one is NaN

    def _tables(self, ks: Sequence[int] | None = None) -> SummaryTable:
        return summarise_groups(self._groups(), ks)

    def _groups(self) -> Iterator[GroupCounts]:
        """The counts of each task's picked samples."""
        columns = self._feed.columns
        keys = [columns.words[name] for name in ("environment", "split", "task_id", "group_id")]
        rewards, passed = columns.numbers["reward"], columns.flags["passed"]
        repeats = 1 if self._where else self._feed.info.repeats
        places: dict[tuple[int, ...], list[int]] = {}
        for place in self._places("", effective=True):
            places.setdefault(tuple(word.codes[place] for word in keys), []).append(place)
        for codes, mine in places.items():
            scored = [rewards[place] for place in mine if rewards[place] == rewards[place]]
            verdicts = [passed[place] for place in mine if passed[place] >= 0]
            yield GroupCounts(
                environment=keys[0].vocabulary[codes[0]],
                task_id=keys[2].vocabulary[codes[2]],
                planned=max(repeats, len(mine)),
                scored=len(scored),
                passed=sum(verdicts) if verdicts else None,
                reward_sum=sum(scored),
                reward_sq_sum=sum(reward * reward for reward in scored),
                judged=len(verdicts),
                split=keys[1].vocabulary[codes[1]],
            )

    @property
    def failed(self) -> Frame:
        """The rollouts that did not pass or have no score, one row each, with the columns of `rollouts`.

        Raises:
            ConfigError: pyarrow is not installed.
        """
        return self.rollouts(FAILED)

    def rollouts(self, where: str = "", *, columns: Sequence[str] | None = None, effective: bool = True) -> Frame:
        """One row per rollout, in the order they were committed.

        `where` is a filter such as `outcome == "scored" and reward < 0.5`; `columns` may also name those of the Parquet
        table (`messages`, `answer`, `feedback` …), for which records are read in full. `effective=False` adds attempts
        that a later one replaced.

        Raises:
            ConfigError: pyarrow is not installed.
            FilterError: `where` is not a valid filter.
            UnknownNameError: a column is unknown.
        """
        arrow = load_arrow()
        full = [name for name in table_columns(arrow, "rollouts") if name not in SUMMARY_COLUMNS]
        names = chosen(columns, [*SUMMARY_COLUMNS, *full]) if columns is not None else list(SUMMARY_COLUMNS)
        places = self._places(where, effective)
        made = summary_table(arrow, self._feed.columns, places, names)
        wanted = [name for name in names if name in full]
        if wanted:
            records = record_table(arrow, "rollouts", self._feed.records(places), wanted, self._feed.notes)
            for name in wanted:
                made = made.append_column(records.schema.field(name), records[name])
        return Frame(made.select(names))

    def turns(self, where: str = "", *, columns: Sequence[str] | None = None, effective: bool = True) -> Frame:
        """One row per turn, with its messages and token ids; `where` selects rollouts.

        Raises:
            ConfigError, FilterError, UnknownNameError: as for `rollouts`.
        """
        return self._table("turns", where, columns, effective)

    def tool_calls(self, where: str = "", *, columns: Sequence[str] | None = None, effective: bool = True) -> Frame:
        """One row per tool call: name, arguments as JSON, result as text, seconds; `where` selects rollouts.

        Raises:
            ConfigError, FilterError, UnknownNameError: as for `rollouts`.
        """
        return self._table("tool_calls", where, columns, effective)

    def segments(self, where: str = "", *, columns: Sequence[str] | None = None, effective: bool = True) -> Frame:
        """One row per training segment, whose arrays have equal lengths; `where` selects rollouts.

        Raises:
            ConfigError, FilterError, UnknownNameError: as for `rollouts`.
        """
        return self._table("segments", where, columns, effective)

    def notes(self, where: str = "", *, effective: bool = True) -> Frame:
        """One row per note of a person: `rollout_id`, `attempt`, `turn` (from 1, null for the rollout itself), `kind`
        (`tag`, `star`, `comment` or `review`), `text`, `by` and `at`; `where` selects rollouts, as `tag ~ "hack"` does.

        Raises:
            ConfigError, FilterError: as for `rollouts`.
        """
        return Frame(noted_table(load_arrow(), self._feed.columns, self._places(where, effective)))

    def _table(self, table: Table, where: str, columns: Sequence[str] | None, effective: bool) -> Frame:
        arrow = load_arrow()
        names = chosen(columns, table_columns(arrow, table))
        places = self._places(where, effective)
        return Frame(record_table(arrow, table, self._feed.records(places), names, self._feed.notes))

    def _places(self, where: str, effective: bool) -> list[int]:
        found = self._feed.rollouts("seq", where=_both(self._where, where), effective=effective)
        return sorted(found.page(0, len(found)))

    def __repr__(self) -> str:
        return f"<Selection of {str(self._feed.directory)!r}: {self._count} rollouts, {self._where}>"

    def _repr_html_(self) -> str:
        title = html.heading(f"{self._feed.directory}, {self._where}")
        return html.page(title, html.facts([("rollouts", self._count), *self._figures()]), self._environments())

    def _figures(self) -> list[tuple[str, str]]:
        """Mean reward, pass rate and pass@k as all faces write them, each with its interval and what it is over."""
        overall = self._tables().overall
        passing, tasks = overall.pass_estimate, 0 if overall.pass_estimate is None else overall.pass_estimate.tasks
        facts = [
            ("mean reward", f"{estimate(overall.mean_reward, overall.mean_estimate)} over {overall.scored:,} scored"),
            ("pass rate", f"{estimate(overall.pass_rate, passing, share)} over {tasks:,} tasks with a verdict"),
        ]
        for at in overall.at_k[1:]:
            if (found := at.pass_at_k) is not None:
                over = f"over {of_all(found.tasks, overall.tasks)} tasks"
                facts.append((f"pass@{at.k}", f"{estimate(found.value, found, share)} {over}"))
        return facts

    def _environments(self, deviations: Mapping[str, float | None] | None = None) -> Markup:
        """A table of figures by environment; with standard deviations, if they are given."""
        rows = [
            (
                name,
                f"{found.scored:,}/{found.planned:,}",
                estimate(found.mean_reward, found.mean_estimate),
                estimate(found.pass_rate, found.pass_estimate, share),
                *(() if deviations is None else (number(deviations.get(name)),)),
            )
            for name, found in self._tables().environments.items()
        ]
        titles = ("environment", "scored", "mean reward", "pass rate")
        return html.table(titles if deviations is None else (*titles, "std of rewards"), rows)


def _both(first: str, second: str) -> str:
    return f"({first}) and ({second})" if first.strip() and second.strip() else first or second
