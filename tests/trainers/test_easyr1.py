import json
from pathlib import Path

import pytest

from rollouthub import Message, Public, Score
from rollouthub.export import TaskReference
from rollouthub.messages import Media, Text
from rollouthub.trainers import easyr1
from rollouthub.trainers.scorer import Verdict

ONE, OTHER = (TaskReference("arithmetic", "train", f"train/{number}") for number in (0, 1))


def test_an_unscored_answer_stands_where_its_groups_baseline_does() -> None:
    verdicts = [Verdict(Score(reward=1.0)), Verdict(None, "it broke"), Verdict(Score(reward=0.5)), Verdict(None)]
    found = [easyr1.values(verdict, ()) for verdict in verdicts]
    rows = easyr1.filled([ONE, ONE, ONE, OTHER], found, ())
    assert [row["overall"] for row in rows] == [1.0, 0.75, 0.5, 0.0]
    assert [row["unscored"] for row in rows] == [0.0, 1.0, 0.0, 1.0]
    assert len({tuple(row) for row in rows}) == 1, "every answer has the same keys"


def test_a_row_names_its_task_where_the_reward_function_can_see_it(tmp_path: Path) -> None:
    tasks = [Public(id="train/0", prompt="What is 2 + 2?", system="Be brief.")]
    assert easyr1.write_prompts(easyr1.prompt_rows(tasks, "arithmetic", "train"), tmp_path / "train.jsonl") == 1
    row = json.loads((tmp_path / "train.jsonl").read_text())
    assert row["prompt"] == "Be brief.\n\nWhat is 2 + 2?"
    assert set(json.loads(row["answer"])) == {"environment", "split", "task_id"}
    assert TaskReference.parse(row["answer"]) == ONE


def test_pictures_are_marked_in_the_prompt_and_named_in_a_column() -> None:
    shown = Message(role="user", content=(Media(digest="sha256:1", mime_type="image/png"), Text(text="What is it?")))
    tasks = [Public(id="a", prompt=(shown,))]
    (row,) = easyr1.prompt_rows(tasks, "seen", "train", pictures={"sha256:1": Path("one.png")})
    assert row["prompt"] == "<image>\nWhat is it?"
    assert row["images"] == ["one.png"]
    with pytest.raises(Exception, match="pictures"):
        list(easyr1.prompt_rows(tasks, "seen", "train"))
