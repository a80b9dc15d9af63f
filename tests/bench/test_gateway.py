"""The benchmark of the gateway measures real calls of a real gateway, on both legs, and what waits."""

import pytest

from rollouthub.bench.gateway import measure_gateway


@pytest.mark.soak
async def test_every_figure_of_the_gateway_is_measured() -> None:
    said: list[str] = []
    report = await measure_gateway(100, [1, 4], said.append)
    assert [(row.work, row.episodes) for row in report.rows] == [
        ("tools/call, hosted", 1),
        ("tools/call, hosted", 4),
        ("tools/call, forwarded", 1),
        ("tools/call, forwarded", 4),
        ("chat/completions", 4),
    ]
    assert all(row.cpu_ms > 0 and row.per_second > 0 for row in report.rows)
    assert 0 < report.idle_episodes_mb < 25
    assert report.as_json()["hosted_cpu_ms_per_call"] == max(row.cpu_ms for row in report.rows[:2])
