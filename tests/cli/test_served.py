"""Runs whose environments live in processes of their own: started, watched, replaced, and gone afterwards."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollouthub.store import open_run

from .conftest import Hub, started

BETWEEN_LOOKS = 0.01
"""Seconds: a test that looked all the time would take the processor from what it waits for."""
DICE = '''
import os
from pathlib import Path
from rollouthub import Environment, EnvironmentConfig, Message, ModelRequest, Public, Score, Secret, Task, tool

Path(os.environ["IMPORTED_BY"]).open("a").write(f"{os.getpid()}\\n")

class Dice(Environment[EnvironmentConfig]):
    """Somebody else's dice."""

    @classmethod
    def tasks(cls, config, split, seed):
        for index in range(5):
            yield Task(Public(id=f"test/{index}", prompt="roll"), Secret(answer="six"))

    @classmethod
    def roles(cls, config):
        return ("judge",)

    @tool
    async def variables(self) -> list[str]:
        """The names of the variables this process has."""
        return sorted(os.environ)

    def reference(self):
        return (Message.model_validate({"role": "assistant", "tool_requests": [
            {"id": "1", "name": "variables", "arguments": "{}"}]}),
            Message(role="assistant", content="six"))

    async def verify(self, submission):
        reply = await self.models["judge"].generate(
            ModelRequest(messages=(Message(role="user", content=submission.final),)))
        return Score(reward=float(reply.message.text == "six"))
'''


def marked(mark: str) -> list[int]:
    """The servers that a test's hub started: living processes that carry its mark and serve."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if (
                    mark.encode() in (folder / "environ").read_bytes()
                    and b"serve-env" in (folder / "cmdline").read_bytes()
                ):
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def wait_for(what: Callable[[], Any], seconds: float = 60) -> Any:
    """Ask again until there is something."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(BETWEEN_LOOKS)
    return found


def committed(directory: Path) -> int:
    """Rollouts that are durable now."""
    if not (directory / "run.db").exists():
        return 0
    with open_run(directory) as reader:
        return sum(1 for _ in reader.summaries())


@pytest.fixture
def mark(tmp_path: Path) -> str:
    """A variable's value that only this test's processes have, which hide their variables from all but root."""
    if os.geteuid() != 0:
        pytest.skip("only root sees the variables of a hub's processes")
    return f"mark-{tmp_path.name}-{time.monotonic_ns()}"


def test_a_served_environment_is_played_and_leaves_nothing_behind(hub: Hub, tmp_path: Path, mark: str) -> None:
    done = hub(
        "run", "arithmetic", "--served", "-m", "mock/solver", "--limit", "40", "-o", "run", "--json", WITH_MARK=mark
    )
    assert done.code == 0, done.err
    assert done.json["scored"] == 40
    assert done.json["mean_reward"] == 1.0
    with open_run(tmp_path / "run") as reader:
        assert {reader.rollout(row.rollout_id).isolation for row in reader.summaries()} == {"process"}
    assert marked(mark) == []


def test_a_killed_hub_leaves_no_server_behind(tmp_path: Path, mark: str) -> None:
    slow = "mock/solver?latency=0.2..0.4"
    with started(tmp_path, "run", "arithmetic", "--served", "-m", slow, "-o", "run", "-q", WITH_MARK=mark) as run:
        wait_for(lambda: (tmp_path / "run" / "run.db").exists())
        assert len(marked(mark)) == 1
        run.send_signal(signal.SIGKILL)
        run.wait(10)
    wait_for(lambda: not marked(mark))


@pytest.mark.parametrize("blow", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.soak)])
def test_a_server_that_dies_or_hangs_is_replaced_and_the_run_goes_on(
    tmp_path: Path, mark: str, blow: signal.Signals
) -> None:
    seconds = 1 if blow is signal.SIGSTOP else 30  # what hangs is noticed at a deadline, what is dead at once
    config = tmp_path / "run.toml"
    config.write_text(
        'environments = ["arithmetic"]\nserved = true\nmodel = "mock/solver?latency=0.1..0.2"\nlimit = 150\n'
        f"concurrency = 8\n[deadlines]\nsetup = {seconds}\ntool_call = {seconds}\nverify = {seconds}\n"
        f"close = {seconds}\n"
    )
    with started(tmp_path, "run", "--config", config, "-o", "run", "--json", WITH_MARK=mark) as run:
        wait_for(lambda: committed(tmp_path / "run"))
        (victim,) = marked(mark)
        os.kill(victim, blow)
        output, errors = run.communicate(timeout=100)
    assert run.returncode == 0, errors
    assert '"scored": 150' in output
    assert "environment" in output.partition('"attempt_faults"')[2].partition("}")[0]
    assert victim not in marked(mark)


FROZEN = """
import time
from pathlib import Path
from rollouthub import Environment, EnvironmentConfig, Message, Public, Score, Secret, Task, tool

class FrozenConfig(EnvironmentConfig):
    at: str

def freeze(config, where):
    if config.at == where:
        Path(f"frozen-{where}").touch()
        time.sleep(3600)

class Frozen(Environment[FrozenConfig]):
    @classmethod
    async def prepare(cls, config):
        freeze(config, "prepare")

    @classmethod
    def tasks(cls, config, split, seed):
        freeze(config, "tasks")
        for index in range(20):
            yield Task(Public(id=str(index), prompt="?"), Secret())

    async def setup(self):
        freeze(self.config, "setup")

    def reference(self):
        return (Message(role="assistant", content="."),)

    async def verify(self, submission):
        freeze(self.config, "verify")
        return Score(reward=1.0)
"""


@pytest.mark.parametrize(
    ("place", "signals"),
    [
        ("prepare", [signal.SIGINT]),
        ("tasks", [signal.SIGINT]),
        ("setup", [signal.SIGTERM]),
        pytest.param("verify", [signal.SIGINT, signal.SIGINT], marks=pytest.mark.soak),
    ],
)
def test_a_run_whose_server_is_frozen_still_stops_when_told_to(
    tmp_path: Path, mark: str, place: str, signals: list[signal.Signals]
) -> None:
    (tmp_path / "frozen.py").write_text(FROZEN)
    command = ["run", "./frozen.py", "--served", "--set", f"at={place}", "-o", "run", "--json"]
    with started(tmp_path, *command, WITH_MARK=mark) as run:
        wait_for((tmp_path / f"frozen-{place}").exists)
        assert len(marked(mark)) == 1
        for told in signals:
            run.send_signal(told)
            assert run.stderr is not None
            while "Ctrl-C again" not in (line := run.stderr.readline()) and "stopping now" not in line:
                assert line, "it left without a word"
        run.communicate(timeout=60)
    assert run.returncode == 130
    assert marked(mark) == []
    if (tmp_path / "run" / "run.db").exists():
        with open_run(tmp_path / "run") as reader:
            assert reader.info.status == "interrupted"
            assert all(row.outcome.value == "cancelled" for row in reader.summaries())


def test_a_server_that_always_dies_ends_the_run_with_its_reason(hub: Hub, tmp_path: Path, mark: str) -> None:
    (tmp_path / "frozen.py").write_text(FROZEN.replace("time.sleep(3600)", "__import__('os')._exit(7)"))
    arguments = ["--served", "--set", "at=setup", "--repeats", "9", "-o", "run", "--json"]
    done = hub("run", "./frozen.py", *arguments, WITH_MARK=mark)
    assert done.code == 1, done.err
    assert "gone for good: exit code 7" in done.json["fault_examples"]["environment:ServerGone"]
    assert "Traceback" not in done.err
    assert marked(mark) == []


def test_several_served_environments_share_a_run_and_its_roles(hub: Hub, tmp_path: Path) -> None:
    settings = ["--set", "customer_service.user=model", "--role", "user=mock/say?text=bye", "--limit", "2"]
    done = hub("run", "arithmetic", "customer_service", "--served", *settings, "-o", "run", "--json")
    assert done.code == 0, done.err
    assert done.json["scored"] == 4


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """A distribution of somebody else's that offers `acme/dice`."""
    site = tmp_path / "site"
    (site / "acme_dice-1.dist-info").mkdir(parents=True)
    (site / "acme_dice.py").write_text(DICE)
    (site / "acme_dice-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-dice\nVersion: 1\n")
    (site / "acme_dice-1.dist-info" / "entry_points.txt").write_text(
        "[rollouthub.environments]\nacme/dice = acme_dice:Dice\n"
    )
    return {"PYTHONPATH": str(site), "IMPORTED_BY": str(tmp_path / "imported_by")}


def test_an_installed_environment_gets_its_own_process_without_keys(
    tmp_path: Path, installed: dict[str, str], mark: str
) -> None:
    command = ["run", "acme/dice", "--role", "judge=mock/say?text=six", "-o", "run", "-q"]
    secret = "sk-not-for-environments-1234567"
    with started(tmp_path, *command, WITH_MARK=mark, OPENAI_API_KEY=secret, **installed) as run:
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    imported = {int(line) for line in (tmp_path / "imported_by").read_text().split()}
    assert imported
    assert run.pid not in imported
    with open_run(tmp_path / "run") as reader:
        rollouts = [reader.rollout(row.rollout_id) for row in reader.summaries()]
    assert len(rollouts) == 5
    for rollout in rollouts:
        assert rollout.score is not None
        (call,) = rollout.score.judge_calls
        assert (call.role, call.model, call.response and call.response.text) == ("judge", "mock/say?text=six", "six")
        names = rollout.turns[0].tool_calls[0].result.model_dump_json()
        assert "IMPORTED_BY" in names
        assert "OPENAI_API_KEY" not in names
    everything = b"".join(file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file())
    assert secret.encode() not in everything


def test_a_role_nobody_plays_is_asked_for_by_name(hub: Hub, installed: dict[str, str]) -> None:
    complaint = hub("run", "acme/dice", "-o", "run", **installed).refused()
    assert "--role judge=MODEL" in complaint


def test_an_installed_environment_that_cannot_be_imported_is_a_clear_error(
    hub: Hub, tmp_path: Path, installed: dict[str, str]
) -> None:
    (tmp_path / "site" / "acme_dice.py").write_text("import nothing_of_this_name")
    complaint = hub("run", "acme/dice", "-o", "run", **installed).refused()
    assert "nothing_of_this_name" in complaint


def test_listing_runs_nobody_elses_code(hub: Hub, tmp_path: Path, installed: dict[str, str]) -> None:
    done = hub("list", "--json", **installed)
    assert done.code == 0, done.err
    assert "acme/dice" in done.out
    assert not (tmp_path / "imported_by").exists()


def test_a_server_started_by_hand_says_where_it_is(tmp_path: Path, mark: str) -> None:
    command = ["serve", "env", "arithmetic", "--json", "--control", f"unix:{tmp_path}/c.sock"]
    with started(tmp_path, *command, WITH_MARK=mark, ROLLOUTHUB_CONTROL_TOKEN="token-of-this-test") as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert '"agent_url"' in line
        assert "token-of-this-test" not in line
        server.send_signal(signal.SIGINT)
        assert server.wait(60) in (0, 130)
