"""Reference solutions that are not paid in full."""

import json
import unicodedata
from collections.abc import Iterator

from rollouthub import Score
from tests.audit.answers import asked, number
from tests.audit.made_tasks import TEXT, WHOLE, Judge, MadeTask, MadeTool, State


def _plus(name: str, by: int) -> str:
    return str(int(number(name)) + by)


def _answers() -> Iterator[tuple[str, str, Judge]]:
    n = number
    yield "trailing-dot", f"{n('a')}.", lambda said, _: said.strip() == n("a")
    yield "other-unit", f"{n('b')} m", lambda said, _: said.strip() == f"{n('b')}00 cm"
    yield "space-in-key", "Paris", lambda said, _: said == "Paris\u00a0"
    yield "exact-floats", str(0.1 + 0.2), lambda said, _: said.strip() == "0.3"
    yield "old-answer", n("e"), lambda said, _: said.strip() == _plus("e", 1)
    yield "case", "Ulan Bator", lambda said, _: said.strip() == "ulan bator"
    yield "whole-numbers", f"{n('g')}.0", lambda said, _: said.strip().isdigit() and said.strip() == n("g")
    yield "cut-key", "a long answer, in full", lambda said, _: said.strip() == "a long ans"
    yield "decimal-comma", "3,1415", lambda said, _: said.strip() == "3.1415"
    yield "other-normal-form", "Göteborg", lambda said, _: said.strip() == unicodedata.normalize("NFD", "Göteborg")
    yield "frame", f"\\boxed{{{n('k')}}}", lambda said, _: said.strip() == n("k")
    yield "order-of-keys", '{"a": 1, "b": 2}', lambda said, _: said.strip() == '{"b": 2, "a": 1}'
    yield "unsorted", "[3, 1, 2]", lambda said, _: said.strip() == "[1, 2, 3]"
    yield "half-credit", n("n"), lambda said, _: 0.5 * (said.strip() == n("n"))
    yield "mark-too-high", n("o"), lambda said, _: Score(reward=0.8 * (said.strip() == n("o")), passed=False)
    yield "rounded", "2.72", lambda said, _: said.strip() == "2.71828"
    yield "off-by-one-program", "def f(x):\n    return x + 2", lambda said, _: "x + 1" in said


def _buys(state: State, item: str, count: int) -> str:
    if count > state["money"]:
        raise ValueError("there is not enough money")
    state["money"] -= count
    state["bought"][item] = count
    return "bought"


def _shop(name: str, steps: list[tuple[str, dict[str, object]]], judge: Judge) -> MadeTask:
    tools = {"buy": MadeTool(_buys, "Buy something.", {"item": TEXT, "count": WHOLE})}
    prompt = f"Buy what the list of {name!r} says."
    return MadeTask(
        name, prompt, None, judge, "oracle", steps=steps, tools=tools, state=lambda: {"money": 9, "bought": {}}
    )


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    made = [MadeTask(name, asked(name), answer, judge, "oracle") for name, answer, judge in _answers()]
    pears: Judge = lambda _, state: json.dumps(state["bought"]) == '{"pears": 3}'  # noqa: E731
    made.append(_shop("renamed-argument", [("buy", {"what": "pears", "count": 3})], pears))
    made.append(_shop("renamed-tool", [("purchase", {"item": "pears", "count": 3})], pears))
    made.append(
        _shop("too-little-money", [("buy", {"item": "tea", "count": 7}), ("buy", {"item": "pears", "count": 3})], pears)
    )
    return made
