"""How runs end before their time: kill -9, Ctrl-C, and going on afterwards."""

import random
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from rollouthub import Outcome
from rollouthub.store import open_run

from .conftest import Hub, started
from .test_bad_input import _until_a_rollout_is_there  # pyright: ignore[reportPrivateUsage]  # one wait, two files

TOTAL = 1500


def arguments(latency: str = "0.002..0.01", concurrency: int = 16, total: int = TOTAL) -> tuple[str, ...]:
    model = f"mock/solver?latency={latency}"
    return (
        "run", "arithmetic", "-m", model, "-c", str(concurrency), "--limit", str(total),
        "--set", f"size={6 * TOTAL}", "-o", "run", "--resume", "--json",
    )  # fmt: skip


def committed(directory: Path) -> dict[str, int]:
    """Rollout id → effective records, as a reader sees them now."""
    with open_run(directory) as reader:
        found: dict[str, int] = {}
        for row in reader.summaries():
            found[row.rollout_id] = found.get(row.rollout_id, 0) + 1
        return found


@pytest.mark.parametrize(("kills", "total"), [(10, TOTAL), pytest.param(50, 6 * TOTAL, marks=pytest.mark.soak)])
def test_kills_lose_no_finished_rollout_and_double_none(hub: Hub, tmp_path: Path, kills: int, total: int) -> None:
    moments = random.Random(7)
    before: dict[str, int] = {}
    for _ in range(kills):
        with started(tmp_path, *arguments(total=total)) as run:
            _until_a_rollout_is_there(tmp_path / "run", run, count=kills + 1)
            try:
                run.wait(moments.uniform(0.1, 0.9))
            except subprocess.TimeoutExpired:
                pass
            else:
                break
            assert run.poll() is None
            run.send_signal(signal.SIGKILL)
            run.wait(10)
        now = committed(tmp_path / "run")
        assert set(before) <= set(now)
        assert set(now.values()) == {1}
        before = now
    assert len(before) > kills
    done = hub(*arguments(total=total), timeout=300)
    assert done.code == 0, done.err
    assert done.json["scored"] == done.json["rollouts"] == total
    assert len(committed(tmp_path / "run")) == total


def test_the_first_interrupt_finishes_what_is_in_flight(hub: Hub, tmp_path: Path) -> None:
    with started(tmp_path, *arguments("0.05", 8)) as run:
        _until_a_rollout_is_there(tmp_path / "run", run)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert "in flight" in err
    assert '"status": "interrupted"' in out
    with open_run(tmp_path / "run") as reader:
        assert set(reader.outcomes()) == {Outcome.SCORED}
        assert reader.live() == []
    done = hub(*arguments("0.05", 64, 100))
    assert done.code == 0, done.err
    assert done.json["outcomes"]["scored"] >= 100


def test_the_second_interrupt_stops_at_once_and_keeps_cancelled_attempts(hub: Hub, tmp_path: Path) -> None:
    with started(tmp_path, *arguments("0.1..5", 40)) as run:
        _until_a_rollout_is_there(tmp_path / "run", run)
        run.send_signal(signal.SIGINT)
        assert run.stderr is not None
        while "in flight" not in run.stderr.readline():
            assert run.poll() is None
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    with open_run(tmp_path / "run") as reader:
        outcomes = reader.outcomes()
        info = reader.info
    assert outcomes[Outcome.CANCELLED] > 0
    assert info.status == "interrupted"


def test_a_term_signal_tidies_up(tmp_path: Path) -> None:
    with started(tmp_path, *arguments("0.1..5", 20)) as run:
        _until_a_rollout_is_there(tmp_path / "run", run)
        run.send_signal(signal.SIGTERM)
        _, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert not (tmp_path / "run" / "run.db-wal").exists()


def test_a_run_interrupted_before_it_began_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        arguments = ("run", "arithmetic", "-m", "hosted_vllm/x", "--base-url", url, "-o", "run", "--json")
        with started(tmp_path, *arguments) as run, silent.accept()[0]:
            run.send_signal(signal.SIGTERM)
            out, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert not out
    assert "error" not in err


def test_a_bare_resume_takes_the_stored_settings(hub: Hub, tmp_path: Path) -> None:
    with started(tmp_path, *arguments("0.2", 8, 40)) as run:
        _until_a_rollout_is_there(tmp_path / "run", run)
        run.send_signal(signal.SIGKILL)
        run.wait(10)
    done = hub("run", "--resume", "-o", "run", "--json")
    assert done.code == 0, done.err
    assert done.json["scored"] == 40


def test_a_resume_takes_the_stored_settings_and_a_new_limit(hub: Hub) -> None:
    assert hub("run", "arithmetic", "--set", "terms=4", "--limit", "2", "-o", "run").code == 0
    done = hub("run", "--resume", "-o", "run", "--limit", "5", "--json")
    assert done.json["scored"] == 5
    assert "request.seed" in hub("run", "--resume", "-o", "run", "--seed", "1").refused()


def test_code_that_ignores_its_cancellation_cannot_hold_the_run(tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    (tmp_path / "run.toml").write_text("[deadlines]\nclose = 0.2\n")
    command = ("run", "stubborn.py", "-a", "null", "--config", "run.toml", "-o", "run", "-c", "1")
    with started(tmp_path, *command) as run:
        assert run.stderr is not None
        assert any("closing for ever" in line for line in run.stderr)
        assert run.poll() is None
        run.send_signal(signal.SIGTERM)
        _, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert "ignores that it is cancelled" in err


STUBBORN = """
import sys, time
from anyio import to_thread
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task

class Stubborn(Environment[EnvironmentConfig]):
    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="0", prompt="wait"), Secret())

    async def verify(self, submission):
        return Score(reward=1.0)

    async def close(self):
        print("closing for ever", file=sys.stderr, flush=True)
        await to_thread.run_sync(time.sleep, 600)
"""
