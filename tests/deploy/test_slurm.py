"""The Slurm script on this machine: Ray and the hub are real; `srun` and `scontrol` are stand-ins for one node."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from rollouthub.store import open_run

from .conftest import DEPLOY

pytestmark = pytest.mark.live
STUBS = Path(__file__).parent / "stubs"
RUN = """
environments = ["arithmetic"]
model = "mock/solver?latency=0.5"
limit = 60
concurrency = 4
workers = 1
"""


def free_port() -> int:
    """Below the range that Ray gives its workers."""
    for port in range(7400, 7500):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise AssertionError


def job(folder: Path, port: int) -> subprocess.Popen[str]:
    """The script, begun as Slurm would begin it."""
    environment = {
        "PATH": f"{STUBS}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "localhost",
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_TMPDIR": str(folder),
        "RAY_PORT": str(port),
        "PUBLISH_SECONDS": "1",
        "ASKED_OF_SLURM": str(folder / "asked"),
    }
    command = ["bash", str(DEPLOY / "slurm.sh"), str(folder / "run.toml"), str(folder / "shared"), "--quiet"]
    return subprocess.Popen(command, env=os.environ | environment, stderr=subprocess.PIPE, text=True)


def published(folder: Path) -> int:
    """Rollouts in the shared folder's copy."""
    file = folder / "shared" / "run.db"
    if not file.exists():
        return 0
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return connection.execute("SELECT count(*) FROM rollouts").fetchone()[0]


def running(port: int) -> list[str]:
    """Processes of the job's own Ray cluster."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if "ray" in line and f":{port}" in line:
            found.append(line[:200])
    return found


def test_a_job_told_that_its_time_is_over_goes_on_where_it_was_when_it_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(RUN)
    port = free_port()
    first = job(tmp_path, port)
    deadline = time.monotonic() + 120
    while not published(tmp_path):
        assert first.poll() is None, first.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.2)
    first.send_signal(signal.SIGUSR1)
    _, errors = first.communicate(timeout=90)
    assert first.returncode == 130, errors
    assert (tmp_path / "asked").read_text() == "requeue 7\n"
    kept = published(tmp_path)
    assert 1 <= kept < 60
    assert running(port) == []
    second = job(tmp_path, port)
    _, errors = second.communicate(timeout=180)
    assert second.returncode == 0, errors
    with open_run(tmp_path / "shared") as reader:
        rows = list(reader.summaries())
    assert len(rows) == len({row.rollout_id for row in rows}) == 60
    assert {row.outcome.value for row in rows} == {"scored"}
    assert running(port) == []
    assert sorted(path.name for path in tmp_path.glob("rollouthub-*")) == []
