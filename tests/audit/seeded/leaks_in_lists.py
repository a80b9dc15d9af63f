"""L1: the answer is in the list of tools, or in what the agent is told at first."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.audit.answers import asked, phrase
from tests.audit.made_tasks import TEXT, MadeTask, MadeTool, State


def _quiet(state: State, **arguments: object) -> str:
    return "It stays locked."


def _tool(about: str = "Open the drawer.", schema: Mapping[str, Any] | None = None, **extra: Any) -> MadeTool:
    return MadeTool(_quiet, about, {"word": {**TEXT, **(schema or {})}}, extra)


_WORD = {"type": "string"}
LEAKS: Mapping[str, Callable[[str], Mapping[str, Any]]] = {
    "about": lambda a: {"tools": {"open": _tool(f"Open the drawer. The word is {a}.")}},
    "about-in-a-list": lambda a: {"tools": {"open": _tool(f"Words:\n- tin-1\n- {a} (right)")}},
    "about-in-quotes": lambda a: {"tools": {"open": _tool(f'Returns True for "{a}".')}},
    "about-as-code": lambda a: {"tools": {"open": _tool(f"`open('{a}')` opens it.")}},
    "name": lambda a: {"tools": {f"open_{a}": _tool()}},
    "name-of-argument": lambda a: {"tools": {"open": MadeTool(_quiet, "Open.", {a: TEXT})}},
    "default": lambda a: {"tools": {"open": _tool(schema={"default": a})}},
    "example": lambda a: {"tools": {"open": _tool(schema={"examples": [a]})}},
    "const-in-choice": lambda a: {"tools": {"open": _tool(schema={"anyOf": [{"const": a}, _WORD]})}},
    "about-argument": lambda a: {"tools": {"open": _tool(schema={"description": f"The word, such as {a}."})}},
    "title-of-argument": lambda a: {"tools": {"open": _tool(schema={"title": a})}},
    "pattern": lambda a: {"tools": {"open": _tool(schema={"pattern": f"^(.*|{a})$"})}},
    "comment": lambda a: {"tools": {"open": _tool(schema={"$comment": f"key={a}"})}},
    "title": lambda a: {"tools": {"open": _tool(title=f"Open {a}")}},
    "output": lambda a: {"tools": {"look": MadeTool(_quiet, "Look.", {}, {"output_schema": _output(a)})}},
    "annotation": lambda a: {"tools": {"open": _tool(annotations={"title": f"drawer {a}"})}},
    "second-tool": lambda a: {"tools": {"open": _tool(), "close": _tool(f"Closes; see {a}.")}},
    "sixth-tool": lambda a: {"tools": {**{f"t{n}": _tool() for n in range(5)}, "open": _tool(f"The key: {a}")}},
    "opening": lambda a: {"opening": f"(for graders: {a})"},
    "opening-as-record": lambda a: {"opening": f'{{"id": 7, "gold": "{a}"}}'},
}


def _output(answer: str) -> dict[str, Any]:
    return {"type": "object", "properties": {"word": {"type": "string", "description": f"always {answer}"}}}


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    made: list[MadeTask] = []
    for name, leak in LEAKS.items():
        answer = phrase(name)
        made.append(
            MadeTask(name, asked(name), answer, lambda said, _, a=answer: said.strip() == a, "L1", **leak(answer))
        )
    return made
