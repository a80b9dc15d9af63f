"""A run whose container engine is stopped, or killed, and started again: nothing is lost, and nothing is made up."""

import json
import shutil
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from rollouthub import Outcome
from rollouthub.hosting.local.hosted_episode import BROKEN, CLOSED
from rollouthub.rollout import Rollout
from rollouthub.store import open_run
from tests.cli.conftest import started
from tests.sandboxes.docker.private_engine import PrivateEngine, private_engine
from tests.sandboxes.docker.yard import SAYS

pytestmark = pytest.mark.soak
YARD = Path(__file__).with_name("yard.py")
SIZE, AT_ONCE = 16, 6


@pytest.fixture(scope="module")
def engine() -> Generator[PrivateEngine]:
    with private_engine() as found:
        yield found


def lines(run: subprocess.Popen[str]) -> Generator[str]:
    """What the environment tells, as it comes."""
    assert run.stderr is not None
    for line in run.stderr:
        if line.startswith("yard: "):
            yield line.removeprefix("yard: ").strip()


def until_some_are_committed(run: subprocess.Popen[str], directory: Path, count: int) -> None:
    """Wait until rollouts are on disk while others are at work."""
    for line in lines(run):
        if line == "verified":
            with open_run(directory) as reader:
                if sum(reader.outcomes().values()) >= count:
                    return
    pytest.fail(f"the run was over before: {run.stderr.read() if run.stderr else ''}")


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_run_outlasts_its_engine(engine: PrivateEngine, tmp_path: Path, sign: signal.Signals) -> None:
    shutil.copy(YARD, tmp_path)
    command = ("run", "yard.py", "-a", "oracle", "--set", "sandbox=docker", "--set", f"size={SIZE}")
    command += ("-c", str(AT_ONCE), "-o", "run", "--json")
    with started(tmp_path, *command, DOCKER_HOST=engine.host) as run:
        until_some_are_committed(run, tmp_path / "run", 3)
        engine.end(sign)
        (tmp_path / "go-on").touch()
        engine.start()
        out, err = run.communicate(timeout=300)
    assert run.returncode == 0, err
    summary = json.loads(out)
    assert (summary["scored"], summary["rollouts"]) == (SIZE, SIZE)
    assert (summary["mean_reward"], summary["coverage"]) == (1.0, 1.0)
    with open_run(tmp_path / "run") as reader:
        attempts = list(reader.rollouts(effective=False))
        effective = list(reader.rollouts())
    assert {rollout.outcome for rollout in effective} == {Outcome.SCORED}
    assert len(effective) == len({rollout.rollout_id for rollout in effective}) == SIZE
    cut_off = [rollout for rollout in attempts if rollout.outcome is not Outcome.SCORED]
    assert cut_off, "no attempt was under way when the engine went"
    for rollout in cut_off:
        assert rollout.outcome is Outcome.SANDBOX_FAILED, rollout.faults
        assert {fault.boundary for fault in rollout.faults} == {"sandbox"}
        assert rollout.score is None
        assert any(later.rollout_id == rollout.rollout_id for later in effective)
    assert all(kind.startswith("sandbox:") for kind in summary["attempt_faults"])
    assert sum(summary["attempt_faults"].values()) == len(cut_off)
    said = {text for rollout in attempts for text in said_by_tools(rollout)}
    assert said <= {SAYS, BROKEN, CLOSED}
    assert all(said_by_tools(rollout) == [SAYS] for rollout in effective)
    assert err.count("is away") == err.count("is back") <= 1, err
    assert engine.containers() == []


def said_by_tools(rollout: Rollout) -> list[str]:
    """What the agent was told, call by call."""
    calls = [call for turn in rollout.turns for call in turn.tool_calls]
    return ["".join(getattr(block, "text", "") for block in call.result.content) for call in calls]
