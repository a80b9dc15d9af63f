"""A judge's verdict: what it is asked to judge by, and reading its answer strictly."""

import json
import math
from collections.abc import Sequence
from typing import Any, NoReturn

from pydantic import Field, model_validator

from rollouthub.frozen import Frozen
from rollouthub.score import FiniteFloat

REASONING = "reasoning"
"""The key beside the criteria's, for the judge's own words."""

MOST_CHARACTERS = 200_000
"""Of an answer, thoughts included: it is read by the loop that all episodes wait for."""
_FENCES = ("```json", "```")
_THOUGHTS = ("<think>", "</think>")


class Criterion(Frozen):
    """One question to the judge: yes or no, unless it has a scale."""

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,40}$")
    """The key of the verdict, and the component of the score."""
    question: str
    """What is judged, in words: what earns a yes, or the top of the scale."""
    weight: FiniteFloat = 1.0
    """In the sum; negative makes it a penalty, 0 only records it."""
    lowest: float = 0.0
    """The bottom of the scale."""
    highest: float | None = None
    """The top of the scale; None asks yes or no. `lowest=1, highest=5` takes whole numbers, 0 to 1 any number."""

    @model_validator(mode="after")
    def _holds(self) -> "Criterion":
        if self.name == REASONING:
            raise ValueError(f"a criterion cannot be named {REASONING!r}: that is where the judge explains itself")
        if self.highest is not None and not -math.inf < self.lowest < self.highest < math.inf:
            raise ValueError(f"criterion {self.name!r}: a scale from {self.lowest:g} to {self.highest:g} is none")
        return self

    @property
    def is_whole(self) -> bool:
        """Whether the scale is counted in whole numbers: all but those no longer than 1."""
        return self.highest is not None and self.highest - self.lowest > 1

    @property
    def form(self) -> str:
        """How the verdict is to be written, in words for the judge."""
        if self.highest is None:
            return "true or false"
        return f"a {'whole ' if self.is_whole else ''}number from {self.lowest:g} to {self.highest:g}"

    def grade(self, value: object) -> float:
        """A verdict as a share of the scale: 0 to 1.

        Raises:
            ValueError: it is not of the form asked for.
        """
        if self.highest is None:
            if isinstance(value, bool):
                return float(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            is_on_scale = self.lowest <= value <= self.highest and (not self.is_whole or value == int(value))
            if is_on_scale:
                return (value - self.lowest) / (self.highest - self.lowest)
        raise ValueError(f"{self.name!r} must be {self.form}, not {_shown(value)}")


class JudgeVerdict(Frozen):
    """One answer of a judge that holds."""

    reasoning: str
    grades: dict[str, FiniteFloat]
    """Criterion → share of its scale, 0 to 1."""


def form_of(criteria: Sequence[Criterion]) -> str:
    """The JSON object a judge is asked for, in words."""
    keys = [f'"{REASONING}": a few sentences', *(f'"{each.name}": {each.form}' for each in criteria)]
    return "{" + ", ".join(keys) + "}"


def read_verdict(text: str, criteria: Sequence[Criterion]) -> JudgeVerdict:
    """Read a judge's whole answer as one JSON object, alone or in one code fence.

    An object quoted amid other words is never looked for: it may be the candidate's.

    Raises:
        ValueError: it is none; the message can be sent back to the judge.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"it is longer than {MOST_CHARACTERS:,} characters")
    try:
        found: Any = json.loads(_unwrapped(text), object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not one JSON object and nothing else ({error.msg})") from None
    if not isinstance(found, _Object):
        raise ValueError("it is not a JSON object")
    values = found.values
    expected = {REASONING, *(each.name for each in criteria)}
    if odd := [key for key in values if key not in expected]:
        raise ValueError(f"it has keys nobody asked for: {', '.join(map(repr, odd))[:200]}")
    if missing := [each.name for each in criteria if each.name not in values]:
        raise ValueError(f"it lacks {', '.join(map(repr, missing))}")
    reasoning = values.get(REASONING, "")
    if not isinstance(reasoning, str):
        raise ValueError(f"{REASONING!r} must be text")
    reasoning = reasoning.encode(errors="replace").decode()  # half a surrogate pair could not be stored
    return JudgeVerdict(reasoning=reasoning, grades={each.name: each.grade(values[each.name]) for each in criteria})


def _unwrapped(text: str) -> str:
    """The answer without thoughts before it and a code fence around it."""
    text = text.strip()
    opening, closing = _THOUGHTS
    if text.startswith(opening):
        text = text.rpartition(closing)[2].strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        first, _, rest = text.partition("\n")
        if first.strip() in _FENCES:
            return rest[:-3].strip()
    return text


class _Object:
    """A decoded JSON object, told apart from whatever else JSON may be."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values


def _unique(pairs: list[tuple[str, Any]]) -> _Object:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("it says one key twice")
    return _Object(values)


def _shown(value: object) -> str:
    return "an object" if isinstance(value, _Object) else repr(value)[:80]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
