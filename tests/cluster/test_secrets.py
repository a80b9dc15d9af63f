"""What Ray keeps, shows and logs of a run, and what the driver logs of its workers: no key, and no answer."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub.cluster.local_cluster import rays_environment, require_token
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run import play_run
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.models.credentials import Credentials
from rollouthub.processes import IMPORT_SETTINGS, PYTHON
from tests.models.servers import mock_server

from .conftest import Watched

KEY, ANSWER = "sk-" + "k3y" * 8, "the-secret-answer-77"
GUARDED = f'''
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task

class Answer(Secret):
    answer: str

class Guarded(Environment[EnvironmentConfig]):
    """Has an answer that nobody may see."""

    @classmethod
    def tasks(cls, config, split, seed):
        for index in range(40):
            yield Task(Public(id=f"test/{{index}}", prompt="?"), Answer(answer="{ANSWER}"))

    async def setup(self):
        if self.task.id == "test/3":
            raise RuntimeError("broken in setup")

    async def verify(self, submission):
        return Score(reward=float(submission.answer == self.task.secret.answer), passed=False)
'''


def kept_by_ray(ray: Any) -> Iterator[tuple[str, bytes]]:
    """Every file of the cluster's session, and what its head says of actors and jobs."""
    session = Path("/tmp/ray") / ray.get_runtime_context().get_session_name()
    for path in session.rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes()
    from ray._private import state  # the state API would need a dashboard

    known: Any = state

    yield "actors", repr(known.actors()).encode()
    yield "jobs", repr(known.jobs()).encode()


async def test_no_key_and_no_answer_is_kept_shown_or_logged(
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "guarded.py"
    file.write_text(GUARDED)
    stop, pids = StopSignal(), list[int]()

    def kill_one(run: Watched) -> None:
        if not pids and run.committed_count >= 5:
            pids.extend(status.pid for status in run.pool.status())
            for pid in pids:
                assert KEY.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
                assert KEY.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
            os.kill(pids[0], signal.SIGKILL)

    watched = Watched(tmp_path / "run", LiveRun(stop), stop, on_commit=kill_one)
    with anyio.fail_after(60):
        async with mock_server("mock/solver?latency=0.1", KEY) as url:
            request = RunRequest(
                environments=(str(file),),
                model="openai/served",
                base_url=(url,),
                pool="ray",
                workers=2,
                concurrency=4,
                track=(),
            )
            await play_run(
                make_plan(request),
                watched.directory,
                given="",
                resume=False,
                credentials=Credentials({"OPENAI_API_KEY": KEY}),
                observer=watched,
                stop=stop,
                live=watched.live,
            )
    assert pids, "a worker was killed, so that there was something to be said of it"
    seen = dict(kept_by_ray(cluster))
    assert any(b"Worker" in text for text in seen.values()), "this is where Ray keeps what it knows of actors"
    for secret in (KEY, ANSWER):
        assert [name for name, text in seen.items() if secret.encode() in text] == []
        assert secret not in caplog.text
    for path in watched.directory.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()


INTRUDER = """
import sys, ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
except ConnectionError:
    sys.exit("kept out")
print("came in", ray.nodes())
"""


def test_who_reaches_a_cluster_of_this_machine_needs_its_token(cluster: Any, tmp_path: Path) -> None:
    address = str(cluster.get_runtime_context().gcs_address)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    for more, said in (({"RAY_AUTH_MODE": "disabled"}, "kept out"), ({"RAY_AUTH_MODE": "token"}, "came in")):
        done = subprocess.run(
            [*PYTHON, "-c", INTRUDER, address],
            env={**variables, "RAY_NUM_REDIS_GET_RETRIES": "1", **more},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert said in done.stdout + done.stderr


def test_a_cluster_s_token_is_its_user_s_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    require_token()
    token = tmp_path / ".ray" / "auth_token"
    made = token.read_text()
    assert (len(made), token.stat().st_mode & 0o777, os.environ["RAY_AUTH_MODE"]) == (64, 0o600, "token")
    token.chmod(0o644)  # as Ray makes it
    require_token()
    assert (token.read_text(), token.stat().st_mode & 0o777) == (made, 0o600)
    assert [path.name for path in token.parent.iterdir()] == ["auth_token"]
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    token.unlink()
    require_token()
    assert not token.exists()


def test_a_cluster_is_started_with_ray_s_own_variables_and_none_that_looks_like_a_secret() -> None:
    ours = {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": KEY, "RAY_TLS_SERVER_KEY": "/key.pem", "LANG": "C"}
    theirs = {"OPENAI_API_KEY": KEY, "DATABASE_URL": "postgres://me:word@host/db"}
    assert rays_environment({**ours, **theirs}) == IMPORT_SETTINGS | ours
