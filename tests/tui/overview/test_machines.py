"""What a run plays on, in words, and why there is nothing to tell of."""

from pathlib import Path

from rollouthub.live.control.live_views import BackendView, RunView, SandboxesView, WorkerView
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub_tui.widgets.machines import machines_text
from tests.tui.made import playing_run, settle
from tests.tui.stage import watched

REASON = "5 faults in a row, tried again in 20 s"
SERVER = {"model": "openai/small", "role": "policy", "calls": 1234, "latency_p50": 0.5, "latency_p95": 2.0}


def view(**changes: object) -> RunView:
    """What a hub says of a run that plays in its own process."""
    facts: dict[str, object] = {
        "run_id": "r", "directory": "playing", "pid": 77, "status": "running", "environments": ("code",),
        "agent": "tool_loop", "model": None, "planned": 96, "done": 32, "in_flight": 12, "concurrency": 8,
        "followers": 0, "started_at": 0.0, "seconds": 5.0, "means": None,
    }  # fmt: skip
    return RunView.model_validate(facts | changes)


def said(run: WatchedRun, width: int = 100) -> list[str]:
    """The pane's lines."""
    text = machines_text(run, width)
    assert all(line.cell_len <= width for line in text.split("\n"))
    return text.plain.splitlines()


async def test_servers_workers_and_sandboxes_are_told_of_while_a_hub_says_how_they_are(tmp_path: Path) -> None:
    async with playing_run(tmp_path / "playing"):
        run = watched(tmp_path / "playing", tmp_path)
        run.refresh()
        assert "the run's hub has not answered yet" in " ".join(said(run))
        run.view = view()
        alone = "\n".join(said(run))
        assert "all episodes are played in the hub's own process, 77, up to 8 at a time" in alone
        assert "none is called" in alone
        servers = (
            BackendView.model_validate(SERVER | {"name": "a:8000", "in_flight": 5, "errors": 0, "state": "up"}),
            BackendView.model_validate(
                SERVER | {"name": "b:8000", "in_flight": 0, "errors": 9, "state": "open", "reason": REASON}
            ),
        )
        staff = (WorkerView(name="w0", node="n0", pid=5, in_flight=3, done=9, state="playing"),)
        boxes = (SandboxesView(environment="code", provider="docker", in_use=3, warm=2),)
        run.view = view(backends=servers, staff=staff, sandboxes=boxes)
        for width in (40, 80, 200):
            lines = said(run, width)
            [where] = [place for place, line in enumerate(lines) if line.startswith("✗ open")]
            assert lines[where + 1].startswith("  └ 5 faults in a row")
        wide = "\n".join(" ".join(line.split()) for line in lines)
        assert "● up policy openai/small a:8000 5 1.2k 0 500.00 ms 2.00 s" in wide
        assert "● playing w0 n0 5 3 9" in wide
        assert "code docker 3 2" in wide
        run.close()


async def test_a_run_that_was_killed_has_no_machines_and_says_so(tmp_path: Path) -> None:
    async with playing_run(tmp_path / "playing"):
        pass
    settle(tmp_path / "playing", status="running")
    run = watched(tmp_path / "playing", tmp_path)
    run.refresh()
    run.view = view()
    assert run.feed.info.status == "dead"
    assert said(run)[0] == "Machines"
    assert "the run was killed, and nothing plays it" in " ".join(said(run))
    run.close()
