"""Environments that score all samples of a task together, through the command line: played, killed, resumed."""

import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rollouthub.rollout import Outcome
from rollouthub.store import open_run

from .conftest import Hub, started

GROUPED = '''
import os, pathlib

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, VerifierError
from rollouthub.messages import user

class Ranked(Environment[EnvironmentConfig]):
    """Every sample is worth its place among those of its task."""
    reads_turns = True
    made = 0

    @classmethod
    def tasks(cls, config, split, seed):
        for name in ("a", "b"):
            yield Task(Public(id=name, prompt="Say something."), Secret())

    async def setup(self):
        type(self).made += 1
        if "break" in os.environ.get("RANKED", "") and self.made == 2:
            raise RuntimeError("the world broke")

    async def verify_group(self, submissions):
        with open("asked.txt", "a") as asked:
            lost = ",".join(f"{each.sample}:{each.outcome}" for each in self.group.lost)
            print(self.task.id, [each.sample for each in self.group.members], lost, file=asked)
        WHAT
        return [
            Score(reward=float(place), turn_rewards={0: 0.5}, feedback=f"{place} of {len(submissions)}")
            for place, _ in enumerate(submissions)
        ]
'''
VERIFIED = """
    def verify(self, submission):
        return Score(reward=0.25)
"""
PLAY = ("-m", "mock/say?text=hello", "--repeats", "3", "--concurrency", "1", "--retries", "0", "-o", "run", "-q")


def written(folder: Path, what: str = "pass", more: str = "") -> str:
    (folder / "ranked.py").write_text(GROUPED.replace("WHAT", what) + more)
    return "ranked.py"


def asked(folder: Path) -> list[str]:
    return [line.strip() for line in (folder / "asked.txt").read_text().splitlines()]


def records(folder: Path) -> list[Any]:
    with open_run(folder / "run") as reader:
        assert reader.waiting() == 0
        return sorted(reader.rollouts(), key=lambda rollout: (rollout.task.id, rollout.sample))


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
def test_each_sample_gets_its_score_from_one_verdict_on_its_group(
    hub: Hub, tmp_path: Path, where: tuple[str, ...]
) -> None:
    assert hub("run", written(tmp_path), *where, *PLAY, RANKED="").code == 0
    rollouts = records(tmp_path)
    assert [rollout.reward for rollout in rollouts] == [0.0, 1.0, 2.0] * 2
    assert [rollout.turns[0].reward for rollout in rollouts] == [0.5] * 6
    assert rollouts[1].score.metadata["group"] == {"samples": [0, 1, 2], "lost": []}
    assert not any(rollout.awaits_group for rollout in rollouts)
    assert sorted(asked(tmp_path)) == ["a [0, 1, 2]", "b [0, 1, 2]"]
    shown = hub("show", "run", rollouts[2].rollout_id).out
    assert "2 of 3" in shown
    assert "reward +0.5" in shown


def test_what_verify_gave_is_shown_to_the_group_and_kept(hub: Hub, tmp_path: Path) -> None:
    what = "return [Score(reward=each.score.reward + each.sample) for each in self.group.members]"
    assert hub("run", written(tmp_path, what, VERIFIED), *PLAY).code == 0
    rollouts = records(tmp_path)
    assert [rollout.reward for rollout in rollouts] == [0.25, 1.25, 2.25] * 2
    assert rollouts[0].score.metrics == {"verify": 0.25}


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
def test_a_sample_that_broke_is_named_and_nothing_is_guessed_of_it(
    hub: Hub, tmp_path: Path, where: tuple[str, ...]
) -> None:
    done = hub("run", written(tmp_path), *where, *PLAY, RANKED="break")
    assert done.code == 1, done.err
    first, broken, third = records(tmp_path)[:3]
    assert (first.reward, third.reward) == (0.0, 1.0)
    assert broken.outcome is Outcome.ENVIRONMENT_FAILED
    assert broken.reward is None
    assert first.score.metadata["group"] == {
        "samples": [0, 2],
        "lost": [{"sample": 1, "outcome": "environment_failed"}],
    }
    assert "a [0, 2] 1:environment_failed" in asked(tmp_path)


def test_killed_between_the_last_rollout_and_the_verdict_a_run_asks_for_it_when_it_is_resumed(
    hub: Hub, tmp_path: Path
) -> None:
    what = "os.path.exists('go') or os.kill(os.getpid(), 9)"
    name = written(tmp_path, what)
    with started(tmp_path, "run", name, *PLAY, "--task", "a") as killed:
        assert killed.wait(120) == -signal.SIGKILL
    with open_run(tmp_path / "run") as reader:
        assert (reader.waiting(), sum(reader.outcomes().values())) == (3, 0)
    assert "waiting for the group's verdict" in hub("show", "run").out

    (tmp_path / "go").touch()
    resumed = hub("run", name, *PLAY[:-1], "--task", "a", "--resume")
    assert resumed.code == 0
    assert "3/3 ·" in resumed.err, "what waited is done once"
    rollouts = records(tmp_path)
    assert [rollout.reward for rollout in rollouts] == [0.0, 1.0, 2.0]
    assert [rollout.attempt for rollout in rollouts] == [0, 0, 0], "nothing was played twice"
    assert asked(tmp_path) == ["a [0, 1, 2]"] * 2  # the first of them never came to an end

    assert hub("run", name, *PLAY, "--task", "a", "--resume").code == 0
    assert len(asked(tmp_path)) == 2, "a group that has its verdict is asked about no more"


def test_a_verdict_that_fails_is_tried_again_and_then_the_verifiers_fault(hub: Hub, tmp_path: Path) -> None:
    what = "if not os.path.exists('go'): raise RuntimeError('no idea')"
    name = written(tmp_path, what)
    assert hub("run", name, *PLAY, "--task", "a").code == 1
    rollouts = records(tmp_path)
    assert {rollout.outcome for rollout in rollouts} == {Outcome.VERIFIER_FAILED}
    assert {rollout.reward for rollout in rollouts} == {None}
    assert "no idea" in rollouts[0].faults[0].message
    assert len(asked(tmp_path)) == 2

    (tmp_path / "go").touch()
    assert hub("run", name, *PLAY, "--task", "a", "--resume").code == 0
    rollouts = records(tmp_path)
    assert [(rollout.attempt, rollout.reward) for rollout in rollouts] == [(1, 0.0), (1, 1.0), (1, 2.0)]


@pytest.mark.parametrize(
    "returned",
    ["return [1.0]", "return 1.0", "return [None] * 3", "return [float('nan')] * 3", "return 'abc'",
     "return [Score(reward=1.0, turn_rewards={7: 1.0})] * 3"],
)  # fmt: skip
def test_what_are_no_scores_of_the_members_is_a_verifier_fault(hub: Hub, tmp_path: Path, returned: str) -> None:
    assert hub("run", written(tmp_path, returned), *PLAY, "--task", "a").code == 1
    assert {rollout.outcome for rollout in records(tmp_path)} == {Outcome.VERIFIER_FAILED}


def test_more_samples_cannot_join_a_group_that_has_its_verdict(hub: Hub, tmp_path: Path) -> None:
    name = written(tmp_path)
    assert hub("run", name, *PLAY).code == 0
    more = [word if word != "3" else "4" for word in PLAY]
    assert "cannot join it" in hub("run", name, *more, "--resume").refused()


def test_a_command_without_groups_refuses_an_environment_that_scores_them(hub: Hub, tmp_path: Path) -> None:
    said = hub("serve", "agents", written(tmp_path), "-o", "run").refused()
    assert "scores all samples of a task together" in " ".join(said.split())


def again(folder: Path) -> list[Any]:
    with open_run(folder / "run-rescored") as reader:
        assert reader.waiting() == 0
        return sorted(reader.rollouts(), key=lambda rollout: (rollout.task.id, rollout.sample))


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
def test_a_finished_run_is_scored_again_by_whole_groups_that_name_who_is_missing(
    hub: Hub, tmp_path: Path, where: tuple[str, ...]
) -> None:
    assert hub("run", written(tmp_path), *PLAY, RANKED="break").code == 1
    before = records(tmp_path)
    (tmp_path / "asked.txt").unlink()
    text = (tmp_path / "ranked.py").read_text()
    (tmp_path / "ranked.py").write_text(text.replace("reward=float(place)", "reward=float(place) + 10"))
    done = hub("score", "run", "--env", "ranked.py", *where)
    assert done.code == 1, done.err  # one was not played to its end
    assert "5 of 6 verdicts changed" in done.out
    after = again(tmp_path)
    assert [rollout.reward for rollout in after] == [rollout.score and rollout.reward + 10 for rollout in before]
    assert [rollout.turns for rollout in after] == [rollout.turns for rollout in before]
    assert after[0].score.metadata["group"] == before[0].score.metadata["group"]
    assert after[1].outcome is Outcome.ENVIRONMENT_FAILED
    assert sorted(asked(tmp_path)) == ["a [0, 2] 1:environment_failed", "b [0, 1, 2]"]


def test_what_verify_gives_is_asked_for_again_where_a_transcript_is_all(hub: Hub, tmp_path: Path) -> None:
    what = "return [Score(reward=each.score.reward + each.sample) for each in self.group.members]"
    name = written(tmp_path, what, VERIFIED)
    assert hub("run", name, *PLAY).code == 0
    assert "verifies the world" in hub("score", "run", "--env", name).refused()
    (tmp_path / name).write_text(
        (tmp_path / name).read_text().replace("0.25", "0.5") + "    scores_transcripts = True\n"
    )
    assert hub("score", "run", "--env", name, "-q").code == 0
    assert [rollout.reward for rollout in again(tmp_path)] == [0.5, 1.5, 2.5] * 2
    assert again(tmp_path)[0].score.metrics == {"verify": 0.5}
    (tmp_path / "lines.jsonl").write_text('{"task_id": "a", "completion": "hello"}\n')
    assert "a stored text is one by itself" in hub("score", "lines.jsonl", "--env", name).refused()


def test_a_verdict_that_failed_is_given_when_the_run_is_scored_again(hub: Hub, tmp_path: Path) -> None:
    name = written(tmp_path, "if not os.path.exists('go'): raise RuntimeError('no idea')")
    assert hub("run", name, *PLAY).code == 1
    assert hub("score", "run", "--env", name, "-q").code == 1
    (tmp_path / "go").touch()
    assert hub("score", "run", "--env", name, "-o", "run-rescored", "--resume", "-q").code == 1  # what is kept stays
    assert hub("score", "run", "--env", name, "-o", "anew", "-q").code == 0
    with open_run(tmp_path / "anew") as reader:
        assert sorted(rollout.reward or 0.0 for rollout in reader.rollouts()) == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]


MENDED = """
    scores_transcripts = True

    def verify(self, submission):
        if not os.path.exists("go") and type(self).made == 2:
            raise VerifierError("no idea yet", retryable=False)
        return Score(reward=0.25)
"""


def test_a_sample_whose_verifier_failed_joins_its_group_when_the_run_is_scored_again(hub: Hub, tmp_path: Path) -> None:
    name = written(tmp_path, more=MENDED)
    assert hub("run", name, *PLAY, "--task", "a", RANKED="").code == 1
    first, failed, third = records(tmp_path)
    assert failed.outcome is Outcome.VERIFIER_FAILED
    assert (first.reward, third.reward) == (0.0, 1.0)
    assert first.score.metadata["group"]["lost"] == [{"sample": 1, "outcome": "verifier_failed"}]
    (tmp_path / "go").touch()
    assert hub("score", "run", "--env", name, "-q").code == 0
    after = again(tmp_path)
    assert [rollout.reward for rollout in after] == [0.0, 1.0, 2.0], "compared with all who are there now"
    assert [rollout.score.metadata["group"] for rollout in after] == [{"samples": [0, 1, 2], "lost": []}] * 3
    assert after[1].faults == ()
    assert (after[1].score.metrics, after[1].trainable) == ({"verify": 0.25}, True)
    assert asked(tmp_path) == ["a [0, 2] 1:verifier_failed", "a [0, 1, 2]"]


def test_killed_before_a_verdict_scoring_again_asks_for_whole_groups(hub: Hub, tmp_path: Path) -> None:
    name = written(tmp_path, "os.path.exists('rescoring') and self.task.id == 'b' and os.kill(os.getpid(), 9)")
    assert hub("run", name, *PLAY).code == 0
    (tmp_path / "rescoring").touch()
    words = ("score", "run", "--env", name, "--concurrency", "1", "-q")
    with started(tmp_path, *words) as killed:
        assert killed.wait(120) == -signal.SIGKILL
    with open_run(tmp_path / "run-rescored") as reader:
        assert (reader.waiting(), sum(reader.outcomes().values())) == (3, 3)
    assert "wait for their group's verdict" in hub("score", "run-rescored", "--env", name).refused()
    (tmp_path / "rescoring").unlink()
    (tmp_path / "asked.txt").unlink()
    assert hub(*words, "--resume").code == 0
    assert [rollout.reward for rollout in again(tmp_path)] == [0.0, 1.0, 2.0] * 2
    assert asked(tmp_path) == ["b [0, 1, 2]"], "a group that has its verdict is asked about no more"


def test_interrupted_between_groups_scoring_again_leaves_no_group_in_part(hub: Hub, tmp_path: Path) -> None:
    name = written(tmp_path, "os.path.exists('rescoring') and self.task.id == 'a' and os.kill(os.getpid(), 2)")
    assert hub("run", name, *PLAY).code == 0
    (tmp_path / "rescoring").touch()
    (tmp_path / "asked.txt").unlink()
    words = ("score", "run", "--env", name, "--concurrency", "1", "-q")
    with started(tmp_path, *words) as interrupted:
        assert interrupted.wait(120) == 130
    with open_run(tmp_path / "run-rescored") as reader:
        assert (reader.waiting(), reader.info.status) == (0, "interrupted")
        assert [rollout.reward for rollout in reader.rollouts()] in ([0.0, 1.0, 2.0], [0.0, 1.0, 2.0] * 2)
    assert hub(*words, "--resume").code == 0
    assert [rollout.reward for rollout in again(tmp_path)] == [0.0, 1.0, 2.0] * 2
    assert asked(tmp_path) == ["a [0, 1, 2]", "b [0, 1, 2]"]


def test_a_damaged_record_is_named_and_its_group_gets_no_other_verdict(hub: Hub, tmp_path: Path) -> None:
    name = written(tmp_path)
    assert hub("run", name, *PLAY).code == 0
    damaged = records(tmp_path)[4].rollout_id
    with closing(sqlite3.connect(tmp_path / "run" / "run.db")) as connection:
        connection.execute("UPDATE rollouts SET body = '{' WHERE rollout_id = ?", (damaged,))
        connection.commit()
    (tmp_path / "asked.txt").unlink()
    said = hub("score", "run", "--env", name, "--concurrency", "1", "-q").refused()
    assert f"{damaged} is damaged" in " ".join(said.split())
    assert asked(tmp_path) == ["a [0, 1, 2]"], "nothing is guessed of a group that is not whole"


def test_a_group_whose_task_is_gone_is_unscored_where_bad_rows_are_skipped(hub: Hub, tmp_path: Path) -> None:
    name = written(tmp_path)
    assert hub("run", name, *PLAY).code == 0
    (tmp_path / name).write_text((tmp_path / name).read_text().replace('("a", "b")', '("a",)'))
    assert "'b'" in hub("score", "run", "--env", name, "-o", "refused", "-q").refused()
    assert hub("score", "run", "--env", name, "--skip-bad", "-q").code == 1
    assert [rollout.reward for rollout in again(tmp_path)] == [0.0, 1.0, 2.0, None, None, None]
    assert again(tmp_path)[3].outcome is Outcome.VERIFIER_FAILED


DUEL = """
from rollouthub import Environment, EnvironmentConfig, Public, Secret, Task
from rollouthub.authoring.rewards import PairwiseJudge, Tournament

class Duel(Environment[EnvironmentConfig]):
    @classmethod
    def roles(cls, config):
        return ("judge",)

    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="Say a number."), Secret())

    async def verify_group(self, submissions):
        # What a mock says is all the same: the numbers tell the samples apart.
        named = [each.model_copy(update={"answer": str(place)}) for place, each in enumerate(submissions)]
        return await Tournament(PairwiseJudge(self.models["judge"])).score(self.task, named)
"""


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
def test_a_judge_that_prefers_the_first_is_reported_and_its_calls_are_kept_once(
    hub: Hub, tmp_path: Path, where: tuple[str, ...]
) -> None:
    (tmp_path / "duel.py").write_text(DUEL)
    judge = 'judge=mock/say?text={"reasoning": "the first", "winner": "A"}'
    assert hub("run", "duel.py", *where, *PLAY, "--role", judge).code == 0
    rollouts = records(tmp_path)
    assert [rollout.reward for rollout in rollouts] == [0.5] * 3
    assert {rollout.score.metrics["order_bias"] for rollout in rollouts} == {1.0}
    assert sum(len(rollout.score.judge_calls) for rollout in rollouts) == 2 * 3
    assert "whichever answer stood in one place" in hub("show", "run", rollouts[1].rollout_id).out


FORFEITS = """
    async def reply(self, seat, messages):
        if self.made == 2:
            from rollouthub.errors import SandboxOverrun

            raise SandboxOverrun("it ended its own sandbox")
"""


def test_an_agent_that_ends_its_own_world_keeps_its_zero_and_is_lost_to_the_group(hub: Hub, tmp_path: Path) -> None:
    name = written(tmp_path, more=FORFEITS)
    assert hub("run", name, *PLAY, "--task", "a", RANKED="").code == 0
    first, forfeited, third = records(tmp_path)
    assert (first.reward, forfeited.reward, third.reward) == (0.0, 0.0, 1.0)
    assert "group" not in forfeited.score.metadata
    assert first.score.metadata["group"]["lost"] == [{"sample": 1, "outcome": "scored"}]
    assert hub("score", "run", "--env", name, "-q").code == 0
    assert again(tmp_path)[1].score == forfeited.score
    assert again(tmp_path)[0].score.metadata == first.score.metadata
