"""The rollouts' table: of any length, of any width, and whatever tasks are called."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from rollouthub.live.follow import RunFeed, parse_filter
from rollouthub.rollout import EnvironmentRef, TaskRef
from rollouthub.store import LiveState
from rollouthub.store.sql_schema import SUMMARY_COLUMNS
from rollouthub_tui.widgets.rollouts import fields
from rollouthub_tui.widgets.rollouts.fields import Shape, fit, next_sort, sort_words
from rollouthub_tui.widgets.rollouts.in_flight import InFlight, columns_of
from rollouthub_tui.widgets.rollouts.pane import RolloutsPane
from rollouthub_tui.widgets.rollouts.rollout_query import RolloutQuery
from rollouthub_tui.widgets.rollouts.row_words import name_of, shortened
from rollouthub_tui.widgets.rollouts.status_line import wrapped
from tests.store.records import record, write
from tests.tui.rollouts.shown import app_for, lines, said
from tests.tui.stage import watched

NASTY = (
    "\x1b]0;owned\x07\x1b[31mred\x1b[0m",
    "[bold red]markup[/] [@click=app.quit]x[/]",
    "\u202egnp.exe\u202c\u2066x\u2069",
    "👩‍👩‍👧‍👦👍🏽 family",
    "Z̸̧̢̛̗̖͎͖̝͇̫̤̀̓̈́͑͐̾͠a͌lgo",
    "漢字カタカナ" * 20,
    "שלום עולם",
    "tab\there\nand\rthere",
    "zero\u200bwidth\ufeff\u2060",
    "W" * 5000,
    "\ud83d lone".encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"),
)


def grown(feed: RunFeed, count: int) -> None:
    """Add rows that no store had to write."""
    columns = feed.columns
    first = [columns.value(name, 0) for name in SUMMARY_COLUMNS]
    at = {name: SUMMARY_COLUMNS.index(name) for name in ("seq", "rollout_id", "reward", "passed", "effective")}
    rows: list[list[object]] = []
    for number in range(count):
        row: list[object] = list(first)
        row[at["seq"]], row[at["rollout_id"]] = number + 10, f"h{number}"
        row[at["reward"]], row[at["passed"]], row[at["effective"]] = number % 1000 / 1000, 1, 1
        row[SUMMARY_COLUMNS.index("trainable")] = 1
        rows.append([number + 10, *row])
    columns.append(rows)


async def test_of_a_hundred_thousand_rows_only_those_in_sight_are_made(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("g0-0", turns=())])
    run = watched(tmp_path / "run", tmp_path)
    await run.open()
    grown(run.feed, 100_000)
    pane = RolloutsPane()
    app, _ = app_for(run, pane, tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("G")
        assert (pane.table.cursor, pane.table.count) == (100_000, 100_001)
        assert said(pane).startswith("100,001 of 100,001")
        await pilot.press("ctrl+u", "k", "j", "g")
        assert pane.table.lines_made < 150
        run.feed.columns.clear()  # as where an older copy was put in the run's place: until the next tick, nothing is
        pane.table.refresh()
        await pilot.press("j", "G", "enter")
        assert (pane.table.count, pane.target) == (0, None)
    run.close()


@pytest.mark.parametrize("width", [200, 47])
async def test_hostile_names_break_no_line(tmp_path: Path, width: int) -> None:
    made = [
        record(
            f"g{number}-0",
            turns=(),
            task=TaskRef(split="test", id=name, digest="sha256:0"),
            environment=EnvironmentRef(name=name, version="1", digest="sha256:0"),
        )
        for number, name in enumerate(NASTY)
    ]
    await write(tmp_path / "run", made)
    run = watched(tmp_path / "run", tmp_path)
    await run.open()
    run.feed.live = [LiveState("l-0", name, name, 0, 0, "model", 1, 9, 1.0) for name in NASTY]
    pane = RolloutsPane()
    app, _ = app_for(run, pane, tmp_path)
    app.settings.preview = False
    async with app.run_test(size=(width, 30)) as pilot:
        pane.show(run)
        await pilot.pause()
        for y, line in enumerate(lines(pane.table)):
            assert pane.table.render_line(y).cell_length == cell_len(line) == width, line
            assert not any(unicodedata.category(letter) in ("Cc", "Cf", "Cs") for letter in line), line
    run.close()


@given(width=st.integers(56, 260), shape=st.builds(Shape, state=st.integers(10, 20), task=st.integers(4, 80)))
def test_columns_fit_and_what_matters_is_among_them(width: int, shape: Shape) -> None:
    columns = fit(shape, width)
    names = {column.name for column in columns}
    assert {"state", "task", "turns", "tokens", "reward", "seconds"} <= names
    used = sum(column.width for column in columns) + fields.GAP * (len(columns) - 1)
    assert used <= max(width, 67)
    if width >= 78 and shape.task <= 20:
        assert next(column.width for column in columns if column.name == "task") >= min(shape.task, 10)


def test_orders_come_round_in_the_order_of_columns() -> None:
    shown = ["state", "task", "components", "reward"]
    orders = ["seq"]
    while (after := next_sort(orders[-1], shown)) != "seq":
        orders.append(after)
    assert orders == ["seq", "outcome", "task_id", "reward"]
    assert next_sort("prompt_tokens", shown) == "seq"
    assert [sort_words("seq", True), sort_words("reward", False), sort_words("queue_seconds", True)] == [
        "newest first",
        "by reward ▲",
        "by queue_seconds ▼",
    ]


@settings(max_examples=50)
@given(text=st.text(), width=st.integers(8, 40))
def test_a_name_is_shortened_in_its_middle_and_is_plain(text: str, width: int) -> None:
    shown = shortened(name_of(text), width)
    assert cell_len(shown) <= width
    assert shown == "" or shown[-1] == name_of(text)[-1]


def state(number: int) -> LiveState:
    """An attempt in flight, as far on as its number."""
    return LiveState(f"g{number}-0", "code", f"t{number}", 0, 0, "model", number, 10 * number, 9.0)


def test_what_is_in_flight_keeps_its_place_and_is_filtered_by_what_is_known() -> None:
    flights, query = InFlight(), RolloutQuery()
    flights.take([state(1), state(0)], query, None)  # the one that moved last comes first
    flights.take([state(0), state(2), state(1)], query, None)
    assert [one.turn for one in flights.states] == [0, 1, 2]
    query.sort = "output_tokens"
    flights.take([state(0), state(2), state(1)], query, None)
    assert ([one.turn for one in flights.states], flights.row(("g2-0", 0))) == ([2, 1, 0], 0)
    columns = columns_of([state(0), state(1)])
    for text, holds in {
        "turns > 0": [False, True],
        'task == "t0"': [True, False],
        "tokens < 5": [True, False],
        "reward < 1": [False, False],
        "prompt_tokens >= 0": [False, False],
        "passed": [False, False],
        'outcome != "scored"': [False, False],
    }.items():
        predicate = parse_filter(text).bind(columns)
        assert [predicate(0), predicate(1)] == holds, text


def test_what_was_wanted_last_is_taken_back_first() -> None:
    query = RolloutQuery()
    assert query.take_back() is None
    query.where, query.search, query.group = parse_filter("reward < 1"), "a", "g"
    query.errors = query.attempts = True
    query.pattern, query.matching = "x", {1}
    for name in ("filter", "search", "task", "errors only", "all attempts", "transcripts"):
        query.note(name, True)
    said = query.words(lambda group: f"task of {group}")
    assert said[1:] == [
        "filter reward < 1",
        "search “a”",
        "task task of g",
        "errors only",
        "all attempts",
        "transcripts /x/",
    ]
    taken = [query.take_back() for _ in range(6)]
    assert taken == ["transcripts", "all attempts", "errors only", "task", "search", "filter"]
    assert query == RolloutQuery(where=query.where) and query.where.text == ""


def test_a_sentence_is_broken_between_its_parts() -> None:
    assert wrapped(["one", "two", "three"], 9) == ["one · two", "three"]
    assert wrapped([], 9) == [""]
