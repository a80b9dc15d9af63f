"""What of an observation an agent may see: fields whose names are known to be harmless, others that the user names, and
never one that says what an action was worth.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from pydantic_core import from_json, to_json

ENVELOPE = frozenset(("reward", "done", "metadata"))
"""Fields of an observation that OpenEnv's own `/ws` never sends as part of it."""
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TELLING = frozenset(
    (
        *("reward", "rewards", "score", "scores", "answer", "answers", "solution", "solutions", "grade", "grades"),
        *("correct", "correctness", "truth", "gold", "oracle", "secret", "secrets", "verdict", "rubric", "rubrics"),
        *("label", "labels", "expected", "metadata"),
    )
)
"""Words in a field's name that reserve the field for the verifier."""
_HARMLESS = frozenset(
    (
        *("action", "actions", "alive", "available", "axtree", "board", "camera", "content", "contents", "context"),
        *("current", "date", "description", "direction", "distance", "error", "exit", "code", "feedback", "fen"),
        *("frame", "goal", "grid", "height", "html", "humidity", "id", "image", "instruction", "instructions", "last"),
        *("lane", "legal", "length", "lives", "location", "mask", "max", "message", "messages", "move", "moves"),
        *("nearby", "number", "observation", "observations", "open", "opponent", "output", "outputs", "page", "pages"),
        *("phase", "pixels", "player", "players", "position", "preview", "previous", "problem", "prompt", "pruned"),
        *("question", "remaining", "result", "rotation", "round", "scene", "screen", "screenshot", "shape", "speed"),
        *("status", "stderr", "stdout", "step", "steps", "task", "text", "time", "tool", "tools", "list", "txt"),
        *("turn", "turns", "url", "urls", "vector", "visual", "warning", "web", "width", "wind", "x", "y", "is", "in"),
        *("episode", "game", "name", "iteration", "check"),
    )
)
"""Words in the names of fields that are shown unless the user chooses others: a field is, if it has no other word."""
_JUDGING = frozenset(
    ("verify", "verifier", "verification", "evaluate", "evaluation", "judge", "judges", "scorer", "grader", "reveal")
)
"""Further words in a tool's name by which it may tell what an action was worth."""
_ANYWHERE = frozenset(
    (
        *("reward", "rewards", "discounted_rewards", "correct_answer", "correct_answers", "expected_answer"),
        *("ground_truth", "reference_answer", "gold_answer", "is_correct", "answer_key"),
    )
)
"""Keys that are removed from everything that is shown, at any depth."""
_MOST = 200_000
_DEEPEST = 40


def is_telling(name: str) -> bool:
    """Whether a field of this name is never shown: it says what an action was worth, or what would be right."""
    return name in ENVELOPE or bool(_TELLING & _words(name))


def is_harmless(name: str) -> bool:
    """Whether a field of this name is shown unless the fields were chosen."""
    return not is_telling(name) and _words(name) <= _HARMLESS


def is_judging(name: str) -> bool:
    """Whether a tool of this name is offered only where the user names it: it may tell what an action was worth."""
    return bool((_TELLING | _JUDGING) & _words(name))


def _words(name: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(name))


def cut(value: Any, depth: int = 0) -> Any:
    """A value without the keys that tell, however deep they are; a text that is a JSON object is cut as one."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: cut(each, depth + 1) for name, each in fields.items() if name.lower() not in _ANYWHERE}
    if isinstance(value, list):
        return [cut(each, depth + 1) for each in cast("list[Any]", value)]
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") and any(f'"{key}"' in value for key in _ANYWHERE):
        try:
            inner = from_json(value)
        except ValueError:
            return value
        return to_json(cut(inner, depth + 1)).decode()
    return value


def shown_text(observation: Mapping[str, Any], names: Iterable[str]) -> str:
    """Format an observation as text: one line for each listed field that has a value to show."""
    lines: list[str] = []
    for name in names:
        value = cut(observation.get(name))
        if value is None:
            continue
        text = value if isinstance(value, str) else to_json(value).decode()
        lines.append(f"{name}:\n{text}" if "\n" in text else f"{name}: {text}")
    words = "\n".join(lines)
    return f"{words[:_MOST]}\n(cut at {_MOST:,} characters)" if len(words) > _MOST else words


def result_text(observation: Mapping[str, Any]) -> tuple[str, bool]:
    """The text that a tool of the MCP mode returned, in either of its forms, and whether it failed."""
    if "tool_result" in observation or "success" in observation:
        problem = observation.get("error_message")
        value = observation.get("tool_result")
    else:
        fault = observation.get("error")
        problem = cast("dict[str, Any]", fault).get("message") if isinstance(fault, dict) else fault
        value = observation.get("result")
    if problem:
        return str(problem)[:_MOST], True
    content = cast("dict[str, Any]", value).get("content") if isinstance(value, dict) else None
    if isinstance(content, list):
        parts = [cast("dict[str, Any]", part) for part in cast("list[Any]", content) if isinstance(part, dict)]
        texts = [str(cut(part["text"])) for part in parts if isinstance(part.get("text"), str)]
        failed = bool(cast("dict[str, Any]", value).get("is_error") or cast("dict[str, Any]", value).get("isError"))
        return "\n".join(texts)[:_MOST], failed
    value = cut(value)
    return (value if isinstance(value, str) else to_json(value).decode())[:_MOST], False
