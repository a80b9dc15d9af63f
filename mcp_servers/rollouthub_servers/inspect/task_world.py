"""Inspect's tasks, loaded in the foreign process: what they are, why they cannot be played, their samples."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import importlib
import importlib.util
import json
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser, ContentImage
from inspect_ai.scorer import includes

from rollouthub_servers.inspect.asked_model import NoModelError, data_url, shown
from rollouthub_servers.inspect.task_rollout import SampleRollout

_BOXED = {"bash", "python", "bash_session", "text_editor", "computer", "web_browser_go", "skill"}
"""Tools of the library's that run in a sandbox; tasks may leave it to the command line to name one."""
_ONLINE = {"web_search"}
_TRIES = 3
_IDLE = "I do not know."
_ID = re.compile(r"\w[\w.+-]{0,99}")


def load_task(place: "dict[str, Any]") -> "LoadedTask":
    """Load the task of a module (`module`), or of a file below a folder (`folder`, `file`)."""
    module = importlib.import_module(place["module"]) if place.get("module") else _module_of(place)
    found = getattr(module, place["task"])(**place["args"])
    if not isinstance(found, Task):
        raise TypeError(f"{place['task']} gives {type(found).__name__}, and no Task")
    return LoadedTask(found, Path.cwd())


def _module_of(place: "dict[str, Any]") -> Any:
    """Import a file as Inspect does: in its folder, with that on the path; as part of its package if it is in one."""
    root = Path(place["folder"])
    file = root / place["file"]
    os.chdir(file.parent)
    parts = [file.stem]
    top = file.parent
    while (top / "__init__.py").is_file() and top.is_relative_to(root):
        parts.insert(0, top.name)
        top = top.parent
    sys.path[:0] = list(dict.fromkeys([str(file.parent), str(top), str(root)]))
    if len(parts) > 1 and file.stem != "__init__":
        return importlib.import_module(".".join(parts))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def warm_up() -> None:
    """Evaluate something, so that what the library loads then is loaded once, and not by each session."""
    task = Task(dataset=MemoryDataset([Sample(input="1", target="1", id=1)]), scorer=includes())
    rollout = SampleRollout(task)
    rollout.begin(task.dataset[0].model_dump(mode="json"))
    rollout.answer({"content": "1"})
    rollout.score([])
    rollout.close()
    for thread in threading.enumerate():  # a process is forked from this one
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(5)


class LoadedTask:
    """One task, and the folder that its code works in."""

    def __init__(self, task: Task, folder: Path) -> None:
        self.task, self.folder = task, folder

    def describe(self) -> "dict[str, Any]":
        """What it is, and why it cannot be played."""
        reasons = _needs(self.task)
        tools: dict[str, list[str]] = {}
        if not reasons:
            tools, reasons = self._tried()
        ids = [str(_named(sample, at).id) for at, sample in enumerate(self.task.dataset)]
        return {
            "reasons": reasons,
            "count": len(self.task.dataset),
            "has_ids": len(set(ids)) == len(ids) and all(map(_ID.fullmatch, ids)),
            "scorers": [_name(each) for each in self.task.scorer or ()],
            "solver": _name(self.task.solver),
            "tools": tools,
        }

    def _tried(self) -> "tuple[dict[str, list[str]], list[str]]":
        """Play its first sample, by an agent that says its target, and by one that says little."""
        reasons: list[str] = []
        tools: dict[str, list[str]] = {}
        for words in (_target(self.task.dataset[0]), _IDLE):
            rollout = self.rollout()
            try:
                seen = rollout.begin(_named(self.task.dataset[0], 0).model_dump(mode="json"))
                tools |= {tool["name"]: list(tool["parameters"].get("properties", {})) for tool in seen["tools"]}
                if seen["is_over"]:
                    return tools, ["solver: it asks no model"]
                if reason := _unplayable(set(tools)):
                    return tools, [reason]
                said: list[Any] = []
                while not rollout.is_over and len(said) < _TRIES:
                    said.append({"content": words})
                    rollout.answer(said[-1])
                reasons = _unscored(rollout.score(said))
            except NoModelError as error:
                return tools, [str(error)]
            except Exception as error:  # of both answers the second is judged: the first may be no answer at all
                reasons = [f"its first sample cannot be played: {type(error).__name__}: {error}"[:400]]
        return tools, reasons

    def rows(self, start: int, count: int) -> "list[str | None]":
        """Some samples as JSON, each with what of it may be shown; None for one that is no JSON."""
        dataset = self.task.dataset
        return [_row(_named(dataset[at], at)) for at in range(start, min(start + count, len(dataset)))]

    def rollout(self) -> SampleRollout:
        """One rollout, not begun."""
        os.chdir(self.folder)
        return SampleRollout(self.task)


def _named(sample: Sample, at: int) -> Sample:
    """A sample with its name: its place, where it has none of its own, as Inspect names it."""
    return sample if sample.id is not None else sample.model_copy(update={"id": at + 1})


def _row(sample: Sample) -> "str | None":
    messages = [ChatMessageUser(content=sample.input)] if isinstance(sample.input, str) else sample.input
    for message in messages:
        for part in message.content if isinstance(message.content, list) else ():
            if isinstance(part, ContentImage):
                part.image = data_url(part.image)  # its file is where the import was
    try:
        kept = sample.model_dump_json()
        if Sample.model_validate_json(kept) != sample:
            return None
    except ValueError:
        return None
    told = [shown(message) for message in messages]
    return json.dumps({"shown": told, "choices": list(sample.choices or ()), "sample": json.loads(kept)})


def _needs(task: Task) -> "list[str]":
    """What a task asks for and is not given here, by its field."""
    reasons: list[str] = []
    samples = list(task.dataset)
    if not samples:
        reasons.append("dataset: it has no samples")
    boxes = [task.sandbox, *(sample.sandbox for sample in samples)]
    if kinds := sorted({box.type for box in boxes if box is not None}):
        reasons.append(f"sandbox = {kinds[0]!r}: its samples run in sandboxes of Inspect's")
    elif any(sample.setup for sample in samples):
        reasons.append("Sample.setup: a script, which wants a sandbox")
    if not task.scorer:
        reasons.append("scorer: it has none")
    if task.model is not None:
        reasons.append("model: it names the model that it evaluates")
    if task.approval:
        reasons.append("approval: it has calls approved")
    kinds = {part.type for sample in samples if not isinstance(sample.input, str) for part in _parts(sample.input)}
    if other := kinds - {"text", "image", "reasoning"}:
        reasons.append(f"Sample.input: it holds {min(other)}, and an agent gets words and pictures")
    return reasons


def _parts(messages: Any) -> "list[Any]":
    return [part for message in messages if isinstance(message.content, list) for part in message.content]


def _unplayable(tools: "set[str]") -> "str | None":
    if boxed := tools & _BOXED:
        return f"tools: {min(boxed)!r} runs in a sandbox"
    if online := tools & _ONLINE:
        return f"tools: {min(online)!r} asks a service"
    return None


def _unscored(answer: "dict[str, Any]") -> "list[str]":
    """Why what its scorers say makes no reward."""
    if not answer["scores"]:
        return ["scorer: it gives no score"]
    return [
        f"scorer: {each['name']!r} gives {each['value'][:80]!r}, which is no number"
        for each in answer["scores"][:1]
        if any(figure is None for figure in each["figures"].values())
    ]


def _target(sample: Sample) -> str:
    return sample.target if isinstance(sample.target, str) else " ".join(sample.target)


def _name(part: Any) -> str:
    """The name under which a part is registered, or those of its parts."""
    from inspect_ai._util.registry import is_registry_object, registry_unqualified_name

    parts = list(part) if hasattr(part, "__iter__") else getattr(part, "steps", None)
    if parts:
        return " + ".join(map(_name, parts))
    return registry_unqualified_name(part) if is_registry_object(part) else type(part).__name__
