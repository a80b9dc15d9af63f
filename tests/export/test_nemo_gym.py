"""NeMo Gym's rollout files: written by the hub, and read back to the same words of the same task."""

import json
from pathlib import Path

from rollouthub import Score, ToolRequest
from rollouthub.analysis.scoring.completion_line import EntryReader
from rollouthub.messages import Message, assistant, user
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
