"""Inspect's own scores of given answers: runs in the virtual environment of a task, alone.

`python inspect_own.py JOB`: JOB is JSON with the task's `place` and `episodes`, each a sample and the agent's messages.
Prints a line of JSON: what `inspect_ai.eval` with mockllm/model gives for each, and the CPU seconds that took.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import copy
import importlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from inspect_ai import eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageAssistant, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import value_to_float
from inspect_ai.tool import ToolCall


def main() -> None:
    """Evaluate the job's episodes, each by itself."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    place = job["place"]
    sys.path.insert(0, job["code"])
    if "module" in place:
        module = importlib.import_module(place["module"])
    else:
        os.chdir(Path(job["code"], place["file"]).parent)
        sys.path.insert(0, str(Path.cwd()))
        module = importlib.import_module(Path(place["file"]).stem)
    task = getattr(module, place["task"])(**place["args"])
    found = [_evaluated(task, episode) for episode in job["episodes"]]
    sys.stdout.write(json.dumps(found) + "\n")


def _evaluated(task: Any, episode: "dict[str, Any]") -> "dict[str, Any]":
    one = copy.copy(task)
    one.dataset = MemoryDataset([Sample.model_validate(episode["sample"])])
    outputs = [_output(message) for message in episode["said"]]
    began = time.process_time()
    with tempfile.TemporaryDirectory() as logs:
        model = get_model("mockllm/model", memoize=False, custom_outputs=outputs)
        (log,) = evaluate(one, model=model, display="log", log_dir=logs, log_realtime=False, epochs=1)
        used = time.process_time() - began
        sample = (log.samples or [None])[0]  # read from the file
    if log.status != "success" or sample is None or sample.error is not None:
        error = sample.error if sample is not None and sample.error is not None else log.error
        return {"error": str(error and error.message)[:300], "cpu": used}
    scores = {name: score.value for name, score in (sample.scores or {}).items()}
    return {"scores": {key: value for name, each in scores.items() for key, value in _numbers(name, each)}, "cpu": used}


def _numbers(name: str, value: Any) -> "list[tuple[str, float]]":
    if isinstance(value, dict):
        return [(f"{name}.{key}", float(value_to_float()(each))) for key, each in value.items()]
    return [(name, float(value_to_float()(value)))]


def _output(message: "dict[str, Any]") -> ModelOutput:
    calls = [
        ToolCall(id=call["id"], function=call["name"], arguments=json.loads(call["arguments"]))
        for call in message["tool_calls"]
    ]
    said = ChatMessageAssistant(content=message["content"], tool_calls=calls or None)
    output = ModelOutput.from_message(said, "tool_calls" if calls else "stop")
    output.usage = ModelUsage()  # else it is counted by a vocabulary that has to be downloaded
    return output


if __name__ == "__main__":
    main()
