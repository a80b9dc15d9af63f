"""A verifier that rewards single turns: from the file of an environment to what people and trainers read."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest

from rollouthub.export import training_rows
from rollouthub.store import open_run
from tests.models.servers import mock_server

from .conftest import Hub

STEPS = '''
from rollouthub import Environment, EnvironmentConfig, Message, Public, Score, Secret, SpanReward, Task

class StepsConfig(EnvironmentConfig):
    step: float = 0.0

class Steps(Environment[StepsConfig]):
    """Two answers, each worth something."""
    reads_turns = True
    scored = 0

    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="Say something."), Secret())

    async def reply(self, seat, messages):
        self.asked = getattr(self, "asked", 0) + 1
        return [Message(role="user", content="Once more.")] if self.asked < 2 else None

    def verify(self, submission):
        worth = {turn.index: 0.25 * (1 + turn.index) for turn in submission.turns}
        spans = [SpanReward(turn=1, start=0, end=2, reward=-0.125)]
        # The same for each sample but the seat's own, which is what is trained.
        own = 0.5 + self.config.step * Steps.scored
        Steps.scored += 1
        return Score(reward=1.0, turn_rewards=worth, span_rewards=spans, seat_rewards={"agent": own})
'''


@pytest.mark.parametrize("where", [(), ("--served",)], ids=["here", "served"])
def test_rewards_of_turns_reach_the_record_the_table_and_the_terminal(
    hub: Hub, tmp_path: Path, where: tuple[str, ...]
) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    hub("run", "steps.py", *where, "-m", "mock/say?text=hello", "-o", "run", "-q")
    with open_run(tmp_path / "run") as reader:
        (rollout,) = reader.rollouts()
    assert [turn.reward for turn in rollout.turns] == [0.25, 0.5]

    shown = hub("show", "run", rollout.rollout_id).out
    assert "reward +0.25" in shown
    assert "seat agent: 0.5" in shown
    assert "reward +0.5 · tokens 0 to 1 -0.125" in shown

    assert hub("export", "run", "--turns", "--to", "parquet", "-o", "turns.parquet").code == 0
    parquet: Any = import_module("pyarrow.parquet")
    table = parquet.read_table(tmp_path / "turns.parquet").to_pydict()
    assert (table["turn_reward"], table["seat_reward"]) == ([0.25, 0.5], [0.5, 0.5])
    assert table["span_rewards"] == [[], [{"start": 0, "end": 2, "reward": -0.125, "unit": "token"}]]
    assert len(set(table["anchor_group"])) == 2, "two states"


def test_data_sets_are_chosen_by_what_the_seat_earned_and_carry_rewards_by_token(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS)
    play = (
        "--set",
        "step=0.25",
        "-m",
        "mock/say?text=hello",
        "--repeats",
        "4",
        "--concurrency",
        "1",
        "-o",
        "run",
        "-q",
    )
    hub("run", "steps.py", *play)
    hub("export", "run", "--to", "groups", "--advantage", "mean", "-o", "groups.jsonl")
    rows = lines(tmp_path / "groups.jsonl")
    assert sorted((row["reward"], row["advantage"]) for row in rows) == [
        (0.5, -0.375),
        (0.75, -0.125),
        (1.0, 0.125),
        (1.25, 0.375),
    ], "a seat is compared with itself, not by the total that all have"
    for row in rows:
        places = [place for place, turn in enumerate(row["turn_ids"]) if turn == 1]
        assert row["process_rewards"][places[1]] == -0.125
        assert row["process_rewards"][places[-1]] == 0.5
        assert sum(row["process_rewards"]) == 0.25 + 0.5 - 0.125
        assert [turn["return"] - row["reward"] for turn in row["turns"]] == [0.25 + 0.5 - 0.125, 0.5 - 0.125]
    for states in zip(*([turn["anchor_group"] for turn in row["turns"]] for row in rows), strict=True):
        assert len(set(states)) == 1, "all members came to the same states"

    hub("export", "run", "--to", "kto", "--seat", "agent", "--threshold", "1", "-o", "kto.jsonl")
    assert sorted((row["reward"], row["label"]) for row in lines(tmp_path / "kto.jsonl")) == [
        (0.5, False),
        (0.75, False),
        (1.0, True),
        (1.25, True),
    ]
    hub("export", "run", "--to", "sft", "--seat", "agent", "--best", "1", "--min-reward", "1.1", "-o", "sft.jsonl")
    assert len(lines(tmp_path / "sft.jsonl")) == 1


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


WORDS = "Größe: drei. Also 3 – fertig."
SPELT = STEPS.replace(
    "spans = [SpanReward(turn=1, start=0, end=2, reward=-0.125)]",
    """said = submission.turns[1].response.text
        begin = said.index("drei")
        spans = [SpanReward(turn=1, start=begin, end=begin + 4, reward=-0.125, unit="character")]""",
)


@pytest.mark.parametrize("lane", ["here", "direct", "litellm"])
async def test_a_span_of_characters_becomes_the_tokens_that_hold_it_or_is_said_not_to_be_known(
    hub: Hub, tmp_path: Path, lane: str
) -> None:
    (tmp_path / "steps.py").write_text(SPELT)
    begin = WORDS.index("drei")
    async with mock_server(f"mock/say?text={WORDS}") as url:
        served = ["-m", "hosted_vllm/served", "--base-url", url, "--lane", lane]
        words = ["-m", f"mock/say?text={WORDS}"] if lane == "here" else served
        done = await anyio.to_thread.run_sync(lambda: hub("run", "steps.py", *words, "-o", "run", "-q"))
    assert done.code == 0, done.err
    with open_run(tmp_path / "run") as reader:
        (rollout,) = reader.rollouts()
    assert rollout.score is not None
    (span,) = rollout.score.span_rewards
    ids = rollout.turns[1].output_token_ids
    assert ids is not None
    if lane == "litellm":  # it gives no bytes of tokens
        assert (span.unit, span.start, span.end) == ("character", begin, begin + 4)
        assert "span_tokens" in rollout.gaps
        (row,) = training_rows(rollout)
        assert row.process_rewards[-1] == 0.5 - 0.125, "it counts with its turn"
        assert (
            f"characters {begin} to {begin + 3} -0.125"
            in (await anyio.to_thread.run_sync(lambda: hub("show", "run", rollout.rollout_id))).out
        )
        return
    assert span.unit == "token"
    assert bytes(ids.tolist()[span.start : span.end]).decode() == "drei"
    assert "span_tokens" not in rollout.gaps
    (row,) = training_rows(rollout)
    sampled = [place for place, turn in enumerate(row.segment.turn_ids) if turn == 1]
    assert row.process_rewards[sampled[span.end - 1] - row.segment.prompt_length] == -0.125


def test_a_span_behind_the_end_of_what_was_said_is_a_verifier_fault(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(SPELT.replace("begin + 4", "begin + 400"))
    assert hub("run", "steps.py", "-m", f"mock/say?text={WORDS}", "-o", "run", "-q").code == 1
    with open_run(tmp_path / "run") as reader:
        (rollout,) = reader.rollouts()
    assert rollout.outcome.value == "verifier_failed"
    assert "rewards characters up to" in rollout.faults[-1].message


@pytest.mark.parametrize("changes", ['{"reward": float("nan")}', '{"start": -3}'])
def test_a_span_that_was_copied_into_none_is_a_verifier_fault(hub: Hub, tmp_path: Path, changes: str) -> None:
    copied = f'unit="character").model_copy(update={changes})]'
    (tmp_path / "steps.py").write_text(SPELT.replace('unit="character")]', copied))
    assert hub("run", "steps.py", "-m", f"mock/say?text={WORDS}", "-o", "run", "-q").code == 1
    with open_run(tmp_path / "run") as reader:
        (rollout,) = reader.rollouts()
    assert rollout.outcome.value == "verifier_failed"
    assert "validation error for Score" in rollout.faults[-1].message


def test_a_stored_run_is_scored_again_with_spans_of_characters(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(SPELT + "    scores_transcripts = True\n")
    assert hub("run", "steps.py", "-m", f"mock/say?text={WORDS}", "-o", "run", "-q").code == 0
    text = (tmp_path / "steps.py").read_text()
    (tmp_path / "steps.py").write_text(text.replace('"drei"', '"Größe"').replace("begin + 4", "begin + 5"))
    assert hub("score", "run", "--env", "steps.py", "-o", "again", "-q").code == 0
    with open_run(tmp_path / "again") as reader:
        (rollout,) = reader.rollouts()
    assert rollout.score is not None
    assert [(span.unit, span.start, span.end) for span in rollout.score.span_rewards] == [("token", 0, 7)]


CREDITED = STEPS.replace(
    "def verify(self, submission):",
    """async def verify(self, submission):
        return await CreditJudge(self.models["judge"])(self.task, submission)

    @classmethod
    def roles(cls, config):
        return ("judge",)

    def unused(self, submission):""",
).replace("class StepsConfig", "from rollouthub.authoring.rewards import CreditJudge\n\nclass StepsConfig", 1)


def test_the_words_of_a_judge_stand_beside_the_rewards_that_it_gave(hub: Hub, tmp_path: Path) -> None:
    said = {
        "reasoning": "polite",
        "team": {"credit": 0.5, "words": "well opened"},
        "turns": [
            {"turn": 0, "credit": 0.75, "words": "a \x1b[31mgreeting"},
            {"turn": 1, "credit": -0.25, "words": "said before"},
        ],
        "seats": [{"seat": "agent", "credit": 0.25, "words": "one good word"}],
    }
    (tmp_path / "credited.py").write_text(CREDITED)
    judge = f"judge=mock/say?text={quote(json.dumps(said))}"
    hub("run", "credited.py", "-m", "mock/say?text=hello", "--role", judge, "-o", "run", "-q")
    with open_run(tmp_path / "run") as reader:
        (rollout,) = reader.rollouts()
    assert [turn.reward for turn in rollout.turns] == [0.75, -0.25]
    shown = [line.rstrip() for line in hub("show", "run", rollout.rollout_id).out.splitlines()]
    for reward, words in (("reward +0.75", "a greeting"), ("reward -0.25", "said before")):
        place = next(at for at, line in enumerate(shown) if reward in line)
        turn = shown[place : shown.index("", place)]
        assert turn[-1] == f"    judge {words}"
    assert "  seat agent: 0.250" in shown
    assert shown[shown.index("  judge, of the whole: well opened") + 1] == "  judge, of agent: one good word"
