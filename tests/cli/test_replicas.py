"""Runs with several servers of an environment, one of which is killed or stands still."""

import os
import signal
from pathlib import Path

import pytest

from rollouthub.store import open_run

from .conftest import Hub, started
from .test_served import committed, mark, marked, wait_for

__all__ = ["mark"]


@pytest.mark.soak
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_one_of_two_servers_that_fails_costs_its_own_episodes_one_retry(
    tmp_path: Path, mark: str, blow: signal.Signals
) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        'environments = ["arithmetic"]\nserved = true\nservers = 2\nmodel = "mock/solver?latency=0.1..0.2"\n'
        "limit = 150\nconcurrency = 8\n[deadlines]\nsetup = 1\ntool_call = 1\nverify = 1\nclose = 1\n"
    )
    with started(tmp_path, "run", "--config", config, "-o", "run", "--json", WITH_MARK=mark) as run:
        wait_for(lambda: committed(tmp_path / "run"))
        victim, other = marked(mark)
        os.kill(victim, 0)
        os.kill(victim, blow)
        output, errors = run.communicate(timeout=100)
    assert run.returncode == 0, errors
    assert '"scored": 150' in output
    assert marked(mark) == [], (victim, other)
    with open_run(tmp_path / "run") as reader:
        tries = [row.attempt for row in reader.summaries()]
    assert len(tries) == 150
    # Half of the eight in flight were the victim's, and a few that were just about to begin there.
    assert 1 <= sum(tries) <= 6, sum(tries)
    assert max(tries) == 1


def test_several_servers_need_an_environment_that_is_served(hub: Hub) -> None:
    assert "ask for it with --served" in hub("run", "arithmetic", "--servers", "2").refused()
