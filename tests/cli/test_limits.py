"""`hub run` under limits of the whole run: how it ends, what it says, and that kills change nothing of it."""

import random
import shutil
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from rollouthub.engine.resumption import used_so_far
from rollouthub.settings import seconds_of
from rollouthub.store import open_run

from .conftest import Hub, started
from .inside import Inside, hub_inside
from .test_bad_input import _until_a_rollout_is_there  # pyright: ignore[reportPrivateUsage]  # one wait, two files

THREE_THOUSAND = ("-c", "4", "--set", "size=3000", "-o", "run")
LIMITED = ("run", "arithmetic", "-m", "mock/solver?latency=0.002", *THREE_THOUSAND)
UNHURRIED = ("run", "arithmetic", "-m", "mock/solver?latency=0.05", *THREE_THOUSAND)
"""At most 80 rollouts a second, so that a limit of 60,000 tokens is more than a second away."""
PRICES = ("--price-prompt", "10", "--price-output", "10")
EACH = 700
"""Tokens of a rollout, at most."""


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Inside]:
    """The command line, inside this process."""
    with hub_inside(tmp_path, monkeypatch) as call:
        yield call


def test_a_run_stopped_by_a_limit_says_so_everywhere(inside: Inside) -> None:
    done = inside(*LIMITED, *PRICES, "--run-cost", "0.1")
    assert done.code == 1
    assert "stopped: the run's limit of $0.1 is reached" in done.out
    assert "hub run --resume -o run" in done.out
    shown = inside("show", "run", "--json").json
    assert shown["status"] == "interrupted"
    assert shown["stopped"].endswith("--resume with a higher --run-cost goes on")
    assert 0.1 <= shown["cost"] < 0.2
    assert "stopped: the run's limit" in inside("show", "run").out
    more = inside("run", "--resume", "-o", "run", "--limit", "30", "--run-cost", "99", "--json")
    assert (more.code, more.json["stopped"]) == (0, None)
    assert "request.run_limits.max_cost: 0.1 → 99.0" in inside("show", "run").out


def test_time_ends_a_run_and_may_cut_episodes_short(inside: Inside) -> None:
    slow = ("run", "arithmetic", "-m", "mock/solver?latency=30", "-c", "3", "-o", "run", "--json")
    done = inside(*slow, "--run-seconds", "1.5s", "--at-limit", "cancel")
    assert done.code == 1
    assert done.json["outcomes"] == {"cancelled": 3}
    assert "limit of 1.5 s is reached" in done.json["stopped"]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (("--run-seconds", "soon"), "--run-seconds 'soon' is no time above 0; say it as 90s, 15m or 2h"),
        (("--run-seconds", "0m"), "no time above 0"),
        (("--run-cost", "1"), "the price of mock/solver?latency=0.002: give --price-prompt"),
        (("--at-limit", "cancel"), "an ending needs a limit"),
        (("--at-limit", "explode", "--run-tokens", "9"), "run_limits.ending"),
    ],
)
def test_limits_that_cannot_hold_are_refused(inside: Inside, given: tuple[str, ...], complaint: str) -> None:
    assert complaint in inside(*LIMITED, *given).refused()


@pytest.mark.parametrize(
    ("given", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("1.5 h", 5400), (".5min", 30), ("2d", 172800)]
)
def test_times_are_given_as_people_say_them(given: str, seconds: float) -> None:
    assert seconds_of("--run-seconds", given) == seconds


@pytest.mark.parametrize("kills", [1, pytest.param(25, marks=pytest.mark.soak)])
def test_what_killed_drivers_spent_is_counted_once(hub: Hub, tmp_path: Path, kills: int) -> None:
    moments, run = random.Random(kills), tmp_path / "run"
    limit = 60_000 * kills
    before: dict[str, int] = {}
    for _ in range(kills):
        with started(tmp_path, *UNHURRIED, "--resume", "--run-tokens", str(limit), "-q") as driver:
            _until_a_rollout_is_there(run, driver)
            try:
                driver.wait(moments.uniform(0.05, 0.3))
            except subprocess.TimeoutExpired:
                driver.send_signal(signal.SIGKILL)
            driver.wait(10)
        with open_run(run) as reader:
            now = {row.rollout_id: row.output_tokens for row in reader.summaries(effective=False)}
            assert len(now) == len(list(reader.summaries(effective=False))), "an attempt is there twice"
        assert before.items() <= now.items(), "a rollout was lost, or played again"
        before = now
    rest = hub("run", "--resume", "-o", "run")
    assert rest.code == 1
    assert f"WARNING rollouthub.engine.run_limits: 95 % of the run's limit of {limit:,} tokens is used up" in rest.err
    used = used_so_far(run)
    assert limit <= used.tokens <= limit + 4 * EACH, "what is in flight finishes, and nothing counts afresh"
    with open_run(run) as reader:
        assert reader.info.status == "interrupted"
        assert len(before) < sum(reader.outcomes().values()) == reader.totals().attempts


def test_a_run_whose_environment_is_elsewhere_says_how_to_go_on(inside: Inside, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    shutil.copy(Path(__file__).parents[2] / "examples" / "dice.py", here)
    assert inside("run", "here/dice.py", "--limit", "2", "-o", "run").code == 0
    here.rename(there)
    said = inside("run", "--resume", "-o", "run", "--limit", "4").refused()
    assert "run was made with 'here/dice.py', which is not here" in said
    command = ("run", "there/dice.py", "--config", "run/resolved.json", "--resume", "-o", "run", "--limit", "4")
    assert inside(*command, "--json").json["scored"] == 4
    assert "request.environments.0: 'here/dice.py' → 'there/dice.py'" in inside("show", "run").out
