"""`hub live` against a hub in a process of its own."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from rollouthub import Outcome, Stop
from rollouthub.cli.main import app
from rollouthub.errors import UsageError
from rollouthub.live.control import live_client as client
from rollouthub.live.control.socket_folder import find_sockets
from rollouthub.store import open_run
from tests.cli.conftest import HUB, environment, started

BETWEEN_LOOKS = 0.01
"""Seconds: a test that looked all the time would take the processor from what it waits for."""
Live = Callable[..., Result]


@pytest.fixture
def live(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    """Runs `hub live` with arguments."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))

    def only(environ: Mapping[str, str]) -> tuple[Path, ...]:
        return (runtime / "rollouthub",)  # and not where other tests' hubs may be

    monkeypatch.setattr(client, "socket_folders", only)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["live", *arguments])

    return run


Process = subprocess.Popen[str]


@pytest.fixture
def slow(tmp_path: Path, runtime: Path) -> Generator[Process]:
    """A run whose model takes its time."""
    arguments = ("run", "arithmetic", "-m", "mock/solver?latency=100", "--limit", "6", "-c", "3", "-o", "run", "--json")
    with started(tmp_path, *arguments, XDG_RUNTIME_DIR=str(runtime)) as process:
        while not find_sockets((runtime / "rollouthub",)):
            assert process.poll() is None
            time.sleep(BETWEEN_LOOKS)
        yield process


def listed(live: Live) -> Any:
    done = live("--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def in_flight(live: Live, count: int, over: Collection[str] = ()) -> list[str]:
    """The rollouts in flight, once there are so many, and none of those that are to be over."""
    while True:
        (hub,) = listed(live)
        names = [view["rollout_id"] for view in hub["rollouts"]]
        if len(names) == count and not set(names) & set(over):
            return names
        time.sleep(BETWEEN_LOOKS)


def test_a_run_is_seen_steered_and_ended_from_outside(live: Live, slow: Process, tmp_path: Path) -> None:
    one, other, third = in_flight(live, 3)
    assert (listed(live)[0]["run"]["directory"], listed(live)[0]["run"]["pid"]) == (str(tmp_path / "run"), slow.pid)
    table = live().stdout
    for word in (one, "running", "0/6 done", "3 in flight", "model", "mock/solver?latency=100"):
        assert word in table

    check_suggestions(live, one)
    assert "agent tool_loop" in live("show", one[:8]).stdout
    assert json.loads(live("show", one, "--json", "--content").stdout)["rollout_id"] == one
    assert "goes on with max_turns 2" in live("retune", third, "--max-turns", "2").stdout
    assert live("retune", "--concurrency", "4").exit_code == 0
    in_flight(live, 4)
    assert json.loads(live("cancel", one, "--json").stdout)["message"].startswith(f"{one} is cancelled")
    assert "verified and scored" in live("interrupt", other, "--run", str(tmp_path / "run")).stdout
    with started(tmp_path, "live", "events", "run", "--json") as follower:
        assert follower.stdout is not None
        in_flight(live, 4, over=(one, other))  # two more have taken their places
        assert live("interrupt", "--all").exit_code == 0
        assert listed(live)[0]["run"]["status"] == "finishing"
        while not listed(live)[0]["run"]["followers"]:
            assert follower.poll() is None, follower.communicate()
            time.sleep(BETWEEN_LOOKS)
        assert live("cancel", "--all", "--yes").exit_code == 0
        events = [json.loads(line) for line in follower.stdout]
        assert follower.wait(60) == 0
    out, err = slow.communicate(timeout=60)
    assert slow.returncode == 130, err
    assert json.loads(out)["status"] == "interrupted"
    assert events[-1]["kind"] == "run_ended"
    assert {event["outcome"] for event in events if event["kind"] == "finished"} == {"cancelled"}
    with open_run(tmp_path / "run") as reader:
        ends = {row.rollout_id: (row.outcome, row.stop) for row in reader.summaries()}
    assert ends[one] == (Outcome.CANCELLED, Stop.CANCELLED)
    assert ends[other] == (Outcome.SCORED, Stop.INTERRUPTED)
    assert listed(live) == []


def test_a_run_is_paused_told_and_asked_for_another_attempt(live: Live, slow: Process, tmp_path: Path) -> None:
    one, other, _ = in_flight(live, 3)
    assert "starts nothing new" in live("pause").stdout
    assert "paused" in live().stdout
    assert json.loads(live("tell", one[:10], "Hurry up.", "--json").stdout)["message"].startswith(f"{one} is told")
    live("interrupt", one)
    live("cancel", other)
    in_flight(live, 1, over=(one, other))
    assert f"{other} is played again" in live("retry", other, "--run", "run").stdout
    problem = live("retry", other).exception
    assert "waits to be played" in str(problem)
    assert "goes on" in live("resume", "--run", str(tmp_path / "run")).stdout
    in_flight(live, 3)
    assert live("cancel", "--all", "--yes").exit_code == 0
    slow.communicate(timeout=60)
    with open_run(tmp_path / "run") as reader:
        told = reader.rollout(one)
        assert [summary.attempt for summary in reader.attempts(other)] == [0, 1]
    assert [said.text for said in told.told] == ["Hurry up."]
    assert (told.outcome, told.trainable) == (Outcome.SCORED, False)


def test_a_killed_hub_is_gone_at_once_and_its_socket_with_it(live: Live, slow: Process, runtime: Path) -> None:
    assert len(listed(live)) == 1
    slow.send_signal(signal.SIGKILL)
    slow.wait(10)
    assert len(list((runtime / "rollouthub").iterdir())) == 1
    assert listed(live) == []
    assert "No hub of yours plays here" in live().stdout
    assert list((runtime / "rollouthub").iterdir()) == []


def check_suggestions(live: Live, one: str) -> None:
    """Rollouts and runs that are not there."""
    for command in ("show", "cancel", "interrupt"):
        problem = live(command, one[:-3] + "x-0").exception
        assert isinstance(problem, UsageError)
        assert f"did you mean '{one}'" in str(problem)
    problem = live("events", "rum").exception
    assert isinstance(problem, UsageError)
    assert "did you mean 'run'" in str(problem)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("events",), "no hub of yours plays here; start one"),
        (("show", "abc"), "no hub of yours plays here"),
        (("cancel", "--all"), "no hub of yours plays here"),
        (("pause",), "no hub of yours plays here; start one"),
        (("tell", "abc", "hello"), "no hub of yours plays here"),
        (("retry", "abc"), "no hub of yours plays here"),
        (("cancel",), "name a rollout (`hub live` lists those in flight), or say --all"),
        (("interrupt", "abc", "--all"), "abc or --all: which of the two?"),
        (("retune",), "say what to change"),
        (("retune", "--max-turns", "3"), "--max-turns is a limit of one rollout"),
        (("retune", "abc"), "say which limit of abc"),
        (("retune", "abc", "--max-turns", "3", "-c", "2"), "change one at a time"),
    ],
)
def test_what_cannot_be_done_is_said_as_a_usage_error(live: Live, arguments: tuple[str, ...], says: str) -> None:
    problem = live(*arguments).exception
    assert isinstance(problem, UsageError)
    assert says in str(problem)


def test_a_usage_error_leaves_with_2(runtime: Path) -> None:
    done = subprocess.run(
        [*HUB, "live", "cancel"], env=environment(XDG_RUNTIME_DIR=str(runtime)), capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"--all" in done.stderr
