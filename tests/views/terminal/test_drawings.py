"""Drawings of a run: they fit every width, and say a dash for what is not there."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from math import sin
from typing import Any

import pytest
from rich.text import Text

from rollouthub.live.control.live_views import BackendView, SandboxesView, WorkerView
from rollouthub.live.follow import RunProgress
from rollouthub.live.follow.group_tables import GroupLine
from rollouthub.live.follow.reward_histogram import RewardBins
from rollouthub.live.follow.run_figures import RunTotals
from rollouthub.live.follow.timeline import TimelinePoint
from rollouthub.statistics import GroupCounts
from rollouthub.store import LiveState
from rollouthub.views.terminal.curve import Dots, band, curve, drawing
from rollouthub.views.terminal.ending_bar import outcome_bar, outcome_legend, tally
from rollouthub.views.terminal.environment_lines import environment_table
from rollouthub.views.terminal.headline import figure_table, headline
from rollouthub.views.terminal.machine_tables import backend_table, sandbox_table, staff_table
from rollouthub.views.terminal.outcome_styles import ENDINGS, NOT_PASSED
from rollouthub.views.terminal.progress_line import progress_line, share_bar, speed
from rollouthub.views.terminal.reward_bars import reward_histogram, reward_spark
from rollouthub.views.terminal.run_status import STANDINGS, status_text
from rollouthub.views.terminal.stage_bar import flight_line
from rollouthub.views.terminal.stage_table import stage_line, stage_table
from rollouthub.views.terminal.text_fit import NARROWEST, cut, fact, flow
from rollouthub.views.terminal.timeline_curve import timeline_chart

WIDTHS = (NARROWEST, 41, 57, 80, 120, 200)
RUDE = "\x1b[31mrude\u202e[bold]\n👩\u200d👩\u200d👧🇩🇪❤\ufe0f👍🏽" + "名前" * 40
ABSENT = RunTotals(None, None, None, 0, 0, None, 0, None, None, None, 0, None)
FULL = RunTotals(0.5, 0.25, 0.75, 123_456, 200_000, 1_000_000, 234_567, 10**7, 10**6, 10**10, 10**9, 12_345.67)


def progress(**changes: Any) -> RunProgress:
    """A run midway."""
    facts: dict[str, Any] = {
        "status": "running", "done": 412, "planned": 1000, "in_flight": 32, "rate": 12.3, "eta_seconds": 48.0,
        "seconds": 33.0,
    }  # fmt: skip
    return RunProgress(**facts | changes)


def drawn(dots: Dots) -> list[str]:
    """The rows of a curve."""
    return [row.plain for row in drawing([(dots, "")])]


def points(count: int = 200) -> list[TimelinePoint]:
    """Stretches of two seconds, some of them without anything."""
    return [
        TimelinePoint(1000.0 + 2 * place, 2.0, 8, 8, 8 * (0.5 + 0.4 * sin(place / 9)), 8, place % 8)
        for place in range(count)
        if place % 17
    ]


def bins(rewards: Sequence[float]) -> RewardBins:
    """A distribution."""
    found = RewardBins()
    found.add(rewards)
    return found


def lines(count: int = 30) -> list[GroupLine]:
    """Environments, the first one with nothing scored."""
    made = [GroupLine("empty", "empty", None, GroupCounts("empty", "", 3, 0, None, 0.0, 0.0), 0)]
    for place in range(count):
        counts = GroupCounts(RUDE, "", 1000, 900, 450, 600.0, 500.0, judged=900)
        made.append(GroupLine(f"{place} {RUDE}", RUDE, None, counts, 10**8))
    return made


def in_flight() -> list[LiveState]:
    """A rollout in each of two states."""
    return [LiveState(name, "e", "t", 0, 0, name, 1, 5, 0.0) for name in ("model", "tool")]


def drawings(width: int) -> list[tuple[Text, int]]:
    """Every drawing with much to show, and with nothing; each with the lines it may take."""
    kinds = dict(zip(ENDINGS, (900, 1, 30, 2, 4), strict=True))
    spread = bins([(place * 37 % 1000) / 1000 for place in range(3000)]).bins
    quantiles = {"model": (0.5, 70.0, 9000.0), "tool": (0.0, 0.001, 0.2), "total": (1.0, 100.0, 1e5)}
    backend: dict[str, Any] = {
        "model": RUDE,
        "role": "policy",
        "name": RUDE,
        "in_flight": 12_345,
        "calls": 10**9,
        "errors": 10**6,
    }
    servers = [
        BackendView(**backend, latency_p50=0.5, latency_p95=120.0, state="up"),
        BackendView(**backend, state="open", reason=RUDE),
    ]
    staff = [WorkerView(name=RUDE, node=RUDE, pid=None, in_flight=3, done=10**6, state=RUDE)]
    return [
        *((progress_line(one, width), 1) for one in (progress(), progress(planned=None, rate=None, eta_seconds=None))),
        (progress_line(progress(status="finished", done=10**9, planned=10**9), width, None, has_status=False), 1),
        *((headline(one, width, 2), 2) for one in (ABSENT, FULL)),
        *((figure_table(one, width, 5), 5) for one in (ABSENT, FULL)),
        *((outcome_bar(one, width), 1) for one in ({}, kinds)),
        *((outcome_legend(one, width, 5, zeros=True), 5) for one in ({}, kinds)),
        (tally("faults", {RUDE: 3, "model:ModelError": 10**6}, width), 2),
        *((reward_histogram(one, width, 8), 8) for one in ([], spread, bins([0.0, 1.0, 1.0]).bins, bins([-3e9]).bins)),
        *((reward_spark(one, width), 1) for one in ([], spread)),
        *((timeline_chart(one, width, high), high) for one in ([], points(1), points()) for high in (2, 7, 16)),
        *((timeline_chart(points(), width, high, [(-1e300, 1e300), (1e300, -5.0)]), high) for high in (2, 7, 16)),
        *((stage_table(one, width, 6), 6) for one in ({}, quantiles)),
        (stage_line({"model": 0.5, "verify": 100.0}, width), 1),
        *((environment_table(one, width, 8), 8) for one in ([], lines())),
        (flight_line(in_flight(), width, 3, zeros=True), 3),
        (backend_table(servers, width), 4),
        (staff_table(staff, width), 2),
        (sandbox_table([SandboxesView(environment=RUDE, provider=RUDE, in_use=3)], width), 2),
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_drawing_fits_and_drives_no_terminal(width: int) -> None:
    for made, most in drawings(width):
        rows = made.split("\n")
        assert 1 <= len(rows) <= most, made.plain
        assert max(row.cell_len for row in rows) <= width, made.plain
        assert all(character.isprintable() or character == "\n" for character in made.plain), made.plain


def test_what_is_not_there_is_a_dash_and_never_zero() -> None:
    said = headline(ABSENT, 200).plain
    assert "mean reward –" in said
    assert "pass rate –" in said
    assert "coverage –" in said
    assert "–/s" in progress_line(progress(rate=None), 120).plain
    assert "412/–" in progress_line(progress(planned=None), 120).plain
    unscored = environment_table(lines(0), 120).plain.splitlines()[1]
    assert unscored.split() == ["empty", "0/3", "–", "–", "–", "0"]
    assert "p50" in backend_table([], 120).plain
    assert sandbox_table([SandboxesView(environment="e", provider="p", in_use=2)], 80).plain.split()[-1] == "–"


def test_every_kind_of_ending_has_its_own_mark_and_is_seen_however_rare() -> None:
    assert len({ending.mark for ending in ENDINGS.values()}) == len(ENDINGS)
    assert len({standing.word for standing in STANDINGS.values()}) == len(STANDINGS)
    kinds = dict(zip(ENDINGS, (100_000, 1, 1, 1, 1), strict=True))
    assert outcome_bar(kinds, 40).plain == "█" * 36 + "⊘!?○"
    legend = outcome_legend(kinds, 200).plain
    assert all(word in legend for word in ("scored 100,000", "⊘ agent failure 1", "! infrastructure fault 1"))


def test_a_run_where_nothing_passed_does_not_look_like_one_where_all_did() -> None:
    drawn = outcome_bar({"scored": 10}, 10, judged=8, passed=0)
    assert drawn.plain == "▒" * 8 + "█" * 2 and drawn.spans[0].style == NOT_PASSED.style
    assert "not passed 8" in outcome_legend({"scored": 10}, 200, judged=8, passed=0).plain
    assert outcome_bar({"scored": 4}, 4, judged=4, passed=3).plain == "███▒"


def test_stages_sum_to_the_number_in_flight() -> None:
    assert flight_line([], 200, total=3).plain.split()[-1] == "3"
    assert "stage not known 3" in flight_line([], 200, total=3).plain


def test_a_bar_is_full_only_when_all_is_done() -> None:
    assert share_bar(0.99999, 10, "green").plain == "━" * 9 + "╸"
    assert share_bar(1.0, 10, "green").plain == "━" * 10
    assert "99.9%" in progress_line(progress(done=9999, planned=10_000), 120).plain


def test_what_matters_most_stays_where_room_is_short() -> None:
    wide, narrow = (progress_line(progress(), width).plain for width in (120, 46))
    assert all(word in wide for word in ("running", "412/1,000", "41.2%", "12.3/s", "ETA 0:48", "32 in flight"))
    assert "412/1,000" in narrow
    assert "running" in narrow
    assert "in flight" not in narrow
    parts = [fact(name, "1") for name in ("first", "second", "third")]
    assert flow(parts, 16, 1).plain == "first 1  +2 more"
    assert cut("名前名前", 5) == "名前…"


def test_the_hub_says_how_a_run_stands_while_its_store_says_that_it_runs() -> None:
    assert status_text("running", "paused").plain == "‖ paused"
    assert status_text("finished", "paused").plain == "✓ finished"
    assert status_text("dead").plain == "† died"


def test_few_values_are_listed_with_their_counts_and_many_are_bars() -> None:
    listed = reward_histogram(bins([0.0] * 3 + [1.0]).bins, 60, 8).plain.splitlines()
    assert listed[0].split() == ["0", "█" * 48, "3", "75.0%"]
    assert listed[1].split()[0] == "1"
    upright = reward_histogram(bins([place / 100 for place in range(100)]).bins, 60, 8).plain.splitlines()
    assert upright[0].startswith("5┤")
    assert upright[-1].split()[0] == "0.00"


def test_a_curve_is_broken_where_much_is_missing_and_goes_on_over_little() -> None:
    row = drawn(curve([0.0, None, 0.0] + [None] * 40 + [0.0, 0.0], 1, 0.0, 1.0))[0]
    assert row[:2] == "⣀⡀"
    assert set(row[2:21]) == {" "}
    assert drawn(curve([0.0, 1.0], 2, 0.0, 1.0)) == ["⢸", "⣸"]


def test_lines_are_told_apart_by_their_dots_and_a_band_is_seen_behind_them() -> None:
    level = [0.0] * 12
    assert drawn(curve(level, 1, 0.0, 1.0, period=6, drawn=4)) == ["⣀⣀ ⣀⣀ "]
    behind = band([(0.0, 1.0)] * 12, 2, 0.0, 1.0)
    rows = drawing([(curve(level, 2, 0.0, 1.0), "cyan"), (behind, "dim")])
    assert [row.plain for row in rows] == ["⡪" * 6, "⣀" * 6]
    assert [str(span.style) for row in rows for span in row.spans] == ["dim", "cyan"]
    assert drawn(band([None, (0.5, 0.5)], 1, 0.0, 1.0)) in (["⠐"], [" "])


def test_a_trainers_loss_is_drawn_where_it_was_logged() -> None:
    began = points()[0].at
    drawn = timeline_chart(points(), 80, 20, [(began - 9.0, 4.0), (began + 200.0, 2.0)]).plain
    places = [drawn.index(title) for title in ("mean reward", "loss of the trainer, last 2", "pass rate")]
    assert places == sorted(places)
    loss = drawn[places[1] : places[2]].splitlines()
    assert (loss[1].split("┤")[0].strip(), loss[5].split("┤")[0].strip()) == ("4.20", "1.80")
    halves = [(line[7:42].strip(), line[46:].strip()) for line in loss[1:6]]
    assert halves[0][0] and not halves[0][1]  # 4 until the middle, 2 from there on
    assert halves[4][1] and not halves[4][0]
    small = timeline_chart(points(), 80, 20, [(began, 0.0004), (began + 200.0, 0.0002)]).plain
    assert "4e-04┤" in small
    assert "loss" not in timeline_chart(points(), 80, 7, [(0.0, 4.0)]).plain


def test_rewards_that_are_verdicts_are_one_curve_and_others_two() -> None:
    verdicts = [TimelinePoint(float(place), 1.0, 2, 2, 1.0, 2, 1) for place in range(20)]
    assert "pass rate (the mean reward) so far" in timeline_chart(verdicts, 80, 16).plain
    both = timeline_chart(points(), 80, 16).plain
    assert both.index("mean reward") < both.index("pass rate")
    assert "speed: up to 4.0/s" in both
    assert "pass rate" not in timeline_chart(points(), 80, 7).plain
    steady = [TimelinePoint(float(place), 1.0, 2) for place in range(69)]
    assert timeline_chart(steady, 93, 2).plain.split() == ["speed", "█" * 86]
    unscored = [TimelinePoint(0.0, 1.0, 5)]
    assert "nothing is scored yet" in timeline_chart(unscored, 80, 9).plain


def test_speed_is_worded_by_the_minute_and_hour_where_it_is_slow() -> None:
    assert [speed(rate) for rate in (200.0, 0.5, 0.01)] == ["200.0/s", "30.0/min", "36.0/h"]


def test_drawings_load_no_screen() -> None:
    drawings = "from rollouthub.views.terminal import machine_tables, timeline_curve"
    code = f"import sys; {drawings}; assert 'textual' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def steps(count: int, rewards: Sequence[float], *, at: float = 0.0, environment: str = "") -> list[TimelinePoint]:
    """Rollouts one by one, each a tenth of a second after the other, with these rewards again and again."""
    made: list[TimelinePoint] = []
    for place in range(count):
        one = TimelinePoint(at + place / 10, 0.1, 1, 1, rewards[place % len(rewards)], low=0.4, high=0.6)
        made.append(replace(one, parts={environment: one} if environment else {}))
    return made


def rows_of(chart: Text) -> list[str]:
    """The rows of the first curve, without their ticks."""
    return [line[7:] for line in chart.plain.split("\n") if line[6:7] in ("┤", "│")]


def test_the_mean_so_far_has_its_interval_and_an_axis_of_all_rewards() -> None:
    chart = timeline_chart(steps(200, (0.0, 1.0)), 107, 12)
    assert chart.plain.split("\n")[0].strip() == "mean reward so far  0.500 (0.400–0.600)"
    rows = rows_of(chart)
    assert len(rows) == 9 and not rows[0][10:].strip() and not rows[-1][10:].strip(), "0.5 is in the middle of 0 to 1"
    faint = [span for span in chart.spans if span.style == "bright_black"]
    assert any("⡠⡠" in chart.plain[span.start : span.end] for span in faint)
    ticks = [line[:6].strip() for line in chart.plain.split("\n") if line[6:7] == "┤"]
    assert ticks == ["1.00", "0.50", "0.00"]


def test_a_run_of_a_moment_has_a_curve_and_no_tick_twice() -> None:
    chart = timeline_chart(steps(3, (0.39,)), 80, 9)
    assert rows_of(chart)[-1].strip() == "" and any("⠉" in row or "⠒" in row or "⠤" in row for row in rows_of(chart))
    assert "3 rollouts" in chart.plain
    alike = timeline_chart(steps(9, (2e9,)), 80, 9, rewards=(2e9, 2e9)).plain
    ticks = [line[:6].strip() for line in alike.split("\n") if line[6:7] == "┤"]
    assert len(ticks) == len(set(ticks))
    wide = timeline_chart(steps(9, (-3.0, 5.0)), 80, 9, rewards=(-3.0, 5.0)).plain
    assert "5.00┤" in wide and "-3.00┤" in wide


def test_each_environment_has_a_line_from_its_first_rollout_to_its_last() -> None:
    both = [*steps(60, (1.0,), environment="good"), *steps(40, (0.0,), at=6.0, environment="bad\x1b[7m")]
    chart = timeline_chart(both, 107, 12)
    title = chart.plain.split("\n")[0]
    assert "── good 1.000" in title and "╌╌ bad" in title and "\x1b" not in title and "(" not in title
    rows = rows_of(chart)
    assert rows[0].strip() and rows[0][62:].strip() == "", "the first one ends where its rollouts do"
    assert rows[-1][:58].strip() == "" and rows[-1][62:].strip()
    many = [
        point for place in range(6) for point in steps(10 + place, (0.5,), at=place * 2.0, environment=f"env{place}")
    ]
    title = timeline_chart(many, 200, 12).plain.split("\n")[0]
    assert all(f"env{place}" in title for place in range(2, 6)) and "env0" not in title and "+2 more" in title


def test_where_a_trainer_learns_the_curve_is_of_the_last_tenth() -> None:
    learns = steps(200, [0.0] * 100 + [1.0] * 100)
    so_far, latest = timeline_chart(learns, 107, 12), timeline_chart(learns, 107, 16, [(1.0, 0.5)])
    assert "mean reward so far" in so_far.plain and not rows_of(so_far)[0].strip()
    assert "mean reward of the last tenth  1.000" in latest.plain and rows_of(latest)[0].strip()
