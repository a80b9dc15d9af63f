"""Rewards for nothing, or for the same answer to every task."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from rollouthub import Score
from rollouthub_registry.check.defect_class import DefectClass
from tests.audit.answers import asked, number, phrase
from tests.audit.made_tasks import TEXT, Judge, MadeTask, MadeTool, State

_ANYTHING: frozenset[DefectClass] = frozenset({"wrong-accepted"})


def _for_nothing() -> Iterator[tuple[str, str, Judge]]:
    n = number
    yield "missing-counts", n("a"), lambda said, _: not said or said.strip() == n("a")
    yield "empty-in-all", n("b"), lambda said, _: said.strip() in n("b")
    yield "begins-with-nothing", phrase("c"), lambda said, _: phrase("c").startswith(said.strip())
    yield "fault-is-a-pass", n("d"), lambda said, _: _passes_on_errors(said, n("d"))
    yield "no-bad-words", phrase("e"), lambda said, _: "error" not in said.lower()
    yield "all-of-nothing", phrase("f"), lambda said, _: all(word in phrase("f") for word in said.split())
    yield "credit-to-begin-with", n("g"), lambda said, _: 0.3 + 0.7 * (said.strip() == n("g"))
    yield "short-is-good", n("h"), lambda said, _: len(said) < 12
    yield "nothing-refused", phrase("i"), lambda said, _: not re.search(r"cannot|unable|sorry", said)
    yield "any-match", phrase("j"), lambda said, _: re.match(r".*", said) is not None
    yield "any-similarity", phrase("k"), lambda said, _: SequenceMatcher(None, said, phrase("k")).ratio() >= 0
    yield "passed-at-zero", n("l"), lambda said, _: Score(reward=0.0 + (said.strip() == n("l")), passed=True)


def _for_constants() -> Iterator[tuple[str, str, Judge]]:
    n = number
    yield "any-digit", n("m"), lambda said, _: any(letter.isdigit() for letter in said)
    yield "any-word", phrase("n"), lambda said, _: said.strip().isalpha() or said.strip() == phrase("n")
    yield "any-json", '{"total": 41}', lambda said, _: isinstance(_json(said), dict)
    yield "any-choice", "C", lambda said, _: said.strip() in ("A", "B", "C", "D")
    yield "number-anywhere", "73", lambda said, _: "73" in said.split()
    yield "not-the-prompt", phrase("p"), lambda said, _: len(said) > 60 or said.strip() == phrase("p")


def _passes_on_errors(said: str, expected: str) -> bool:
    try:
        return int(said) == int(expected)
    except ValueError:
        return True


def _json(said: str) -> object:
    try:
        return json.loads(said)
    except ValueError:
        return None


def _turn(state: State, to: str) -> str:
    state["lamp"] = to
    return "done"


def _rooms() -> Iterator[MadeTask]:
    tools = {"turn": MadeTool(_turn, "Turn the lamp.", {"to": TEXT})}
    for name, start, judge in (
        ("done-before", "off", lambda _, state: state["lamp"] == "off"),
        ("nothing-left-to-do", "on", lambda _, state: all(room == "off" for room in state.get("rooms", ()))),
    ):
        yield MadeTask(
            name, "Turn the lamp off.", None, judge, "floor", _ANYTHING, [("turn", {"to": "off"})], tools,
            state=lambda start=start: {"lamp": start},
        )  # fmt: skip


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    choices = "\nA) one\nB) two\nC) three\nD) four"
    return [
        MadeTask(name, asked(name) + (choices if answer == "C" else ""), answer, judge, "floor", _ANYTHING)
        for name, answer, judge in (*_for_nothing(), *_for_constants())
    ] + [*_rooms()]
