"""Right solutions that are refused for their form."""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from tests.audit.answers import asked, number, phrase
from tests.audit.made_tasks import TEXT, WHOLE, Judge, MadeTask, MadeTool, State

_TABLE = json.dumps({"name": "Ada", "age": 36})
_PROGRAM = "def half(x):\n    return x / 2"


def _answers() -> Iterator[tuple[str, str, Judge]]:
    n = number
    yield "not-stripped", n("a"), lambda said, _: said == n("a")
    yield "spaces-count", phrase("b"), lambda said, _: said.rstrip("\n") == phrase("b")
    yield "whole-line", phrase("c"), lambda said, _: re.fullmatch(re.escape(phrase("c")), said) is not None
    yield "digest-of-raw", n("d"), lambda said, _: _digest(said) == _digest(n("d"))
    yield "length-first", phrase("e"), lambda said, _: len(said) == len(phrase("e")) and phrase("e") in said
    yield "last-letters", phrase("f"), lambda said, _: said.endswith(phrase("f")) and len(said) < 60
    yield "first-letters", phrase("g"), lambda said, _: said.startswith(phrase("g"))
    yield "split-at-spaces", "seven red kites", lambda said, _: said.split(" ") == ["seven", "red", "kites"]
    yield "list-of-letters", n("i"), lambda said, _: [*said] == [*n("i")]
    yield "line-ends-count", n("j"), lambda said, _: said.strip(" ") == n("j")
    yield "bytes", phrase("k"), lambda said, _: said.encode() == phrase("k").encode()
    yield "frame-to-the-end", f"\\boxed{{{n('l')}}}", lambda said, _: said.endswith(f"\\boxed{{{n('l')}}}")
    yield "letter-alone", "B", lambda said, _: said == "B"
    yield "keys-in-order", _TABLE, lambda said, _: _dumped(said) == _TABLE
    yield "compact-json", '{"a":[1,2],"b":3}', lambda said, _: said.strip() == '{"a":[1,2],"b":3}'
    yield "one-line-json", "[3, 1, 2]", lambda said, _: said.strip().splitlines() == ["[3, 1, 2]"]
    yield "begins-with-def", _PROGRAM, lambda said, _: said.startswith("def half") and "x / 2" in said
    yield "first-line-is-it", "def third(x):\n    return x / 3", lambda said, _: _has_third(said)
    yield "no-decimal-point", "36", lambda said, _: said in ("36", "36\n")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _dumped(said: str) -> str:
    try:
        return json.dumps(json.loads(said))
    except (ValueError, RecursionError):
        return ""


def _has_third(said: str) -> bool:
    return said.partition("\n")[0].startswith("def third") and "x / 3" in said


def _books(state: State, **arguments: Any) -> str:
    state["said"].append(json.dumps(arguments))
    return "booked"


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    asks = {"letter-alone": "\nA) one\nB) two\nC) three", "frame-to-the-end": " End with \\boxed{}."}
    made = [
        MadeTask(name, asked(name) + asks.get(name, ""), answer, judge, "right-refused")
        for name, answer, judge in _answers()
    ]
    arguments = {"place": "window", "guests": 4}
    booking = MadeTask(
        "arguments-in-order", "Book the table that the note names.", None,
        lambda _, state: state["said"] == [json.dumps(arguments)], "right-refused", frozenset(),
        [("book", arguments)], {"book": MadeTool(_books, "Book.", {"place": TEXT, "guests": WHOLE})},
        state=lambda: {"said": []},
    )  # fmt: skip
    return [*made, booking]
