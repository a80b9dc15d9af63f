"""DeepScaleR's recipe, at a small size: three stages of one policy against a server of vLLM's kind."""

import json
import statistics
import subprocess
import sys
from collections.abc import Generator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from rollouthub.errors import UsageError
from tests.models.servers import mock_server

FOLDER = Path(__file__).parents[2] / "examples" / "deepscaler"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Generator[Any]:
    """The module of the driver, and through it those beside it."""
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    yield import_module("train")
    for name in ("train", "recipe", "trainer"):
        sys.modules.pop(name, None)


def train(*options: str) -> list[str]:
    """The lines it says."""
    done = subprocess.run(
        [sys.executable, "-W", "error", FOLDER / "train.py", *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_stages_are_those_of_the_recipe(example: Any) -> None:
    recipe = example.Recipe.read()
    assert [(stage.max_sequence_tokens, stage.steps) for stage in recipe.stages] == [
        (8192, 240),
        (16384, 290),
        (24576, 50),
    ]
    assert [(stage.learning_rate, stage.kl, stage.ratio_clip_max) for stage in recipe.stages] == [
        (2e-6, 0.0, 0.2),
        (2e-6, 0.001, 0.28),
        (5e-7, 0.0001, 0.28),
    ]
    assert (recipe.rollouts.prompts, recipe.rollouts.samples) == (128, 8)
    assert (recipe.validation.environment, recipe.validation.samples) == ("aime24", 16)


@pytest.mark.parametrize("rewards", [(1, 0, 0, 1, 1, 0, 0, 0), (1, 0, 0, 0), (1, 1, 1), (0.5, 0.25)])
def test_the_baseline_leaves_one_out_and_the_spread_is_the_others(example: Any, rewards: Sequence[float]) -> None:
    advantages = import_module("recipe").Advantages(baseline="leave_one_out", normalize=True).of(rewards)
    for place, (reward, advantage) in enumerate(zip(rewards, advantages, strict=True)):
        others = [*rewards[:place], *rewards[place + 1 :]]
        spread = statistics.stdev(others) if len(others) > 1 else 0.0
        expected = reward - statistics.fmean(others)
        assert advantage == pytest.approx(expected / (spread + 1e-6) if spread else expected)


def test_the_plan_is_said_without_a_model(example: Any) -> None:
    recipe = example.adapted(example.Recipe.read(), example.read_options(["--steps", "3"]))
    said = example.plan(recipe).splitlines()
    assert any(line.startswith("16K: deepscaler-16k, 3 steps of 1024 rollouts, at most 16384 tokens") for line in said)


@pytest.mark.live
async def test_three_stages_are_played_validated_and_gone_on_with(tmp_path: Path) -> None:
    rows = [{"problem": f"What is {number} + 25?", "answer": str(number + 25)} for number in range(4)]
    data = tmp_path / "sums.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    async with mock_server("mock/solver?accuracy=0.5") as url:
        options = ["--rehearse", "-m", "hosted_vllm/served", "--base-url", url, "-o", str(tmp_path / "out")]
        options += ["--data", str(data), "--validation-data", str(data), "--steps", "2", "--prompts", "2"]
        options += ["--validation-samples", "3", "-c", "8"]
        said = await anyio.to_thread.run_sync(lambda: train(*options))
        again = await anyio.to_thread.run_sync(lambda: train(*options))
    steps = [line.partition(":")[0] for line in said if " step " in line]
    assert steps == [f"{stage} step {step}/2" for stage in ("8K", "16K", "24K") for step in (1, 2)]
    assert [line for line in again if " step " in line] == []
    measured = [json.loads(line) for line in (tmp_path / "out" / "validation.jsonl").read_text().splitlines()]
    assert [(each["version"], each["k"], each["tasks"]) for each in measured] == [
        (0, 3, 4),
        (2, 3, 4),
        (4, 3, 4),
        (6, 3, 4),
    ]
    assert all(0 <= each["avg"] <= 1 and each["standard_error"] is not None for each in measured)
    state = json.loads((tmp_path / "out" / "state.json").read_text())
    assert (state["stage"], state["version"]) == (3, 6)
    assert json.loads((Path(state["checkpoint"]) / "counted.json").read_text())["steps"] == 6
    kept = {folder.name for folder in (tmp_path / "out" / "checkpoints").iterdir()}
    assert kept == {"version-000002", "version-000004", "version-000005", "version-000006"}


def test_the_learner_gets_what_the_recipe_says_of_each_stage(example: Any) -> None:
    recipe = example.Recipe.read()
    made = [import_module("trainer").learn_settings(recipe, stage) for stage in recipe.stages]
    assert [(each.learning_rate, each.kl, each.clip_low, each.clip_high) for each in made] == [
        (2e-6, 0.0, 0.2, 0.2),
        (2e-6, 0.001, 0.2, 0.28),
        (5e-7, 0.0001, 0.2, 0.28),
    ]
    assert {(each.kl_form, each.warmup_steps, each.warmup_from, each.update_rows) for each in made} == {
        ("k3", 50 * 16, 0.1, 64)  # the recipe counts steps, the learner its 16 updates of each
    }
    assert {each.normalize for each in made} == {"tokens"}


def test_a_stage_that_the_recipe_has_not_is_refused(example: Any) -> None:
    with pytest.raises(UsageError, match="no stage '9K'; the recipe has 8K, 16K, 24K"):
        example.adapted(example.Recipe.read(), example.read_options(["--stage", "9K"]))
