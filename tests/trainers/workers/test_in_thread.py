"""A worker for functions that trainers call: opened once, from anywhere, and closed in order."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference
from rollouthub.store import open_run
from rollouthub.trainers.stream import SampleRequest, rollout_worker
from rollouthub.trainers.workers.in_thread import ThreadWorkers
from rollouthub.trainers.workers.worker_settings import read_settings, settings_of


async def test_it_is_opened_once_played_from_any_loop_and_closed_in_order(tmp_path: Path) -> None:
    thread_workers = ThreadWorkers()
    make = partial(
        rollout_worker, environments=("arithmetic",), split="train", model="mock/solver", directory=tmp_path / "run"
    )
    worker = await thread_workers.opened("one", make)
    assert thread_workers.get("one", make) is worker
    task = TaskReference("arithmetic", "train", "train/0")
    passes = [worker.next_sample(task, group) for group in ("a", "a", "b")]
    assert passes == [0, 1, 0]
    rollout = await worker.played(SampleRequest("train/0", group="a"))
    [same] = worker.play_all([SampleRequest("train/0", group="a")])
    assert same.rollout_id == rollout.rollout_id
    thread_workers.close()
    with open_run(tmp_path / "run") as run:
        assert run.info.status == "finished"
        assert [kept.rollout_id for kept in run.rollouts()] == [rollout.rollout_id]


def test_settings_are_a_runs_with_a_table_of_the_adapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "play.toml"
    file.write_text('environments = ["arithmetic"]\nrepeats = 4\n[training]\ntool_parser = "none"\n')
    monkeypatch.setenv("ROLLOUTHUB_TRAINING", str(file))
    settings = read_settings()
    assert (settings.request.repeats, settings.training.tool_parser) == (4, "none")
    assert settings.run_directory("x") != settings.run_directory("x")
    with pytest.raises(ConfigError, match=r"\[training\] does not hold: no setting is named 'tool_parsers'"):
        settings_of({"environments": ["arithmetic"], "training": {"tool_parsers": "none"}}, "here")
    with pytest.raises(ConfigError, match="names no environment"):
        settings_of({}, "here")
    monkeypatch.delenv("ROLLOUTHUB_TRAINING")
    with pytest.raises(ConfigError, match="nothing says what to play"):
        read_settings()


@pytest.mark.live
def test_a_fork_leaves_its_parents_worker_alone_and_opens_its_own(tmp_path: Path) -> None:
    program = (
        "import os\n"
        "from functools import partial\n"
        "from rollouthub.trainers.stream import SampleRequest, rollout_worker\n"
        "from rollouthub.trainers.workers.in_thread import THREAD_WORKERS\n"
        "def play(name):\n"
        "    make = partial(rollout_worker, environments=('arithmetic',), split='train', model='mock/solver')\n"
        f"    worker = THREAD_WORKERS.get('one', partial(make, directory={str(tmp_path)!r} + '/' + name))\n"
        "    print(worker.play_all([SampleRequest('train/0')])[0].outcome.value, flush=True)\n"
        "play('parent')\n"
        "if not os.fork():\n"
        "    raise SystemExit\n"
        "os.wait()\n"
        "if not os.fork():\n"
        "    play('fork')\n"
        "    raise SystemExit\n"
        "os.wait()\n"
        "play('parent')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ran.stdout.split(), ran.returncode, ran.stderr) == (["scored"] * 3, 0, "")
    with open_run(tmp_path / "parent") as run:
        assert run.info.status == "finished"
