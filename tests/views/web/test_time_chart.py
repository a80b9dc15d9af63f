"""The page of a rollout shows when its stages and calls began, and how long they took."""

import re
from pathlib import Path

import pytest
from mcp_types import CallToolResult, TextContent

from rollouthub.rollout import Rollout, Timings
from rollouthub.views.web.time_chart import MOST_ROWS, time_chart
from tests.store.records import conversation, record, write

from .conftest import served


def timed() -> Rollout:
    (turn, _) = conversation(2)
    (call, *_) = turn.tool_calls
    failed = CallToolResult(content=[TextContent(text="no")], is_error=True)
    calls = (
        call.model_copy(update={"name": "look", "started": 1.5, "seconds": 0.5}),
        call.model_copy(update={"name": "<b>dig", "started": 2.0, "seconds": 1.0, "result": failed}),
    )
    turns = [turn.model_copy(update={"started": 1.0, "seconds": 0.5, "tool_calls": calls})]
    timings = Timings(queue=9.0, setup=1.0, agent=2.0, verify=1.0, close=0.0, total=4.0)
    return record("g1-0", turns=turns, timings=timings)


def test_each_stage_and_call_has_its_place_on_one_axis() -> None:
    chart = time_chart(timed())
    assert chart is not None
    bars = re.findall(r'<rect x="([\d.]+)" y="0" width="([\d.]+)" height="10" class="time (\w+)">', chart)
    assert [(float(x), float(width), kind) for x, width, kind in bars] == [
        (0.0, 250.0, "stage"),
        (250.0, 125.0, "model"),
        (375.0, 125.0, "tool"),
        (500.0, 250.0, "broke"),
        (750.0, 250.0, "stage"),
    ]
    assert "&lt;b&gt;dig</a><span" in chart and "<b>" not in chart
    assert "! error" in chart and "queue" not in chart
    assert 'href="#turn-1"' in chart


@pytest.mark.parametrize("turns", [[], [conversation(1)[0].model_copy(update={"started": -1.0})]])
def test_a_record_without_times_has_no_chart(turns: list[object]) -> None:
    assert time_chart(record("g1-0", turns=turns, timings=Timings())) is None


def test_a_long_rollout_has_its_first_calls() -> None:
    (turn,) = conversation(1)
    turns = [turn.model_copy(update={"index": at, "started": float(at), "seconds": 1.0}) for at in range(2 * MOST_ROWS)]
    chart = time_chart(record("g1-0", turns=turns, timings=Timings(total=9.0)))
    assert chart is not None
    assert chart.count("<rect") == MOST_ROWS
    assert "Further calls are not shown." in chart


async def test_the_chart_is_on_the_page(tmp_path: Path) -> None:
    await write(tmp_path / "run", [timed()])
    async with served(tmp_path / "run") as visit:
        page = (await visit.get("run/run/rollout/g1-0")).text
        assert "<summary>Times<span" in page
        assert page.count('class="time ') == 5
