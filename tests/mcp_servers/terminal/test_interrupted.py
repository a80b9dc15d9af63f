"""A run that is interrupted while an image is built, an agent works or tests run leaves nothing behind."""

import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import started
from tests.mcp_servers.containers import TASKS

SLOW = {"build": "environment/Dockerfile", "agent": "solution/solve.sh", "tests": "tests/test.sh"}


@pytest.fixture
def engine(images: str) -> Generator[Any]:
    """The engine that answers; `images` skips where none does."""
    import docker

    client: Any = docker.from_env()
    yield client
    client.close()


def is_running(engine: Any, command: str) -> bool:
    """Whether a process with this command line is in any container."""
    import docker.errors

    for container in engine.containers.list(sparse=True):
        try:
            processes: list[list[str]] | None = container.top()["Processes"]
        except docker.errors.APIError:  # it has just ended
            continue
        if any(command in " ".join(process) for process in processes or []):
            return True
    return False


@pytest.mark.parametrize(
    "moment", [pytest.param("build", marks=pytest.mark.live), pytest.param("agent", marks=pytest.mark.live), "tests"]
)
def test_what_is_interrupted_at_any_moment_leaves_nothing(
    images: str, engine: Any, tmp_path: Path, moment: str
) -> None:
    task = Path(shutil.copytree(TASKS / "greeting", tmp_path / "greeting"))
    waiting = f"sleep 600.{secrets.randbelow(10**9)}"
    slow = task / SLOW[moment]
    first, _, rest = slow.read_text().partition("\n")
    slow.write_text(f"{first}\n{'RUN ' if moment == 'build' else ''}{waiting}\n{rest}")

    command = ("run", "terminal", "--set", "data=greeting", "-a", "oracle", "-o", "run")
    with started(tmp_path, *command, ROLLOUTHUB_IMAGES=images) as run:
        end = time.monotonic() + 120
        while not is_running(engine, waiting):
            assert run.poll() is None, run.communicate()
            assert time.monotonic() < end, "the moment never came"
        run.send_signal(signal.SIGINT)
        if moment != "build":  # where the first lets what is in flight finish
            assert run.stderr is not None
            assert any("in flight" in line for line in run.stderr)
            run.send_signal(signal.SIGINT)
        try:
            _, err = run.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            pytest.fail("it did not end")
    assert run.returncode == 130, err
    assert "Traceback" not in err
    assert not engine.containers.list(all=True, sparse=True, filters={"label": f"rollouthub.pid={run.pid}"})
    assert not engine.images.list(filters={"label": f"rollouthub.pid={run.pid}"})
    assert not is_running(engine, waiting)
