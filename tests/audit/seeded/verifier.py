"""Verifiers that break on what an agent may well answer."""

import ast
import json
import math
import re
from collections.abc import Iterator

from rollouthub import Score
from tests.audit.answers import asked, number
from tests.audit.made_tasks import Judge, MadeTask


def _judges() -> Iterator[tuple[str, str, Judge]]:
    n = number
    yield "float-of-text", n("a"), lambda said, _: float(said) == float(n("a"))
    yield "int-of-text", n("b"), lambda said, _: int(said) == int(n("b"))
    yield "json-of-text", '{"a": 1}', lambda said, _: json.loads(said) == {"a": 1}
    yield "no-such-key", '{"a": 1}', lambda said, _: _safe(said)["a"] == 1  # type: ignore[index]
    yield "first-word", n("e"), lambda said, _: said.split()[0] == n("e")
    yield "last-line", n("f"), lambda said, _: said.splitlines()[-1].strip() == n("f")
    yield "no-match", n("g"), lambda said, _: re.search(r"^\s*(-?\d+)\s*$", said)[1] == n("g")  # type: ignore[index]
    yield "two-parts", f"x = {n('h')}", lambda said, _: _second(said).strip() == n("h")
    yield "latin-alone", n("i"), lambda said, _: said.encode("latin-1").strip() == n("i").encode()
    yield "not-a-number", n("j"), lambda said, _: math.nan if "boxed" in said else float(said.strip() == n("j"))
    yield "too-many-digits", n("k"), lambda said, _: said.strip().isdigit() and int(said) == int(n("k"))
    yield "literal", "[1, 2]", lambda said, _: ast.literal_eval(said.strip()) == [1, 2]
    yield "divides-by-length", n("m"), lambda said, _: 1 / len(said.strip()) and said.strip() == n("m")
    yield (
        "endless",
        n("n"),
        lambda said, _: Score(reward=math.inf if len(said) > 10_000 else float(said.strip() == n("n"))),
    )
    yield "null-is-none", '{"b": 2}', lambda said, _: _fields(said)["b"] == 2
    yield "asserts", n("p"), lambda said, _: _asserted(said) == n("p")
    yield "table", "1,2", lambda said, _: [line.split(",")[1] for line in said.strip().split("\n")] == ["2"]
    yield "unbalanced", "(3)", lambda said, _: re.fullmatch(said.strip(), "3") is not None and "3" in said
    yield "says-nothing", n("s"), lambda said, _: _none(said, n("s"))
    yield "too-deep", "[3]", lambda said, _: _depth(said.strip()) == 1 and "".join(said.split()) == "[3]"


def _safe(said: str) -> object:
    try:
        return json.loads(said)
    except ValueError:
        return None


def _second(said: str) -> str:
    _, second = said.split("=")
    return second


def _fields(said: str) -> dict[str, int]:
    return {} if not said.startswith(("{", "null")) else json.loads(said)


def _asserted(said: str) -> str:
    assert len(said) < 1000, "an answer is short"
    return said.strip()


def _none(said: str, expected: str) -> float:
    if "\u202e" in said:
        return None  # type: ignore[return-value]
    return float(said.strip() == expected)


def _depth(said: str) -> int:
    if len(said) > 3000:
        return 1 + _depth(said[1:])
    return 1 if said.startswith("[") else 0


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    return [MadeTask(name, asked(name), answer, judge, "verifier") for name, answer, judge in _judges()]
