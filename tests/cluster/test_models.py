"""Models on a Ray cluster of this machine, with a program that stands in for vLLM: up, found by a run, down."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cluster.brought_up import Pool, check_complete
from tests.cluster.models.test_supervisor import is_running
from tests.cluster.standing_in import model_folder, stand_in

pytestmark = pytest.mark.live
NAME = "mock/solver"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Generator[Pool]:
    """Two servers of a mock model on a cluster of their own, which has gone after the tests."""
    folder = tmp_path_factory.mktemp("pool")
    pool = Pool(folder)
    mock = "mock/solver?latency=0.1"
    command = ("--command", stand_in(folder), "--", "--mock", mock)
    done = pool.hub("model", "up", model_folder(folder), "--name", NAME, "-n", "2", *command)
    try:
        assert done.code == 0, done.err
        yield pool
    finally:
        pool.hub("model", "down", "--all")


async def test_a_run_finds_the_servers_and_outlives_one_of_them(pool: Pool) -> None:
    run = pool.folder / "run"
    arguments = ("arithmetic", "-m", f"hosted_vllm/{NAME}", "--limit", "150", "-c", "8", "-o", run)
    with pool.started("run", *arguments) as process:
        await pool.kill_in_mid_run(NAME, run, 20)
        _, told = process.communicate(timeout=120)
    assert process.returncode == 0, told
    assert "2 servers that `hub serve model` keeps" in told
    check_complete(run, 150)
    servers = await pool.until_back(NAME, 60)
    assert [server["restarts"] for server in servers] == [1, 0]


def test_a_model_that_is_up_is_not_brought_up_twice(pool: Pool) -> None:
    done = pool.hub("model", "up", pool.folder / "small", "--name", NAME, "--command", pool.folder / "vllm")
    assert f"hub model stop {NAME}" in done.refused()


def test_what_is_taken_down_leaves_nothing_behind(pool: Pool) -> None:
    pids = [server["pid"] for server in pool.servers(NAME)]
    assert len(pids) == 2
    assert all(map(is_running, pids))
    assert pool.hub("model", "down", NAME).code == 0
    assert not any(map(is_running, pids))
    assert pool.servers(NAME) == []
    assert _processes_of(pool.folder) == []


def test_a_model_of_sglang_is_found_by_its_name(pool: Pool) -> None:
    command = ("--command", stand_in(pool.folder, "sglang"), "--", "--mock", "mock/solver")
    up = ("--name", "solver", "--engine", "sglang", "-n", "2", *command)
    done = pool.hub("model", "up", pool.folder / "small", *up)
    try:
        assert done.code == 0, done.err
        assert "hub run ENV -m sglang/solver" in done.out
        assert "--tool-call-parser PARSER" in done.err
        run = pool.folder / "played"
        played = pool.hub("run", "arithmetic", "-m", "sglang/solver", "--limit", "12", "-o", run)
        assert played.code == 0, played.err
        check_complete(run, 12)
        assert "did you mean 'sglang/solver'" in pool.hub("run", "arithmetic", "-m", "hosted_vllm/solver").refused()
    finally:
        assert pool.hub("model", "down", "solver").code == 0


def _processes_of(folder: Path) -> list[str]:
    """What runs for the models of a state folder: servers, their guards, and the cluster's own process."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found
