"""`hub show RUN --where … --sort … --by …`: the rollouts that match a filter, or one row per group of them."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.table import Table
from rich.text import Text

from rollouthub.cli.console import results
from rollouthub.cli.run_tables import rollout_rows
from rollouthub.errors import UnknownNameError, UsageError
from rollouthub.live.follow.attempt_columns import ALL_KINDS, KINDS, AttemptColumns, Value
from rollouthub.live.follow.filter import ALIASES
from rollouthub.live.follow.note_columns import noted_texts
from rollouthub.live.follow.run_feed import RunFeed
from rollouthub.statistics.amounts import NONE, count, number
from rollouthub.text import escaped, plain_name

_USUAL = 20


@dataclass(frozen=True)
class Group:
    """Figures of the selected rollouts that share one value in a column."""

    value: Value
    rollouts: int
    scored: int
    passed: int
    mean_reward: float | None
    """Mean over scored rollouts; None if none is scored."""
    output_tokens: int


_GROUP_COLUMNS = ("rollouts", "scored", "passed", "mean_reward", "output_tokens")
_GROUP_ALIASES = {"reward": "mean_reward", "tokens": "output_tokens"}


def print_chosen(
    directory: Path,
    *,
    where: str,
    sort: str | None,
    by: str | None,
    limit: int | None,
    needs_review: bool,
    as_json: bool,
) -> None:
    """Print the selected rollouts, or their groups if `by` names a column; with `needs_review`, of those in the queue.

    Raises:
        UsageError: the filter or a column is invalid, or there is no such run.
    """
    name, is_descending = (sort or "").removeprefix("-"), (sort or "").startswith("-")
    if sort is not None and not name:
        raise UsageError("--sort names a column, for example --sort reward or --sort -reward")
    with RunFeed(directory) as feed:
        feed.refresh()
        wanted = feed.review.places if needs_review else None
        found = feed.rollouts((name or "seq") if by is None else "seq", descending=is_descending, where=where)
        places = [place for place in found.page(0, len(found)) if wanted is None or place in wanted]
        if by is None:
            _print_rollouts(feed, places, limit, needs_review, as_json)
        else:
            column = _column(by)
            groups = _groups(feed.columns, sorted(places), column)
            _print_groups(_sorted(groups, name, column, is_descending), column, limit, as_json)


def _column(name: str) -> str:
    column = ALIASES.get(name, name)
    if column not in ALL_KINDS:
        raise UnknownNameError("column", name, [*ALL_KINDS, *ALIASES])
    return column


def _groups(columns: AttemptColumns, places: Iterable[int], column: str) -> list[Group]:
    """The groups, in the order in which their values first occur; a rollout with two tags is in the group of each."""
    members: dict[Value, list[int]] = {}
    has_several = ALL_KINDS[column] == "texts"
    for place in places:
        texts = noted_texts(column, columns.notes_at(place)) if has_several else ()
        for value in texts or (columns.value(column, place),):
            members.setdefault(value, []).append(place)
    return [_group(columns, value, found) for value, found in members.items()]


def _group(columns: AttemptColumns, value: Value, places: Sequence[int]) -> Group:
    rewards = [reward for place in places if isinstance(reward := columns.value("reward", place), float)]
    return Group(
        value=value,
        rollouts=len(places),
        scored=sum(columns.value("outcome", place) == "scored" for place in places),
        passed=sum(columns.value("passed", place) is True for place in places),
        mean_reward=fmean(rewards) if rewards else None,
        output_tokens=sum(columns.wholes["output_tokens"][place] for place in places),
    )


def _sorted(groups: list[Group], name: str, column: str, is_descending: bool) -> list[Group]:
    """Groups sorted by a figure or by their value; groups without a value come last in either direction."""
    if not name:
        return groups
    figure = _GROUP_ALIASES.get(name, name)
    if figure not in _GROUP_COLUMNS and ALIASES.get(name, name) != column:
        raise UnknownNameError("figure of a group", name, [column, *_GROUP_COLUMNS])

    def key(group: Group) -> Value:
        return getattr(group, figure) if figure in _GROUP_COLUMNS else group.value

    present = [group for group in groups if key(group) is not None]
    present.sort(key=key, reverse=is_descending)  # pyright: ignore[reportArgumentType]  # one column: one type
    return [*present, *(group for group in groups if key(group) is None)]


def _print_rollouts(feed: RunFeed, places: list[int], limit: int | None, needs_review: bool, as_json: bool) -> None:
    shown, columns = places[: _most(limit, as_json)], feed.columns
    if as_json:
        sys.stdout.write(escaped(json.dumps([_row(feed, place, needs_review) for place in shown], ensure_ascii=False)))
        sys.stdout.write("\n")
        return
    console = results()
    rows = [columns.summary(place) for place in shown]
    reasons = {
        (row.rollout_id, row.attempt): ", ".join(feed.review.reasons(place))
        for row, place in zip(rows, shown, strict=True)
        if needs_review
    }
    console.print(rollout_rows(rows, console.width, feed.notes, reasons))
    _say_rest(len(places), len(shown), "rollout", " to review" if needs_review else "")


def _row(feed: RunFeed, place: int, needs_review: bool) -> dict[str, Any]:
    """A row as JSON: its columns, its notes if it has any, and why it should be reviewed."""
    row: dict[str, Any] = {name: feed.columns.value(name, place) for name in KINDS}
    if notes := feed.columns.notes_at(place):
        row["notes"] = notes.as_json()
    if needs_review:
        row["needs_review"] = feed.review.reasons(place)
    return row


def _print_groups(groups: list[Group], column: str, limit: int | None, as_json: bool) -> None:
    shown = groups[: _most(limit, as_json)]
    if as_json:
        rows = [{column: group.value, **{k: v for k, v in asdict(group).items() if k != "value"}} for group in shown]
        sys.stdout.write(escaped(json.dumps(rows, ensure_ascii=False)) + "\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(column, overflow="fold")
    for title in _GROUP_COLUMNS:
        table.add_column(title.replace("_", " "), justify="right", no_wrap=True)
    for group in shown:
        value = NONE if group.value is None else plain_name(str(group.value))
        counts = (f"{figure:,}" for figure in (group.rollouts, group.scored, group.passed))
        table.add_row(Text(value), *counts, number(group.mean_reward), f"{group.output_tokens:,}")
    results().print(table)
    _say_rest(len(groups), len(shown), "group")


def _most(limit: int | None, as_json: bool) -> int | None:
    """How many rows to print; None for all."""
    return (None if as_json else _USUAL) if limit is None else limit or None


def _say_rest(found: int, shown: int, noun: str, why: str = "") -> None:
    rest = f"{count(found, noun)}{why}" + (
        f", {found - shown:,} of them not shown (--limit 0 lists all)" if found > shown else ""
    )
    results().print(rest, style="dim", highlight=False)
