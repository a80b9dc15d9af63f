"""L4: a tool tells the answer, in a result or in an error."""

# ruff: noqa: RUF028

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.audit.answers import asked, phrase
from tests.audit.made_tasks import TEXT, WHOLE, MadeTask, MadeTool, State


def _raises(error: Exception) -> object:
    raise error


def _lookup(state: State, key: str, answer: str) -> str:
    return {"a": "1"}.get(key) or str(_raises(LookupError(f"no {key!r} in {{'a': '1', 'gold': '{answer}'}}")))


def _guess(state: State, word: str, answer: str) -> str:
    if word != answer:
        raise ValueError(f"{word!r} is not {answer!r}")
    return "yes"


def _third(state: State, answer: str) -> str:
    state["calls"] = state.get("calls", 0) + 1
    return "nothing new" if state["calls"] < 3 else f"hint: {answer}"


def _tool(run: Callable[..., object], **arguments: Mapping[str, Any]) -> Callable[[str], MadeTool]:
    def made(answer: str) -> MadeTool:
        return MadeTool(lambda state, **given: run(state, answer=answer, **given), "A tool.", arguments)

    return made


LEAKS: Mapping[str, Callable[[str], MadeTool]] = {
    "help": _tool(lambda _, answer: f"Usage: answer. Example: {answer}"),
    "status": _tool(lambda _, answer: json.dumps({"turn": 1, "done": False, "expected": answer})),
    "state-as-object": _tool(lambda _, answer: {"score": 0.0, "gold": answer}),
    "list": _tool(lambda _, answer: ["north", "south", answer]),
    "debug": _tool(lambda _, answer: f"DEBUG verifier: comparing with {answer}"),
    "wrong-guess": _tool(_guess, word=TEXT),
    "wrong-guess-with-more": _tool(lambda _, answer, word, times: _guess({}, word, answer), word=TEXT, times=WHOLE),
    "no-such-key": _tool(_lookup, key=TEXT),
    "near-miss": _tool(lambda _, answer, word: f"did you mean {answer}?", word=TEXT),
    "reset": _tool(lambda _, answer: f"reset; the old answer was {answer}"),
    "search": _tool(lambda _, answer, query: f"1 hit in solutions.md: {answer}", query=TEXT),
    "read-file": _tool(lambda _, answer, path: f"# notes\ngold = {answer}\n", path=TEXT),
    "log": _tool(lambda _, answer: "\n".join(["12:00 start", f"12:01 loaded answer={answer}", "12:02 ready"])),
    "third-call": _tool(_third),
    "empty-argument": _tool(lambda _, answer, word: answer if not word else "no", word=TEXT),
    "negative-number": _tool(lambda _, answer, place: answer if place < 0 else "x", place=WHOLE),
    "large-number": _tool(lambda _, answer, place: answer if place > 1000 else "x", place=WHOLE),
    "index-error": _tool(
        lambda _, answer, place: ["x"][place] if place == 0 else _raises(LookupError(f"[{answer}]")), place=WHOLE
    ),
    "reward-so-far": _tool(lambda _, answer: f"reward 0.0 (target {answer})"),
    "trace": _tool(lambda _, answer: _raises(ValueError(f"File 'verify.py', line 3: assert said == '{answer}'"))),
}


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    made: list[MadeTask] = []
    for name, leak in LEAKS.items():
        answer = phrase(name)
        made.append(
            MadeTask(
                name,
                asked(name),
                answer,
                lambda said, _, a=answer: said.strip() == a,
                "L4",
                tools={"look": MadeTool(lambda _: "A door.", "Look around."), name.replace("-", "_"): leak(answer)},
            )  # fmt: skip
        )
    return made
