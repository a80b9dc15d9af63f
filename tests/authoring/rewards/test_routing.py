"""Mixed data sets route each row to its own reward."""

import pytest

from rollouthub.authoring.rewards import RewardBySource, WeightedReward
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.score import Submission
from rollouthub.task import Public, Secret, Task


def task(source: str | None) -> Task[Public, Secret]:
    return Task(Public(id="row/7", prompt="?", source=source), Secret())


def whole(task: Task[Public, Secret], submission: Submission) -> bool:
    return True


async def half(task: Task[Public, Secret], submission: Submission) -> float:
    return 0.5


async def test_each_source_gets_its_own_reward() -> None:
    reward = RewardBySource({"gsm8k": whole, "essays": half})

    score, other = await reward(task("gsm8k"), Submission()), await reward(task("essays"), Submission())

    assert (score.reward, score.passed) == (1.0, True)
    assert (other.reward, other.passed) == (0.5, None)


async def test_an_unknown_source_is_refused_with_the_known_ones_named() -> None:
    reward = RewardBySource({"gsm8k": whole, "essays": half})

    with pytest.raises(UnknownNameError, match=r"'gsm8l'; did you mean 'gsm8k'\? Known: essays, gsm8k\. Task 'row/7'"):
        await reward(task("gsm8l"), Submission())


def test_a_gap_shows_before_anything_is_played() -> None:
    reward = RewardBySource({"gsm8k": whole})

    assert reward.choose(task("gsm8k").public) is whole
    with pytest.raises(ConfigError, match="task 'row/7' names no source; there are rewards for: gsm8k"):
        reward.choose(task(None).public)


@pytest.mark.parametrize("source", ["unheard", None])
async def test_a_default_serves_all_other_sources(source: str | None) -> None:
    reward = RewardBySource({"gsm8k": whole}, default=half)

    assert (await reward(task(source), Submission())).reward == 0.5


async def test_rewards_nest() -> None:
    mixed = RewardBySource({"a": WeightedReward({"half": half}, {"half": 4.0}, pass_at=2.0)})

    score = await mixed(task("a"), Submission())

    assert (score.reward, score.passed) == (2.0, True)


def test_no_source_and_no_default_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one source, or a default"):
        RewardBySource({})
