"""The benchmark of an environment server measures real calls of a real server."""

from rollouthub.bench.env_server import measure_serving


async def test_every_kind_of_work_is_measured() -> None:
    said: list[str] = []
    rows = await measure_serving(20, [2], said.append)
    assert [row.work for row in rows] == [
        "tools/call, 2026-07-28",
        "tools/call, 2025-11-25",
        "episode: open, verify, close",
    ]
    assert len(said) == len(rows)
    assert all(row.per_second > 0 and row.cpu_ms >= 0 and row.clients == 2 for row in rows)
