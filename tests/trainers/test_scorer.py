"""Verifiers as functions: open once, score many, never a zero for what was not scored."""

import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Message, ToolRequest, VerifierError
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export import TaskReference
from rollouthub.trainers.blocking_scorer import VARIABLE, blocking_scorer, scorer_for
from rollouthub.trainers.scorer import open_scorer

ECHO = str(Path(__file__).parents[1] / "analysis" / "scoring" / "lines.py") + ":Echo"
SETTINGS: dict[str, Any] = {"in_process": True, "set": {"size": 40}}


def echo(number: int | str, environment: str = "lines", split: str = "test") -> TaskReference:
    return TaskReference(environment, split, f"test/{number}")


async def test_answers_are_scored_in_whatever_shape_a_trainer_has_them() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "submit", "arguments": '{"answer": "7"}'}}
    request = ToolRequest(id="1", name="submit", arguments='{"answer": "7"}')
    async with open_scorer([ECHO], **SETTINGS) as scorer:
        assert (await scorer.score(echo(7), "7")).reward == 1.0
        assert (await scorer.score(echo(7), "8")).reward == 0.0
        for answer in (
            [{"role": "assistant", "content": "7"}],
            [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "assistant", "content": "8"}],
            [Message(role="user", content="8"), Message(role="assistant", content="7")],
            [Message(role="assistant", tool_requests=(request,)), Message(role="assistant", content="8")],
        ):
            score = await scorer.score(echo(7), answer)
            assert (score.reward, score.passed) == (1.0, True)


async def test_many_are_scored_in_order_and_what_is_unscored_says_why_and_is_no_zero() -> None:
    said = ["0", "wrong", "crash", "away", "4", {"no": "answer"}]
    asked: list[Any] = [(echo(number), answer) for number, answer in enumerate(said)]
    asked.append((echo("no such"), "1"))
    async with open_scorer([ECHO], **SETTINGS, concurrency=3) as scorer:
        verdicts = await scorer.judge_all(asked)
        assert [verdict.reward for verdict in verdicts] == [1.0, 0.0, None, None, 1.0, None, None]
        problems = [verdict.problem or "" for verdict in verdicts]
        assert problems[:2] == ["", ""]
        for place, words in ((2, "it broke"), (3, "the judge is away"), (5, "no answer"), (6, "test/no such")):
            assert words in problems[place]
        assert [score and score.reward for score in await scorer.score_all(asked[:3])] == [1.0, 0.0, None]
        with pytest.raises(VerifierError, match="away"):
            await scorer.score(*asked[3])
        with pytest.raises(UnknownNameError):
            await scorer.score(*asked[6])


async def test_a_row_of_another_environment_is_the_set_ups_fault_and_refused() -> None:
    async with open_scorer([ECHO], **SETTINGS) as scorer:
        for ask in (scorer.judge_all, scorer.score_all):
            with pytest.raises(UnknownNameError, match="math"):
                await ask([(echo(1), "1"), (echo(1, "math"), "1")])


async def test_an_environment_that_needs_its_world_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "world.py").write_text(
        "from rollouthub import Environment, EnvironmentConfig, Score\n"
        "class World(Environment[EnvironmentConfig]):\n"
        "    @classmethod\n"
        "    def tasks(cls, config, split, seed):\n"
        "        yield from ()\n"
        "    async def verify(self, submission):\n"
        "        return Score(reward=1.0)\n"
    )
    with pytest.raises(ConfigError, match="'world' scores the world"):
        async with open_scorer([f"{tmp_path / 'world.py'}:World"], in_process=True):
            pass


async def test_tasks_come_without_their_secret_half_and_bounded() -> None:
    async with open_scorer([ECHO], **SETTINGS, limit=3) as scorer:
        listed = [task async for task in scorer.tasks()]
        assert [task.id for task in listed] == ["test/0", "test/1", "test/2"]
        assert not any(hasattr(task, "secret") or hasattr(task, "answer") for task in listed)
        assert (scorer.environments, scorer.split_of("lines")) == (("lines",), "test")


async def test_an_answer_meets_the_seed_that_the_tasks_episode_has_in_a_run() -> None:
    async with open_scorer([ECHO], **SETTINGS) as scorer, open_scorer([ECHO], **SETTINGS, seed=5) as other:
        first, again = await scorer.score(echo(1), "seed"), await scorer.score(echo(1), "seed")
        assert first.reward == again.reward != (await other.score(echo(1), "seed")).reward


def test_threads_without_an_event_loop_score_at_once() -> None:
    found: dict[int, list[float | None]] = {}
    with blocking_scorer([ECHO], **SETTINGS) as scorer:

        def ask(thread: int) -> None:
            asked = [(echo(number), str(thread)) for number in range(8)]
            found[thread] = [score and score.reward for score in scorer.score_all(asked)]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert scorer.judge(echo(1), "crash").score is None
        assert math.isclose(scorer.score(echo(1), "1").reward, 1.0)
    assert found == {number: [float(number == place) for place in range(8)] for number in range(8)}


def test_a_reward_file_that_names_nothing_is_told_how_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ConfigError, match=VARIABLE):
        scorer_for()


@pytest.mark.live
def test_a_process_opens_its_scorer_once_a_fork_its_own_and_both_end(tmp_path: Path) -> None:
    config = tmp_path / "reward.toml"
    config.write_text(f'environments = ["{ECHO}"]\nin_process = true\nset.size = 5\n')
    program = (
        "import os\n"
        "from rollouthub.export import TaskReference\n"
        "from rollouthub.trainers.blocking_scorer import scorer_for\n"
        "first = scorer_for()\n"
        "assert scorer_for() is first\n"
        "task = TaskReference('lines', 'test', 'test/3')\n"
        "print(first.score(task, '3').reward, flush=True)\n"
        "child = os.fork()\n"
        "assert (scorer_for() is first) == bool(child)\n"
        "if child:\n"
        "    os.waitpid(child, 0)\n"
        "    if not os.fork():\n"
        "        raise SystemExit\n"
        "    os.wait()\n"
        "print(scorer_for().score(task, '4').reward, flush=True)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, VARIABLE: str(config)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (ran.stdout.split(), ran.returncode, ran.stderr) == (["1.0", "0.0", "0.0"], 0, "")
