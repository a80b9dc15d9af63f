"""`--replay`: verifiers and tool calls once more catch what a forger signed himself."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollouthub import evaluate
from rollouthub.event_loop import run_async
from rollouthub.score import ModelCall
from rollouthub.store import open_run
from rollouthub_registry.receipt.claim import Claim
from rollouthub_registry.receipt.replay import replay_run
from rollouthub_registry.receipt.worlds import ReplayOptions
from tests.registry.receipt.runs import change, change_bodies, play, receipt_of, refuted, verified

Edit = Callable[[Any], None]
DICE = '''
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task

class Dice(Environment[EnvironmentConfig]):
    """One die, whose upper face is asked for."""
    scores_transcripts = True

    @classmethod
    def tasks(cls, config, split, seed):
        for number in range(3):
            yield Task(Public(id=str(number), prompt=f"Say {number}."), Secret(answer=str(number)))

    def reference(self):
        from rollouthub.messages import assistant
        return (assistant(self.task.secret.answer),)

    async def verify(self, submission):
        return Score(reward=float(submission.final == self.task.secret.answer))
'''


def replayed(run: Path, **options: Any) -> dict[str, Claim]:
    """What a replay says, by the claims' names; where several have one, the first."""
    replay = run_async(replay_run, run, ReplayOptions(**options), list[str]().append)
    found: dict[str, Claim] = {}
    for claim in replay.claims:
        found.setdefault(claim.name, claim)
    return found


def verdicts(found: dict[str, Claim]) -> dict[str, str]:
    """The verdict of each claim."""
    return {name: claim.verdict for name, claim in found.items()}


@pytest.fixture
def run(played: Path, tmp_path: Path) -> Path:
    """A run of the mock solver that a test may change."""
    return Path(shutil.copytree(played, tmp_path / "run"))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in a world with a state; nobody changes it."""
    directory = tmp_path_factory.mktemp("desk") / "run"
    evaluate("customer_service", directory=directory, limit=3, progress=False)
    return directory


def test_an_honest_run_is_proven_again(played: Path) -> None:
    found = replayed(played)
    assert verdicts(found) == dict.fromkeys(("verdicts", "tool_calls", "planned"), "proven")
    assert found["verdicts"].rollouts == found["tool_calls"].rollouts == found["planned"].rollouts == 6
    assert found["tool_calls"].said.startswith("6 tool calls of 6 rollouts gave the same results again")


def test_failures_are_neither_verified_nor_replayed(failing: Path) -> None:
    with open_run(failing) as reader:
        scored = sum(1 for rollout in reader.rollouts() if rollout.score is not None)
    found = replayed(failing)
    assert 0 < scored < 12
    assert found["verdicts"].rollouts == found["tool_calls"].rollouts == scored
    assert found["planned"].rollouts == 12


def test_only_as_many_are_replayed_as_are_asked_for(played: Path) -> None:
    found = replayed(played, limit=2)
    assert found["verdicts"].rollouts == found["tool_calls"].rollouts == 2


def test_a_world_with_a_state_ends_in_the_same_state_again(desk: Path) -> None:
    found = replayed(desk)
    assert verdicts(found) == dict.fromkeys(("verdicts", "tool_calls", "planned"), "proven")
    assert "the same end state in the 3 that kept one" in found["tool_calls"].said


def test_a_forged_reward_is_refuted(run: Path) -> None:
    def edit(body: Any) -> None:
        body["score"].update(reward=0.25)

    change_bodies(run, "rollouts", edit)
    change(run, "UPDATE rollouts SET reward = 0.25")
    assert refuted(verified(receipt_of(run), run)) == set()  # it is as it was signed
    found = replayed(run)
    assert (found["verdicts"].verdict, found["tool_calls"].verdict) == ("refuted", "refuted")
    assert "reward 0.25 passed is recorded, and reward 1 passed comes out" in found["verdicts"].examples[0]


def test_a_forged_tool_result_is_refuted(run: Path) -> None:
    def edit(body: Any) -> None:
        for call in body["tool_calls"]:
            call["result"]["content"][0]["text"] = "7"

    change_bodies(run, "turns", edit)
    found = replayed(run)
    assert (found["verdicts"].verdict, found["tool_calls"].verdict) == ("proven", "refuted")
    assert "calculate gave another result" in found["tool_calls"].examples[0]


def test_what_an_agent_adds_to_the_worlds_words_is_its_own(tmp_path: Path) -> None:
    run = play(tmp_path / "run", agent="react")
    assert replayed(run)["tool_calls"].verdict == "proven"

    def edit(body: Any) -> None:
        for message in body["messages"]:
            if message["role"] == "user":
                message["content"] = message["content"].replace("What is", "What was")

    change_bodies(run, "turns", edit)
    assert "the agent was told other things" in replayed(run)["tool_calls"].examples[0]


def test_a_forged_end_state_is_refuted(desk: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(desk, tmp_path / "run"))

    def edit(body: Any) -> None:
        (kept,) = body["artifacts"]
        file = run / "media" / kept["digest"].removeprefix("sha256:")
        state = json.dumps({**json.loads(file.read_bytes()), "more": 1}).encode()
        kept["digest"], kept["bytes"] = "sha256:" + hashlib.sha256(state).hexdigest(), len(state)
        (run / "media" / kept["digest"].removeprefix("sha256:")).write_bytes(state)

    change_bodies(run, "rollouts", edit)
    assert refuted(verified(receipt_of(run), run)) == set()
    found = replayed(run)
    assert found["tool_calls"].verdict == "refuted"
    assert "ended in another state" in found["tool_calls"].examples[0]


def test_a_dropped_rollout_with_a_forged_plan_is_refuted(run: Path) -> None:
    change(
        run,
        "DELETE FROM rollouts WHERE id = (SELECT max(id) FROM rollouts)",
        "UPDATE meta SET value = '5' WHERE key = 'planned'",
    )
    assert refuted(verified(receipt_of(run), run)) == set()
    planned = replayed(run)["planned"]
    assert (planned.verdict, planned.said) == (
        "refuted",
        "the settings lead to 6 rollouts, and the run says that 5 were planned",
    )


def forged_agent(**turn: Any) -> tuple[Edit, Edit]:
    """Edits of records and turns that put a strange agent's name on them."""

    def body_edit(body: Any) -> None:
        body["agent"] = {"name": "acme/genius", "version": "1", "config": {}}
        body["trainable_reason"] = "turn 0 has no token ids from the engine"

    return body_edit, lambda body: body.update(turn)


@pytest.mark.parametrize(
    ("turn", "verdict"),
    [({}, "refuted"), ({"finish_reason": "stop", "usage": {"prompt_tokens": 9, "output_tokens": 9}}, "not_provable")],
)
def test_the_reference_word_for_word_under_another_name_is_caught(
    tmp_path: Path, turn: dict[str, Any], verdict: str
) -> None:
    run = play(tmp_path / "run", None)
    body_edit, turn_edit = forged_agent(**turn)
    change_bodies(run, "rollouts", body_edit)
    change_bodies(run, "turns", turn_edit)
    if turn:
        change(run, "UPDATE rollouts SET prompt_tokens = 18, output_tokens = 18")
    assert refuted(verified(receipt_of(run), run)) == set()
    found = replayed(run)["reference"]
    assert (found.verdict, found.rollouts) == (verdict, 6)
    assert "reference solution word for word" in found.said


def test_an_answer_of_its_own_is_not_the_reference(tmp_path: Path) -> None:
    run = play(tmp_path / "run", None)
    body_edit, _ = forged_agent()
    change_bodies(run, "rollouts", body_edit)
    change_bodies(run, "turns", lambda body: body["response"].update(content="So: " + body["response"]["content"]))
    assert replayed(run)["reference"].verdict == "consistent"


def test_another_version_of_the_environment_proves_nothing(run: Path) -> None:
    change_bodies(run, "rollouts", lambda body: body["environment"].update(digest="sha256:0"))
    found = replayed(run)
    assert verdicts(found) == {"replay": "not_provable"}
    assert "another version of their environment" in found["replay"].said


def test_an_environment_that_is_not_here_proves_nothing(run: Path) -> None:
    def elsewhere(value: str) -> str:
        return f"UPDATE meta SET value = json_set(value, '$.request.environments[0]', '{value}') WHERE key = 'resolved'"

    change(run, elsewhere("no_such_world"))
    found = replayed(run)
    assert verdicts(found) == {"replay": "not_provable"}
    assert "no_such_world" in found["replay"].said


def test_code_is_run_only_when_the_user_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("dice.py").write_text(DICE)
    evaluate("./dice.py", directory="run", progress=False)
    Path("dice.py").write_text(DICE + "\nopen('ran', 'w').close()\n")
    found = replayed(Path("run"))
    assert verdicts(found) == {"replay": "not_provable"}
    assert "name it yourself if you trust it: `hub verify RECEIPT --replay --env ENV`" in found["replay"].said
    assert not Path("ran").exists()
    Path("dice.py").write_text(DICE)
    found = replayed(Path("run"), environment="./dice.py")
    assert found["verdicts"].verdict == "proven"
    assert found["tool_calls"].verdict == "not_provable"  # the file promises nothing


def test_models_at_servers_are_not_asked(run: Path) -> None:
    def judged(body: Any) -> None:
        body["score"]["judge_calls"] = [ModelCall(role="judge", model="gpt-5", messages=(), response=None).model_dump()]

    change_bodies(run, "rollouts", judged)
    role = 'json(\'{"name": "gpt-5"}\')'
    change(run, f"UPDATE meta SET value = json_set(value, '$.request.roles.judge', {role}) WHERE key = 'resolved'")
    found = replayed(run)
    assert "not asked" in found["replay"].said
    assert found["verdicts"].verdict == "not_provable"
    assert found["tool_calls"].verdict == "not_provable"
