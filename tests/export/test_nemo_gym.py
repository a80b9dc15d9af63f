"""NeMo Gym's rollout files: written by the hub, and read back to the same words of the same task."""

import base64
import json
from pathlib import Path

import pytest

from rollouthub import Media, Score, Text, ToolRequest
from rollouthub.analysis.scoring.completion_line import EntryReader
from rollouthub.messages import Message, assistant, media_of, user
from rollouthub.models.responses_rollout import read_items, row_id
from rollouthub.score import Component
from tests.export.kept import keep, made
from tests.export.made import rollout, turn


def test_a_rollout_is_written_in_their_form_and_read_back(tmp_path: Path) -> None:
    call = ToolRequest(id="c1", name="calculate", arguments='{"a": 1}')
    first = turn(0, [1], [2]).model_copy(
        update={"messages": (user("What is 2 + 2?"),), "response": assistant("Let me see.", call)}
    )
    result = Message(role="tool", content="4", tool_call_id="c1")
    second = turn(1, [1, 2, 3], [4], parent=0).model_copy(update={"messages": (result,), "response": assistant("4")})
    record = rollout(first, second, tools_digest="sha256:tools").model_copy(
        update={"score": Score(reward=0.5, components={"a": Component(value=0.5)})}
    )
    (row,) = made(keep(tmp_path / "run", record), format="nemo_gym").rows
    line = row["rollout"]
    assert line["responses_create_params"]["input"] == [
        {"type": "message", "role": "user", "content": "What is 2 + 2?"}
    ]
    kinds = [item["type"] for item in line["response"]["output"]]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
    assert (line["reward"], line["reward_components"]) == (0.5, {"a": 0.5})
    entry = EntryReader().read(json.dumps(line).encode(), 1)
    assert (entry.task_id, entry.split) == (record.task.id, record.task.split)
    assert [message.text for message in entry.submission.transcript] == ["Let me see.", "4", "4"]
    assert json.loads(entry.submission.answer or "") == line["response"]
    broken = {**line, "rollouthub": "nobody"}
    assert "names no task" in str(EntryReader().read(json.dumps(broken).encode(), 1).problem)


def test_pictures_and_documents_are_written_with_their_bytes_and_read_back(tmp_path: Path) -> None:
    shown = [Media.named(b"\x89PNG\r\n\x1a\n", "image/png"), Media.named(b"%PDF-1.4", "application/pdf")]
    asked = Message(role="user", content=(Text(text="Where?"), *shown))
    record = rollout(turn(0, [1], [2]).model_copy(update={"messages": (asked,), "response": assistant("There.")}))
    folder = keep(tmp_path / "run", record, media={part.digest: part.read() or b"" for part in shown})
    (row,) = made(folder, format="nemo_gym").rows
    (item,) = row["rollout"]["responses_create_params"]["input"]
    assert [part["type"] for part in item["content"]] == ["input_text", "input_image", "input_file"]
    (message,) = read_items([item])
    assert message == asked
    assert [part.read() for part in media_of([message])] == [part.read() for part in shown]


def test_a_sound_is_read_and_what_another_service_keeps_makes_no_message() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": base64.b64encode(b"RIFF").decode(), "format": "wav"}}
    (message,) = read_items([{"role": "user", "content": [{"type": "input_text", "text": "What is said?"}, sound]}])
    assert [(part.mime_type, part.read()) for part in media_of([message])] == [("audio/wav", b"RIFF")]
    for part in ("input_image", "input_file", "input_smell"):
        with pytest.raises(ValueError, match=part):
            read_items([{"role": "user", "content": [{"type": part, "file_id": "file-1"}]}])


def test_a_row_with_a_task_id_of_its_own_is_found_by_what_it_asks() -> None:
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "6"}]}
    line = {"responses_create_params": {"input": "Why?"}, "response": {"output": [item]}, "task_id": "bbq-7"}
    entry = EntryReader().read(json.dumps(line).encode(), 1)
    assert (entry.problem, entry.task_id) == (None, row_id("Why?"))
