"""`hub score` as people start it: files, pipes, kills, Ctrl-C, and runs scored again."""

import gzip
import json
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rollouthub.store import open_run

from .conftest import Hub, environment, started

BETWEEN_LOOKS = 0.01
"""Seconds: a test that looked all the time would take the processor from what it waits for."""
SLOW = '''
import anyio
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task


class SlowConfig(EnvironmentConfig):
    seconds: float = 0.002
    lenient: bool = False


class Slow(Environment[SlowConfig]):
    """A verifier that takes its time."""

    scores_transcripts = True

    @classmethod
    def tasks(cls, config, split, seed):
        for index in range(50):
            yield Task(Public(id=f"{split}/{index}", prompt="?"), Secret(answer=str(index)))

    async def verify(self, submission: Submission) -> Score:
        await anyio.sleep(self.config.seconds)
        if submission.final == "crash":
            raise KeyError("broken")
        right = submission.final == self.task.secret.answer or (self.config.lenient and submission.final != "")
        return Score(reward=float(right), passed=right)
'''


def lines(count: int) -> list[dict[str, Any]]:
    return [{"task_id": f"test/{i % 50}", "place": i, "completion": str(i % 50 if i % 2 else 99)} for i in range(count)]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines(2000)))
    return tmp_path


def places(file: Path) -> list[int]:
    return [json.loads(line)["place"] for line in file.read_text().splitlines()]


def test_a_file_is_scored_beside_itself(hub: Hub, files: Path) -> None:
    done = hub("score", "in.jsonl", "--env", "slow.py", "--set", "seconds=0", "--json")
    assert done.code == 0, done.err
    facts = done.json
    assert (facts["lines"], facts["scored"], facts["mean_reward"]) == (2000, 2000, 0.5)
    assert facts["output"] == "in.scored.jsonl"
    assert places(files / "in.scored.jsonl") == list(range(2000))
    again = hub("score", "in.jsonl", "--env", "slow.py")
    assert "--resume" in again.refused()
    table = hub("score", "in.jsonl", "--env", "slow.py", "--set", "seconds=0", "--limit", "100", "-o", "few.jsonl")
    assert "100/100" in table.out
    assert "lines/s" in table.out


def test_a_file_with_unlike_numbers_of_samples_says_what_its_means_weigh(hub: Hub, files: Path) -> None:
    right, wrong = {"task_id": "test/0", "completion": "0"}, {"task_id": "test/1", "completion": "99"}
    for name, rows in (("uneven", [right] * 3 + [wrong]), ("even", [right] * 2 + [wrong] * 2)):
        (files / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ("--env", "slow.py", "--set", "seconds=0")
    uneven, even = hub("score", "uneven.jsonl", *command).out, hub("score", "even.jsonl", *command).out
    assert "tasks have unlike numbers of samples: avg@k weighs tasks alike, the mean reward weighs samples" in uneven
    assert re.search(r"slow +2 +4/4 +0\.750", uneven)
    assert re.search(r"^ *1 +50\.0%.* 0\.500 ", uneven, re.MULTILINE), "each task counts as much as the other"
    assert "unlike numbers" not in even


def test_stdin_goes_to_stdout(files: Path) -> None:
    command = ["score", "-", "--env", "slow.py", "--set", "seconds=0"]
    text = (files / "in.jsonl").read_text()
    done = subprocess.run(
        [*_hub(), *command], cwd=files, env=environment(), input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["place"] for line in done.stdout.splitlines()] == list(range(2000))
    assert "2,000/2,000" in done.stderr


def _hub() -> list[str]:
    from .conftest import HUB

    return HUB


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_kills_lose_no_line_and_double_none(hub: Hub, files: Path, name: str) -> None:
    moments = random.Random(3)
    command = ("score", "in.jsonl", "--env", "slow.py", "-o", name, "--resume", "-c", "8", "-q")
    kills = 0
    while kills < 6:
        with started(files, *command) as scoring:
            try:
                scoring.wait(moments.uniform(0.3, 1.2))
                break
            except subprocess.TimeoutExpired:
                scoring.send_signal(signal.SIGKILL)
                scoring.wait(10)
                kills += 1
    assert kills >= 2
    done = hub(*command, "--json")
    assert done.code == 0, done.err
    assert done.json["lines"] == 2000
    assert done.json["mean_reward"] == 0.5
    raw = (files / name).read_bytes()
    text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
    assert [json.loads(line)["place"] for line in text.splitlines()] == list(range(2000))


def test_an_interrupt_finishes_what_is_in_flight(hub: Hub, files: Path) -> None:
    with started(files, "score", "in.jsonl", "--env", "slow.py", "--set", "seconds=0.05", "-c", "8") as scoring:
        _until(lambda: _size(files / "in.scored.jsonl") > 0, scoring)
        scoring.send_signal(signal.SIGINT)
        _, err = scoring.communicate(timeout=60)
    assert scoring.returncode == 130, err
    assert "in flight" in err
    assert "--resume" in err
    kept = places(files / "in.scored.jsonl")
    assert kept == list(range(len(kept)))
    assert 0 < len(kept) < 2000
    done = hub("score", "in.jsonl", "--env", "slow.py", "--set", "seconds=0", "--resume", "--json")
    assert done.code == 0, done.err
    assert done.json["resumed"] == len(kept)
    assert places(files / "in.scored.jsonl") == list(range(2000))


def test_an_interrupt_ends_the_wait_for_a_silent_pipe(files: Path) -> None:
    command = [*_hub(), "score", "-", "--env", "slow.py", "-o", "out.jsonl"]
    with subprocess.Popen(
        command, cwd=files, env=environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as scoring:
        assert scoring.stdin is not None
        scoring.stdin.write(json.dumps(lines(1)[0]) + "\n")
        scoring.stdin.flush()
        _until(lambda: (files / "out.jsonl").exists(), scoring)
        scoring.send_signal(signal.SIGINT)
        assert scoring.wait(60) == 130
        assert scoring.stderr is not None
        assert "Traceback" not in scoring.stderr.read()


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _until(is_there: Any, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not is_there():
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(BETWEEN_LOOKS)


def test_unscored_lines_make_exit_code_1(hub: Hub, files: Path) -> None:
    (files / "in.jsonl").write_text(json.dumps({"task_id": "test/1", "completion": "crash"}) + "\n")
    done = hub("score", "in.jsonl", "--env", "slow.py")
    assert done.code == 1
    assert "verifier_failed: 1" in done.out


def test_bad_input_is_refused_before_anything_is_written(hub: Hub, files: Path) -> None:
    with (files / "in.jsonl").open("a") as file:
        file.write("{}\n")
    assert "in.jsonl:2001: " in hub("score", "in.jsonl", "--env", "slow.py").refused()
    assert not (files / "in.scored.jsonl").exists()
    done = hub("score", "in.jsonl", "--env", "slow.py", "--set", "seconds=0", "--skip-bad", "--json")
    assert (done.code, done.json["bad_rows"], done.json["scored"]) == (1, 1, 2000)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("in.jsonl",), "--env"),
        (("nothing.jsonl", "--env", "slow.py"), "no such file"),
        (("in.jsonl", "--env", "arithmetik"), "arithmetic"),
        (("in.jsonl", "--env", "slow.py", "-o", "in.jsonl"), "the input itself"),
        (("in.jsonl", "--env", "slow.py", "-o", "-", "--json"), "--json"),
        # Said before the environment is looked for.
        (("in.jsonl", "--env", "arithmetik", "-o", "no/out.jsonl"), "there is no folder"),
        (("-", "--env", "slow.py", "--resume"), "--resume"),
        (("in.jsonl", "--env", "slow.py", "--split", "tset"), "test"),
        (("in.jsonl", "--env", "slow.py", "--role", "judge"), "ROLE=MODEL"),
        (("in.jsonl", "--env", "slow.py", "--set", "second=1"), "seconds"),
        (("nothing",), "there is no run"),
    ],
)
def test_mistakes_are_named(hub: Hub, files: Path, arguments: tuple[str, ...], complaint: str) -> None:
    assert complaint in hub("score", *arguments).refused()


def test_an_environment_that_needs_its_world_is_refused_by_name(hub: Hub, files: Path) -> None:
    dice = Path(__file__).parents[2] / "examples" / "dice.py"
    (files / "one.jsonl").write_text('{"task_id": "test/1", "completion": "20"}\n')
    complaint = hub("score", "one.jsonl", "--env", dice).refused()
    assert "'dice'" in complaint
    assert "hub run dice" in complaint


def test_a_run_is_scored_again_into_a_new_one(hub: Hub, files: Path) -> None:
    (files / "agent.toml").write_text("")
    ran = hub(
        "run", "slow.py", "-m", "mock/say?text=7", "--repeats", "2", "-o", "run", "-q", "--set", "seconds=0", "--json"
    )
    assert ran.json["mean_reward"] == 0.02, ran.err
    before = {path: path.read_bytes() for path in (files / "run").rglob("*") if path.is_file()}
    done = hub("score", "run", "--env", "slow.py", "--set", "lenient=true", "--json")
    assert done.code == 0, done.err
    facts = done.json
    assert (facts["rollouts"], facts["changed"], facts["raised"], facts["lowered"]) == (100, 98, 98, 0)
    assert (facts["before"]["mean_reward"], facts["after"]["mean_reward"]) == (0.02, 1.0)
    assert {path: path.read_bytes() for path in before} == before
    with open_run(files / "run") as old, open_run(files / "run-rescored") as new:
        assert new.info.status == "finished"
        olds = {rollout.rollout_id: rollout for rollout in old.rollouts()}
        for rollout in new.rollouts():
            twin = olds[rollout.rollout_id]
            assert rollout.turns == twin.turns
            assert rollout.task == twin.task
            assert rollout.reward == 1.0
    assert "already holds a run" in hub("score", "run", "--env", "slow.py").refused()
    table = hub("score", "run", "--env", "slow.py", "-o", "same")
    assert "0 of 100 verdicts changed" in table.out
    assert "is the one that scored" in table.out


def test_a_run_imports_nothing_and_sends_no_key_anywhere(hub: Hub, files: Path) -> None:
    hub("run", "slow.py", "-m", "mock/say?text=7", "--limit", "2", "-o", "run", "-q", "--set", "seconds=0")
    (files / "slow.py").write_text("raise SystemExit('it was imported')")
    refused = " ".join(hub("score", "run").refused().split())
    assert "names the environment 'slow.py', which would be imported or asked" in refused
    assert "hub score RUN --env ENV" in refused
    hub("run", "arithmetic", "-m", "mock/solver", "--limit", "2", "-o", "theirs", "-q")
    for judge in (
        {"name": "hosted_vllm/m", "base_url": "http://192.0.2.7:8000/v1"},
        {"name": "hosted_vllm/m", "fallbacks": [{"name": "openai/m", "replicas": ["https://192.0.2.7/v1"]}]},
    ):
        resolved = json.loads((files / "theirs" / "resolved.json").read_text())
        resolved["request"]["roles"] = {"judge": judge}
        with closing(sqlite3.connect(files / "theirs" / "run.db")) as connection:
            connection.execute("UPDATE meta SET value = ? WHERE key = 'resolved'", (json.dumps(resolved),))
            connection.commit()
        assert "192.0.2.7" in (refused := hub("score", "theirs").refused())
        assert "--role ROLE=MODEL" in refused
    assert hub("score", "theirs", "--role", "judge=mock/echo", "-q").code == 0


def test_a_changed_verifier_scores_what_an_old_one_could_not(hub: Hub, files: Path) -> None:
    hub("run", "slow.py", "-m", "mock/say?text=crash", "--limit", "5", "-o", "run", "-q", "--set", "seconds=0")
    (files / "slow.py").write_text(SLOW.replace('"crash"', '"other"'))
    done = hub("score", "run", "--env", "slow.py", "--json")
    assert done.code == 0, done.err
    assert (done.json["newly_scored"], done.json["before"]["scored"], done.json["after"]["scored"]) == (5, 0, 5)
    with open_run(files / "run") as old, open_run(files / "run-rescored") as new:
        assert next(iter(new.rollouts())).faults == ()
        digests = {
            rollout.score.verifier.digest for rollout in new.rollouts() if rollout.score and rollout.score.verifier
        }
        assert digests.isdisjoint({old.info.resolved["environments"][0]["digest"]})  # type: ignore[index,call-overload]
    shown = hub("show", "run-rescored")
    assert shown.code == 0, shown.err


def test_rescoring_is_killed_and_resumed(hub: Hub, files: Path) -> None:
    hub("run", "slow.py", "-m", "mock/say?text=7", "--repeats", "8", "-o", "run", "-q", "--set", "seconds=0")
    command = ("score", "run", "--env", "slow.py", "--set", "seconds=0.05", "-c", "4", "--resume")
    with started(files, *command) as scoring:
        _until(lambda: _rows(files / "run-rescored") > 0, scoring)
        scoring.send_signal(signal.SIGKILL)
        scoring.wait(10)
    kept = _rows(files / "run-rescored")
    assert 0 < kept < 400
    done = hub("score", "run", "--env", "slow.py", "--set", "seconds=0.05", "-c", "64", "--resume", "--json")
    assert done.code == 0, done.err
    assert done.json["rollouts"] == 400
    assert _rows(files / "run-rescored") == 400
    shutil.rmtree(files / "run-rescored")


def _rows(directory: Path) -> int:
    if not (directory / "run.db").exists():
        return 0
    with open_run(directory) as reader:
        return sum(reader.outcomes().values())


def test_a_runs_own_seeds_are_those_of_scoring(hub: Hub, files: Path) -> None:
    from rollouthub.engine.episode_seed import episode_seed

    hub("run", "slow.py", "--limit", "3", "--seed", "5", "-m", "mock/say?text=1", "-o", "run", "-q")
    with open_run(files / "run") as reader:
        for rollout in reader.rollouts():
            assert rollout.seed == episode_seed(5, "slow", "test", rollout.task.id)
