"""`hub bench registry` measures what it says, small here."""

from pathlib import Path

from rollouthub_registry.server.registry_benchmark import measure


def test_a_small_registry_is_measured_and_loses_nothing(tmp_path: Path) -> None:
    report = measure(tmp_path, environments=4, versions=2, say=lambda _: None, rounds=2, each=1)
    assert (report.environments, report.versions, report.lost) == (4, 8, 0)
    assert report.search_p50_ms > 0
