"""What Ray keeps, shows and logs of a run, and what the driver logs of its workers: no key, and no answer."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub.engine.plan import make_plan
from rollouthub.engine.run import collect
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.models.credentials import Credentials
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
            await collect(
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
