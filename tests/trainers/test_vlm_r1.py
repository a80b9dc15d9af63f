"""VLM-R1: rewards as its trainer calls for them, and rows as its launcher reads them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Message, Public
from rollouthub.errors import ConfigError, VerifierError
from rollouthub.export import TaskReference
from rollouthub.messages import Media, Text
from rollouthub.trainers.vlm_r1 import answer_of, hub_reward, jsonl_rows, write_jsonl

ECHO = str(Path(__file__).parents[1] / "analysis" / "scoring" / "lines.py") + ":Echo"
DIGEST = "sha256:" + "0" * 64


def ask(said: list[tuple[int, str]], **more: Any) -> list[float | None]:
    """As the trainer calls it: every column is a list, of which ours is one."""
    columns = {
        "rollouthub": [str(TaskReference("lines", "test", f"test/{number}")) for number, _ in said],
        "image_path": [["a.png"] for _ in said],
        "solution": ["<answer>  </answer>" for _ in said],
    }
    completions = [[{"role": "assistant", "content": words}] for _, words in said]
    settings = {"in_process": True, "set": {"size": 20}}
    prompts = [[{"role": "user", "content": "?"}] for _ in said]
    return hub_reward(
        prompts=prompts, completions=completions, environments=[ECHO], settings=settings, **columns, **more
    )


def test_each_completion_gets_its_own_tasks_verdict() -> None:
    thought = "<think>4? <answer>9</answer></think><answer> 4 </answer>"
    assert ask([(1, "1"), (2, "1"), (4, thought), (9, thought)]) == [1.0, 0.0, 1.0, 0.0]
    assert hub_reward([], [], rollouthub=[]) == []
    assert answer_of("plain") == "plain"


def test_an_unscored_answer_stands_where_its_group_does_and_is_never_zero() -> None:
    said = [(1, "1"), (1, "away"), (1, "1"), (2, "wrong")]
    assert ask(said) == [1.0, 1.0, 1.0, 0.0]
    assert ask(said, unscored="none") == [1.0, None, 1.0, 0.0]
    with pytest.raises(VerifierError, match="1 of 4"):
        ask(said, unscored="raise")
    with pytest.raises(VerifierError, match="not one answer"):
        ask([(1, "away"), (2, "2")])
    with pytest.raises(ConfigError, match="no column 'rollouthub'"):
        hub_reward([], ["1"])


def test_rows_are_read_as_its_launcher_reads_them(tmp_path: Path) -> None:
    picture = tmp_path / "images" / "a.png"
    shown = Message(
        role="user", content=(Media(digest=DIGEST, mime_type="image/png"), Text(text="What <image> is it?"))
    )
    tasks = [Public(id="1", prompt="Say 1", system="Be brief."), Public(id="2", prompt=(shown,))]
    given: dict[str, Any] = {"image_folder": tmp_path / "images", "pictures": {DIGEST: picture}}
    assert write_jsonl(tmp_path / "train.jsonl", tasks, "echo", "test", **given) == 2
    items = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    # Its launcher's own steps: paths joined to the folder, the question without its marks, the solution without tags.
    assert "image" not in items[0]
    assert os.path.join(tmp_path / "images", items[1]["image"]) == str(picture)  # noqa: PTH118  # as it does
    questions = [item["conversations"][0]["value"].replace("<image>", "") for item in items]
    assert questions == ["Be brief.\n\nSay 1", "What  is it?"]
    assert items[1]["conversations"][0]["value"].count("<image>") == 1
    assert [item["conversations"][1]["value"] for item in items] == ["", ""]
    assert TaskReference.parse(items[1]["rollouthub"]) == TaskReference("echo", "test", "2")


def test_pictures_outside_the_folder_or_unknown_are_refused(tmp_path: Path) -> None:
    shown = Message(role="user", content=(Media(digest=DIGEST, mime_type="image/png"),))
    task = Public(id="1", prompt=(shown,))
    with pytest.raises(ConfigError, match="say in `pictures`"):
        list(jsonl_rows([task], "echo", "test"))
    with pytest.raises(ConfigError, match="not within"):
        list(jsonl_rows([task], "echo", "test", image_folder=tmp_path / "a", pictures={DIGEST: tmp_path / "b.png"}))
