"""Real vLLM on the pool: two replicas, one killed in mid-run; and starts that fail.

`ROLLOUTHUB_VLLM` names a vllm executable and `ROLLOUTHUB_VLLM_MODEL_DIR` a small model whose form of tool calls is
Hermes's.
"""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cluster.brought_up import Pool, check_complete
from tests.cluster.models.test_supervisor import is_running
from tests.cluster.standing_in import model_folder, stand_in

pytestmark = pytest.mark.live

EPISODES = 600
START_SECONDS = 400.0


@pytest.fixture
def vllm() -> tuple[str, str]:
    """The executable and the model; skipped aloud where there is none."""
    program, model = os.environ.get("ROLLOUTHUB_VLLM"), os.environ.get("ROLLOUTHUB_VLLM_MODEL_DIR")
    if not program or not model:
        pytest.skip("ROLLOUTHUB_VLLM and ROLLOUTHUB_VLLM_MODEL_DIR name no vllm and model")
    return program, model


@pytest.fixture
def pool(tmp_path: Path) -> Generator[Pool]:
    """No model yet; none left after the test."""
    pool = Pool(tmp_path)
    yield pool
    pool.hub("model", "down", "--all")


async def test_two_replicas_outlive_a_kill_in_mid_run(pool: Pool, vllm: tuple[str, str]) -> None:
    program, model = vllm
    given = ("--max-model-len", "2048", "--max-num-seqs", "64")
    tools = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    up = ("--name", "tiny", "-n", "2", "--command", program, "--start-timeout", str(START_SECONDS))
    done = pool.hub("model", "up", model, *up, "--", *given, *tools, timeout=START_SECONDS + 60)
    assert done.code == 0, done.err
    assert [server["state"] for server in pool.servers("tiny")] == ["healthy", "healthy"]

    run = pool.folder / "run"
    sampling = ("--max-tokens", "64", "--max-turns", "4", "--temperature", "1")
    arguments = ("arithmetic", "-m", "hosted_vllm/tiny", "--limit", str(EPISODES), "-c", "16", *sampling, "-o", run)
    with pool.started("run", *arguments) as process:
        pid, place = await pool.kill_in_mid_run("tiny", run, 20)
        _, told = process.communicate(timeout=400)
    assert process.returncode == 0, told
    assert "takes no calls for now" in told
    check_complete(run, EPISODES)
    assert not place.exists()

    servers = await pool.until_back("tiny", START_SECONDS)
    assert pid not in [server["pid"] for server in servers]
    again = pool.hub("run", "arithmetic", "-m", "hosted_vllm/tiny", "--limit", "8", *sampling, "--json", timeout=120)
    assert again.code == 0, again.err


def test_a_server_that_does_not_come_up_is_shown_with_its_last_words(pool: Pool) -> None:
    command = ("--command", stand_in(pool.folder), "--", "--die", "no such architecture: Marvellous")
    done = pool.hub("model", "up", model_folder(pool.folder), "-n", "2", *command)
    assert done.code == 1
    assert "no such architecture: Marvellous" in done.err
    assert pool.hub("model", "ls", "--json").json == []


def test_more_than_the_cluster_has_is_refused(pool: Pool) -> None:
    command = ("--command", stand_in(pool.folder), "--cpus", "1000")
    told = pool.hub("model", "up", model_folder(pool.folder), *command).refused()
    assert "do not fit into the cluster" in told


def test_the_foreground_ends_with_ctrl_c_and_leaves_nothing(pool: Pool) -> None:
    command = ("--command", stand_in(pool.folder), "--foreground", "--json")
    with pool.started("model", "up", model_folder(pool.folder), *command) as process:
        assert process.stdout is not None
        assert "healthy" in process.stdout.readline()
        (server,) = pool.servers("small")
        assert is_running(server["pid"])
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert not is_running(server["pid"])
    assert pool.hub("model", "ls", "--json").json == []
