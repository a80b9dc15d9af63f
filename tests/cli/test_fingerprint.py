"""`hub fingerprint`: what an environment has, what the reference and an idle agent earn, and what a run shows."""

from collections.abc import Generator
from pathlib import Path

import pytest

from rollouthub.statistics.pass_at_k import GroupCounts
from rollouthub.statistics.spread import group_spread

from .inside import Inside, hub_inside

WORLD = Path(__file__).parent.parent / "trainers" / "stream" / "world.py"
TABLED = """
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task

class Silent(Environment[EnvironmentConfig]):
    \"\"\"Nobody knows the answer.\"\"\"

    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="?"), Secret())

    async def verify(self, submission):
        return Score(reward=0.5)
"""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Inside]:
    """The command line, inside this process."""
    with hub_inside(tmp_path, monkeypatch) as call:
        yield call


def group(*rewards: float, judged: bool = True) -> GroupCounts:
    """The counts of one task's samples."""
    passed = sum(reward == 1 for reward in rewards) if judged else None
    return GroupCounts("e", "t", len(rewards), len(rewards), passed, sum(rewards), sum(each**2 for each in rewards))


def test_an_environment_is_described_without_a_model(hub: Inside, tmp_path: Path) -> None:
    found = hub("fingerprint", "arithmetic", "--sample", "4", "--set", "size=50", "--json").json
    assert (found["name"], found["tasks"], found["split"], found["tools"]) == (
        "arithmetic",
        50,
        "test",
        ["calculate", "submit"],
    )
    assert (found["oracle"]["pass_rate"], found["null"]["pass_rate"]) == (1.0, 0.0)
    assert found["oracle"]["rollouts"] == found["null"]["rollouts"] == 4
    assert found["oracle"]["cpu_seconds"] > 0
    assert (found["run"], found["oracle"]["cost"]) == (None, 0.0)
    shown = hub("fingerprint", "arithmetic", "--sample", "2").out
    assert "calculate" in shown
    assert "passed 100.0% of 2" in shown
    assert not (tmp_path / "runs").exists()


def test_a_run_says_what_can_be_learnt(hub: Inside) -> None:
    """Of six tasks, two are always solved, the others every other time."""
    config = ("--set", "solved=2")
    hub("run", WORLD, "-m", "mock/say?text=x", *config, "--repeats", "4", "-o", "first", "-q")
    run = hub("fingerprint", WORLD, *config, "--from", "first", "--json").json["run"]
    assert (run["tasks"], run["rollouts"], run["groups"], run["compared"]) == (6, 24, 6, 6)
    assert (run["mean_reward"], run["pass_rate"], run["learnability"]) == (pytest.approx(2 / 3), None, None)
    assert (run["floor"], run["ceiling"], run["mixed"]) == (0.0, pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert run["deviation"] == pytest.approx((4 / 6 * 1 / 3) ** 0.5)
    assert run["output_tokens"] > 0
    shown = hub("fingerprint", WORLD, *config, "--from", "first").out
    assert "66.7% of 6 groups of several differ inside" in shown
    assert "33.3% have nothing but the highest" in shown


def test_the_runs_own_environment_and_settings_are_taken_where_none_is_named(hub: Inside) -> None:
    hub("run", "arithmetic", "-m", "mock/solver", "--set", "size=7", "--limit", "3", "-o", "first", "-q")
    found = hub("fingerprint", "--from", "first", "--json").json
    assert (found["name"], found["tasks"], found["run"]["rollouts"]) == ("arithmetic", 3, 3)
    assert found["run"]["mixed"] is None
    assert "no task was sampled twice" in hub("fingerprint", "--from", "first").out


def test_what_has_no_reference_says_so(hub: Inside, tmp_path: Path) -> None:
    (tmp_path / "silent.py").write_text(TABLED)
    found = hub("fingerprint", "./silent.py", "--json").json
    assert (found["null"]["mean_reward"], found["null"]["pass_rate"]) == (0.5, None)
    assert (found["oracle"]["cpu_seconds"], "reference" in found["oracle"]["why"]) == (None, True)
    assert "cannot play" in hub("fingerprint", "./silent.py").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "a fingerprint is of one environment"),
        (("arithmetic", "customer_service"), "a fingerprint is of one environment"),
        (("arithmetic", "--from", "nowhere"), "there is no run 'nowhere'"),
        (("customer_service", "--from", "first"), "has no rollouts of customer_service"),
        (("arithmetik",), "did you mean 'arithmetic'"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: tuple[str, ...], said: str, hub: Inside) -> None:
    hub("run", "arithmetic", "--limit", "1", "-o", "first", "-q")
    assert said in hub("fingerprint", *words).refused()


def test_a_file_that_a_run_names_is_not_imported_for_it(hub: Inside, tmp_path: Path) -> None:
    hub("run", WORLD, "-m", "mock/say?text=x", "--limit", "1", "-o", "first", "-q")
    assert "name it yourself if you trust it" in hub("fingerprint", "--from", "first").refused()


def test_spread_is_measured_inside_groups() -> None:
    spread = group_spread([group(0, 0), group(1, 1), group(0, 1), group(1), group(0.25, 0.75, judged=False), group()])
    assert (spread.groups, spread.compared) == (5, 4)
    assert (spread.floor, spread.ceiling, spread.mixed) == (0.2, 0.4, 0.5)
    assert spread.learnability == pytest.approx(0.25 / 3)
    assert spread.deviation == pytest.approx(((0.5 + 0.125) / 4) ** 0.5)
    nothing = group_spread([])
    assert (nothing.groups, nothing.floor, nothing.mixed, nothing.deviation) == (0, None, None, None)


def test_rounding_is_no_spread() -> None:
    assert group_spread([group(0.1, 0.1, 0.1, judged=False)]).mixed == 0.0
