"""The hub's pairs in LLaMA-Factory's form, and through its own loader where a checkout is at hand."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "offline" / "llama_factory.py"
CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": {"at": "lamp"}}}
ASKED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Which colour?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [CALL, CALL]},
    {"role": "tool", "content": "red", "tool_call_id": "c"},
    {"role": "tool", "content": "still red", "tool_call_id": "c"},
]
RED, BLUE = {"role": "assistant", "content": "red"}, {"role": "assistant", "content": "blue"}
CALLING = {"role": "assistant", "content": "", "tool_calls": [CALL]}
ROWS: list[dict[str, Any]] = [
    {"prompt": ASKED, "chosen": [RED], "rejected": [BLUE], "tools": "[]"},
    {"prompt": ASKED[:2], "chosen": [CALLING, ASKED[3], RED], "rejected": [BLUE], "tools": "[]"},
    {"prompt": ASKED[1:2], "chosen": [RED, ASKED[1]], "rejected": [RED, BLUE], "tools": None},
]


def converted(folder: Path) -> tuple[str, list[dict[str, Any]], dict[str, Any]]:
    """What the script says, the rows and their description."""
    (folder / "dpo.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(folder / "dpo.jsonl"), str(folder / "out")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    described = json.loads((folder / "out" / "dataset_info.json").read_text())["hub_dpo"]
    return done.stdout, json.loads((folder / "out" / described["file_name"]).read_text()), described


def test_a_pair_is_alternating_turns_and_one_message_of_each_side(tmp_path: Path) -> None:
    said, (answered, called), _ = converted(tmp_path)
    assert said.startswith("2 of 3 pairs written")
    assert "left out: 1 (the conversations part after their first message)" in said
    assert [turn["role"] for turn in answered["conversations"]] == ["system", "user", "function_call", "tool"]
    assert json.loads(answered["conversations"][2]["content"]) == [CALL["function"]] * 2
    assert answered["conversations"][3]["content"] == "red\n</tool_response>\n<tool_response>\nstill red"
    assert (answered["chosen"], answered["rejected"]) == (RED, BLUE)
    assert called["chosen"] == {"role": "function_call", "content": json.dumps([CALL["function"]])}


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sft.jsonl").write_text('{"messages": []}\n')
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "sft.jsonl"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "is no file of `hub export --to dpo" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.live
def test_llama_factorys_loader_takes_every_pair(
    checkout: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = checkout("llama-factory", "src")
    for name in ("llamafactory", "llamafactory.data", "llamafactory.extras"):  # without what their packages import
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")))]
        monkeypatch.setitem(sys.modules, name, package)
    parser, converters = import_module("llamafactory.data.parser"), import_module("llamafactory.data.converter")
    formatter: Any = import_module("llamafactory.data.formatter")
    _, rows, described = converted(tmp_path)
    attributes: Any = parser.DatasetAttr("file", dataset_name="hub_dpo.json")
    attributes.join(described)
    convert = converters.get_dataset_converter(attributes.formatting, attributes, SimpleNamespace(media_dir="."))
    for row in rows:
        taken = convert(row)
        assert len(taken["_prompt"]) % 2 == 1
        assert [each["content"] for each in taken["_response"]] == [
            row[name]["content"] for name in ("chosen", "rejected")
        ]
        for turn in (*taken["_prompt"], *taken["_response"]):
            if turn["role"] == "function":
                assert "look" in str(
                    formatter.FunctionFormatter(slots=["{{content}}"], tool_format="qwen").apply(**turn)
                )
