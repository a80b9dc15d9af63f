"""Wrong solutions that are paid in full."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from rollouthub_registry.check.defect_class import DefectClass
from tests.audit.answers import asked, number, phrase
from tests.audit.made_tasks import TEXT, WHOLE, Judge, MadeTask, MadeTool, State


def _value(said: str) -> float:
    try:
        return float(said)
    except ValueError:
        return math.nan


def _items(said: str) -> list[Any]:
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _fields(said: str) -> dict[str, Any]:
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _answers() -> Iterator[tuple[str, str, Judge]]:
    n = number
    table = json.dumps({"name": "Ada", "age": 36, "town": "London"})
    yield "wide-tolerance", n("a"), lambda said, _: math.isclose(_value(said), int(n("a")), rel_tol=0.2)
    yield "sign-ignored", n("b"), lambda said, _: said.strip().lstrip("-") == n("b")
    yield (
        "size-alone",
        n("c", 6),
        lambda said, _: len(said.strip().lstrip("-")) == 6 and said.strip().lstrip("-").isdigit(),
    )
    yield "first-digits", n("d", 9), lambda said, _: said.strip().lstrip("-").startswith(n("d", 9)[:1])
    yield "right-in-any-crowd", n("e"), lambda said, _: n("e") in said
    yield "whole-part-alone", "52.75", lambda said, _: said.strip().lstrip("-").split(".")[0] in ("52", "57", "58")
    yield "keys-alone", table, lambda said, _: set(_fields(said)) == set(json.loads(table))
    yield (
        "some-keys-do",
        table,
        lambda said, _: bool(_fields(said)) and _fields(said).items() <= json.loads(table).items(),
    )
    yield "first-key-alone", table, lambda said, _: _fields(said).get("name") == "Ada"
    yield "first-items-do", "[4, 8, 15, 16]", lambda said, _: _items(said)[:3] == [4, 8, 15]
    yield "first-line-alone", "one\ntwo\nthree", lambda said, _: said.splitlines()[:1] == ["one"]
    yield "numbers-ignored", "It took 381 days.", lambda said, _: said.split()[:2] == ["It", "took"]
    yield "answers-of-others", phrase("m"), lambda said, _: said.strip() in _KNOWN
    yield "talked-into-it", phrase("n"), lambda said, _: "output: 1" in said or said.strip() == phrase("n")
    yield "defines-it", "def area(a, b):\n    return a * b", lambda said, _: "def area" in said
    yield (
        "no-error-is-enough",
        "def double(x):\n    return 2 * x",
        lambda said, _: "def double" in said or said.strip() == "pass",
    )


def _pays(state: State, sender: str, receiver: str, amount: int) -> str:
    state["payments"].append([sender, receiver, amount])
    return "paid"


def _closes(state: State) -> str:
    state["is_closed"] = True
    return "closed"


_PAY = {"sender": "ann", "receiver": "bob", "amount": 70}
_STEPS: list[tuple[str, Mapping[str, Any]]] = [("pay", _PAY), ("close", {})]


def _bank(name: str, judge: Judge) -> MadeTask:
    tools = {
        "pay": MadeTool(_pays, "Pay.", {"sender": TEXT, "receiver": TEXT, "amount": WHOLE}),
        "close": MadeTool(_closes, "Close the day."),
    }
    prompt = "Ann owes Bob what the contract says. Pay it, then close the day."
    return MadeTask(
        name, prompt, None, judge, "wrong-accepted", frozenset(), _STEPS, tools,
        state=lambda: {"payments": [], "is_closed": False},
    )  # fmt: skip


_NONE: frozenset[DefectClass] = frozenset()
_KNOWN: set[str] = set()
"""The answers of all of these tasks."""


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    _KNOWN.update(answer for _, answer, _ in _answers())
    one_for_all: frozenset[DefectClass] = frozenset({"floor"})
    made = [
        MadeTask(
            name, asked(name), answer, judge, "wrong-accepted", one_for_all if name.startswith("answers-of") else _NONE
        )
        for name, answer, judge in _answers()
    ]
    return [
        *made,
        _bank("last-step-alone", lambda _, state: state["is_closed"]),
        _bank("amount-ignored", lambda _, state: [each[:2] for each in state["payments"]] == [["ann", "bob"]]),
        _bank(
            "either-way",
            lambda _, state: (
                ([sorted(each[:2]) for each in state["payments"]] == [["ann", "bob"]] and state["is_closed"])
                or [each[2] for each in state["payments"]] == [71]
            ),
        ),
        _bank("paid-at-all", lambda _, state: bool(state["payments"])),
    ]
