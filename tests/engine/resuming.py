"""A run that can be taken up again, and what is left of it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from rollouthub import Rollout
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run import play_run
from rollouthub.engine.run_request import RunRequest, build_request
from rollouthub.engine.run_summary import RunSummary, summarise
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.models.credentials import Credentials
from rollouthub.store import open_run

HALF_BROKEN = '''
from pathlib import Path
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task
from rollouthub.messages import assistant

class HalfBroken(Environment[EnvironmentConfig]):
    """Odd tasks break while the file `broken` is there."""

    @classmethod
    def tasks(cls, config, split, seed):
        for index in range(100):
            yield Task(Public(id=f"test/{index}", prompt="?"), Secret())

    async def setup(self):
        if int(self.task.id.split("/")[1]) % 2 and Path(__file__).with_name("broken").exists():
            raise RuntimeError("odd")

    def reference(self):
        return [assistant("!")]

    async def verify(self, submission):
        return Score(reward=1.0, passed=True)
'''


class Watching:
    """Hears how a run starts."""

    planned = done = -1

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        self.planned, self.done = planned, done

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Nothing to note."""

    def stopped(self, reason: str) -> None:
        """Nothing to note."""


def half_broken(folder: Path) -> Path:
    """The file of an environment that is half broken."""
    (folder / "broken").touch()
    file = folder / "half_broken.py"
    file.write_text(HALF_BROKEN)
    return file


async def play(request: RunRequest, directory: Path, *, resume: bool = False) -> Watching:
    """Collect a run, or go on with it."""
    watching = Watching()
    with anyio.fail_after(20):
        await play_run(
            make_plan(request),
            directory,
            given="",
            resume=resume,
            credentials=Credentials(),
            observer=watching,
            stop=StopSignal(),
        )
    return watching


def asked(world: Path, **more: Any) -> RunRequest:
    """A run of an environment of files, without retries."""
    values = {"environments": [str(world)], "agent": "null", "retries": {"infrastructure": 0}, **more}
    return build_request(values, "test")


def summed_up(directory: Path) -> RunSummary:
    """What a run came to."""
    with open_run(directory) as reader:
        return summarise(reader)


def stored(directory: Path) -> tuple[Any, Any]:
    """The settings a run goes on with: for readers, and for a bare resume."""
    with open_run(directory) as reader:
        return reader.info.resolved["request"], json.loads((directory / "resolved.json").read_text())["request"]
