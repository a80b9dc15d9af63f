"""L6: the answer is in the public half of the task, which every list of tasks shows."""

from collections.abc import Callable, Mapping

from pydantic import JsonValue

from tests.audit.answers import asked, number, phrase
from tests.audit.made_tasks import MadeTask

LEAKS: Mapping[str, Callable[[str], Mapping[str, JsonValue]]] = {
    "answer": lambda a: {"answer": a},
    "gold": lambda a: {"gold": a},
    "as-number": lambda a: {"target": int(a)},
    "nested": lambda a: {"row": {"solution": {"final": a}}},
    "in-a-list": lambda a: {"labels": ["x", a]},
    "in-a-sentence": lambda a: {"note": f"checked by hand: {a} is right"},
    "rubric": lambda a: {"rubric": [{"points": 1, "text": f"gives {a}"}]},
    "test": lambda a: {"test": f"assert solve() == {a}"},
    "key": lambda a: {f"sum {a}": True},
    "path": lambda a: {"file": f"gold/{a}.json"},
    "reasoning": lambda a: {"reasoning": f"First we add.\nThen we subtract.\n#### {a}"},
    "boxed": lambda a: {"solution": f"\\boxed{{{a}}}"},
    "url": lambda a: {"source": f"https://example.com/?gold={a}"},
    "choices-with-mark": lambda a: {"choices": [{"text": a, "is_right": True}, {"text": "12", "is_right": False}]},
    "pairs": lambda a: {"pairs": [["question", "1"], ["gold", a]]},
    "json-in-text": lambda a: {"raw": f'{{"final": "{a}"}}'},
    "debug": lambda a: {"debug": {"expected": a, "seed": 4}},
    "hash-beside": lambda a: {"digest": f"sha256 of {a}"},
    "previous-run": lambda a: {"previous": {"final": f"The answer is {a}."}},
    "tags": lambda a: {"tags": ["sum", f"answer:{a}"]},
}


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    made: list[MadeTask] = []
    for name, leak in LEAKS.items():
        answer = number(name) if name in ("as-number", "test") else phrase(name)
        made.append(
            MadeTask(
                name, asked(name), answer, lambda said, _, a=answer: said.strip() == a, "L6", metadata=leak(answer)
            )
        )
    return made
