"""`rollouthub.evaluate` and `aevaluate`: from a script, in a running loop, with names, paths and classes."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import rollouthub
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, UsageError
from rollouthub.messages import assistant

EXAMPLES = Path(__file__).parents[3] / "examples"


class Echo(Environment[EnvironmentConfig]):
    """Say the word."""

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        """Two words, one of which the reference gets wrong."""
        for word, said in (("tea", "tea"), ("bread", "butter")):
            yield Task(Public(id=word, prompt=f"Say {word}."), Secret(answer=word, reference=(assistant(said),)))

    async def verify(self, submission: Submission) -> Score:
        """Right if it was said."""
        passed = submission.final == self.task.secret.answer
        return Score(reward=float(passed), passed=passed)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)


def test_a_script_gets_figures_rollouts_and_what_failed(tmp_path: Path) -> None:
    run = rollouthub.evaluate("arithmetic", "mock/solver?accuracy=0.5", seed=3, limit=20)
    assert run.directory.parent == Path("runs")
    assert run.summary.scored == len(run.rollouts()) == 20
    assert run.mean_reward is not None
    assert 0 < run.mean_reward < 1
    assert len(run.failed) == 20 - round(20 * run.mean_reward)
    more = rollouthub.evaluate(
        "arithmetic", "mock/solver?accuracy=0.5", limit=30, seed=3, directory=run.directory, resume=True
    )
    assert more.summary.scored == 30


async def test_it_may_be_called_where_a_loop_runs_and_awaited_there() -> None:
    assert rollouthub.evaluate(EXAMPLES / "dice.py", limit=3).mean_reward == 1.0
    run = await rollouthub.aevaluate([EXAMPLES / "dice.py", Echo], directory="both", limit=3)
    assert {row["environment"] for row in run.rollouts().to_pylist()} == {"dice", "Echo"}
    assert [row["task_id"] for row in run.failed.to_pylist()] == ["bread"]


def test_several_models_play_the_same_tasks_each_in_a_run_of_its_own(tmp_path: Path) -> None:
    models = ["mock/solver?accuracy=1", "mock/solver?accuracy=0"]
    runs = rollouthub.evaluate("arithmetic", models, directory="both", limit=4)
    assert {model: run.mean_reward for model, run in runs.items()} == {models[0]: 1.0, models[1]: 0.0}
    assert len({run.directory.parent for run in runs.values()}) == 1
    tasks = [{row["task_id"] for row in run.rollouts().to_pylist()} for run in runs.values()]
    assert tasks[0] == tasks[1]
    again = rollouthub.evaluate("arithmetic", models, directory="both", limit=5, resume=True)
    assert [run.summary.scored for run in again.values()] == [5, 5]
    apart = rollouthub.evaluate("arithmetic", models, limit=1)
    assert len({run.directory for run in apart.values()}) == 2


def test_a_class_that_was_typed_in_is_played_and_known_again() -> None:
    def typed_in(answer: str) -> Any:
        code = f"""
from rollouthub import Environment, Public, Score, Secret, Task
from rollouthub.messages import assistant

class Typed(Environment):
    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="a", prompt="?"), Secret(answer={answer!r}, reference=(assistant({answer!r}),)))

    async def verify(self, submission):
        return Score(reward=float(submission.final == self.task.secret.answer))
"""
        names: dict[str, Any] = {"__name__": "typed_in"}
        exec(code, names)
        return names["Typed"]

    assert rollouthub.evaluate(typed_in("tea"), directory="typed").mean_reward == 1.0


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"model": "mock/solver", "repeat": 2}, "did you mean 'repeats'"),
        ({"max_turns": 2}, r"no setting is named 'max_turns'; did you mean 'limits\.max_turns'"),
        ({"rpm": 60}, "did you mean 'requests_per_minute'"),
        ({"progres": True}, "did you mean 'progress'"),
        ({"model": "mock/solver", "directory": "taken"}, "taken"),
        ({"served": True}, "Echo is a class of this process"),
        ({"pool": "ray"}, "Echo is a class of this process"),
        ({"resume": True}, "resume needs the run's directory"),
        ({"model": "vllm/some"}, "hosted_vllm/some"),
        ({"model": []}, "at least one"),
        ({"model": ["mock/solver", "mock/solver"]}, "each model once"),
    ],
)
def test_what_cannot_be_played_is_refused_in_words(settings: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(UsageError, match=complaint):
        rollouthub.evaluate(Echo, **settings)


def test_two_classes_of_one_name_are_refused() -> None:
    other = type("Echo", (Echo,), {})
    with pytest.raises(UsageError, match="two environment classes are called 'Echo'"):
        rollouthub.evaluate([Echo, other])


@pytest.mark.parametrize(("progress", "is_drawn"), [("None", False), ("True", True)])
def test_a_bar_is_drawn_where_somebody_looks(progress: str, is_drawn: bool, tmp_path: Path) -> None:
    code = f"import rollouthub; rollouthub.evaluate('arithmetic', 'mock/solver', limit=5, progress={progress})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert ("mean reward 1.000" in done.stderr) is is_drawn
    assert done.stdout == ""
