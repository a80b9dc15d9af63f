"""Environments whose methods hold the event loop: named when they do, in threads when they ask for it."""

import re
from pathlib import Path

import pytest

from rollouthub.store import open_run
from tests.cli.conftest import (
    Hub,
    hub,  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a fixture
)

WORLD = """
import threading, time
from rollouthub import Deadlines, Environment, EnvironmentConfig, Public, Score, Secret, Task

class Slow(Environment[EnvironmentConfig]):
    @classmethod
    def tasks(cls, config, split, seed):
        for index in range({count}):
            yield Task(Public(id=str(index), prompt="Go."), Secret())

    @classmethod
    def deadlines(cls, config):
        return Deadlines(verify={deadline})

    {kind} verify(self, submission):
        {body}
        return Score(reward=1.0)
"""


def test_a_run_whose_verifier_blocks_ends_with_its_last_rollout_and_names_it(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "slow.py").write_text(WORLD.format(count=6, kind="async def", body="time.sleep(0.3)", deadline=60))
    done = hub("run", "slow.py", "-a", "null", "--json", "-o", "run")
    assert done.code == 0, done.err
    with open_run(tmp_path / "run") as reader:
        rollouts, finished = [*reader.rollouts()], reader.info.finished_at
    last = max(one.started_at + one.timings.total for one in rollouts)
    assert last - min(one.started_at for one in rollouts) >= 1.8
    assert finished is not None
    assert finished - last < 1.0
    first, last = re.findall(r"(so far, )?the event loop was held for [\d.]+ s by Slow\.verify \((\d) times", done.err)
    assert (first, last) == (("so far, ", first[1]), ("", "6"))
    assert int(first[1]) <= 4, "it is told while there is something to play"
    assert done.err.count("write it as `def verify`, without `async`, and it runs in a worker thread") == 2
    assert done.err.count("or play it with --served (--servers N)") == 2


def test_an_environment_that_blocks_is_no_ones_trouble_in_a_process_of_its_own(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "slow.py").write_text(WORLD.format(count=4, kind="async def", body="time.sleep(0.3)", deadline=60))
    done = hub("run", "slow.py", "-a", "null", "--json", "--served", "--servers", "2")
    assert (done.code, done.json["mean_reward"]) == (0, 1.0), done.err
    assert "event loop" not in done.err


def test_a_verifier_that_does_not_block_is_named_nowhere(hub: Hub) -> None:  # noqa: F811
    done = hub("run", "arithmetic", "-m", "mock/solver", "--limit", "20")
    assert "event loop" not in done.err + done.out


def test_plain_methods_run_side_by_side_in_threads(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    body = "threading.main_thread() is threading.current_thread() and 1 / 0; Slow.all_there.wait(30)"
    world = WORLD.format(count=3, kind="def", body=body, deadline=60)
    (tmp_path / "slow.py").write_text(f"{world}\n    all_there = threading.Barrier(3)\n")
    done = hub("run", "slow.py", "-a", "null", "--json")
    assert (done.code, done.json["mean_reward"]) == (0, 1.0), done.err
    assert "event loop" not in done.err


@pytest.mark.parametrize("command", ["run", "score"])
def test_what_never_ends_in_its_thread_does_not_hold_up_the_end(hub: Hub, tmp_path: Path, command: str) -> None:  # noqa: F811
    world = WORLD.format(count=1, kind="def", body="threading.Event().wait()", deadline=0.2)
    (tmp_path / "slow.py").write_text(f"{world}\n    scores_transcripts = True\n")
    (tmp_path / "said.jsonl").write_text('{"task_id": "0", "completion": "x"}\n')
    if command == "run":
        done = hub("run", "slow.py", "-a", "null", "--retries", "0", "--json", timeout=30)
        assert done.json["outcomes"] == {"verifier_failed": 1}
    else:
        done = hub("score", "said.jsonl", "--env", "slow.py", timeout=30)
    assert done.code == 1, done.err
