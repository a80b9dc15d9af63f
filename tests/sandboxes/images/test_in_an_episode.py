"""Images that an episode turns out to need: told of, and on nobody's time."""

from pathlib import Path

import anyio
import pytest

from rollouthub.limits import charged, uncharged
from rollouthub_sandboxes.engine.engine import Engine
from rollouthub_sandboxes.images import ensure_image
from tests.cli.conftest import Hub
from tests.cli.conftest import hub as hub

LATE = """
from rollouthub import Environment, Public, Score, Secret, Task
from rollouthub.environment import SandboxedConfig
from rollouthub.sandbox import Build, SandboxSpec

class Late(Environment[SandboxedConfig]):
    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="Rest."), Secret())

    async def verify(self, submission):
        async with self.open_sandbox(SandboxSpec(image=Build(context="context"))) as sandbox:
            return Score(reward=float((await sandbox.exec("cat /built")).stdout == "so\\n"))
"""


@pytest.mark.soak
async def test_a_build_for_the_verifier_is_told_of_and_counts_towards_no_deadline(
    engine: Engine, folder: Path, tmp_path: Path, hub: Hub
) -> None:
    base = (await ensure_image(engine, None)).reference
    (folder / "Dockerfile").write_text(f"FROM {base}\nCOPY salt /salt\nRUN sleep 9; echo so > /built\n")
    (tmp_path / "late.py").write_text(LATE.replace('"context"', repr(str(folder))))
    limits = ("--verify-timeout", "5s", "--episode-timeout", "6s", "--retries", "0")
    done = hub("run", "late.py", "-a", "null", *limits, "-o", "run")
    assert done.code == 0, done.err + done.out
    assert "images: 0 of 1 ready, " in done.err
    assert "/context is built" in done.err


async def test_a_deadline_goes_on_where_it_stood_when_the_last_build_is_over() -> None:
    with anyio.move_on_after(1000) as scope, charged(scope):
        deadline = scope.deadline
        with uncharged():
            assert scope.deadline == float("inf")
            with uncharged():
                pass
            assert scope.deadline == float("inf"), "one of two is over"
            began = anyio.current_time()
            await anyio.sleep(0.01)
            took = anyio.current_time() - began
        assert scope.deadline >= deadline + took
        with uncharged():
            scope.deadline = given = anyio.current_time() + 5
        assert given <= scope.deadline < given + 5
    assert not scope.cancelled_caught
