"""`hub bench sandbox`, in its short form: every figure is there, and none is for want of a sandbox."""

import io

import anyio
import pytest

from rollouthub.statistics.quantiles import quantile
from rollouthub_sandboxes.bench.sandbox_figures import SandboxReport, report_table
from rollouthub_sandboxes.engine.engine import NoEngine, connect_engine
from tests.cli.conftest import Hub
from tests.cli.conftest import hub as hub

ALWAYS = ("exec_p50_ms", "exec_p99_ms", "acquire_p50_ms", "acquire_p99_ms", "refill_per_second", "open_p50_ms")
BESIDE = ("docker_exec_p50_ms", "docker_run_p50_ms", "docker_run_per_second", "refill_ratio", "acquired_warm")


async def _is_there() -> bool:
    try:
        async with connect_engine():
            return True
    except NoEngine:
        return False


@pytest.mark.live
def test_containers_are_measured_beside_the_bare_engine(hub: Hub) -> None:
    if not anyio.run(_is_there):
        pytest.skip("no container engine")
    done = hub("bench", "sandbox", "--quick", "--json", timeout=180)
    assert done.code == 0, done.err
    assert all(done.json[key] > 0 for key in (*ALWAYS, *BESIDE))
    assert done.json["provider"] == "docker"
    assert (done.json["episodes"], done.json["episode_errors"]) == (6, 0)
    assert done.json["runner"] == "supervisor"


@pytest.mark.parametrize("command", [("bench", "sandbox"), ("sandbox", "bench")])
def test_processes_are_measured_where_they_are_asked_for(hub: Hub, command: tuple[str, str]) -> None:
    done = hub(*command, "--provider", "process", "--quick", "--json", timeout=120)
    assert done.code == 0, done.err
    assert all(done.json[key] > 0 for key in ALWAYS)
    assert all(done.json[key] is None for key in BESIDE)
    assert done.json["episode_errors"] == 0


def test_a_provider_nobody_measures_is_refused(hub: Hub) -> None:
    assert "did you mean 'docker'" in hub("bench", "sandbox", "--provider", "dokcer").refused()


def test_a_table_shows_what_there_is() -> None:
    from rich.console import Console

    console = Console(width=120, record=True, file=io.StringIO())
    console.print(report_table(SandboxReport("process", walls="limits", runner="supervisor", exec_p50_ms=1.5)))
    shown = console.export_text()
    assert "process: limits, supervisor" in shown
    assert "1.50 ms" in shown


@pytest.mark.parametrize(("share", "expected"), [(0.5, 5.0), (0.99, 10.0), (0.0, 1.0), (1.0, 10.0)])
def test_a_percentile_is_one_of_the_values(share: float, expected: float) -> None:
    assert quantile([float(value) for value in range(1, 11)], share) == expected
