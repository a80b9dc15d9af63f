"""A judge's criteria, and the strict parsing of its answer."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pydantic import Field, JsonValue, model_validator

from rollouthub.score import FiniteFloat
from rollouthub.values import Frozen

REASONING = "reasoning"
"""The key of the judge's explanation, beside the criteria's keys."""

MOST_CHARACTERS = 200_000
"""Most characters of a judge's answer, thinking included, because it is parsed on the event loop."""
_FENCES = ("```json", "```")
_THOUGHTS = ("<think>", "</think>")


class Criterion(Frozen):
    """One question to the judge: yes or no, or with a scale."""

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,40}$")
    """The key in the verdict, and the name of the score's component."""
    question: str
    """What is judged: what earns a yes, or the top of the scale."""
    weight: FiniteFloat = 1.0
    """Weight in the sum; negative is a penalty, 0 only records the grade."""
    lowest: float = 0.0
    """The bottom of the scale."""
    highest: float | None = None
    """The top of the scale; None is a yes-or-no question. `lowest=1, highest=5` takes whole numbers, 0 to 1 any
    number.
    """

    @model_validator(mode="after")
    def _holds(self) -> "Criterion":
        if self.name == REASONING:
            raise ValueError(f"a criterion cannot be named {REASONING!r}: that is where the judge explains itself")
        if self.highest is not None and not -math.inf < self.lowest < self.highest < math.inf:
            raise ValueError(f"criterion {self.name!r}: a scale from {self.lowest:g} to {self.highest:g} is none")
        return self

    @property
    def is_whole(self) -> bool:
        """Whether grades must be whole numbers: on scales longer than 1."""
        return self.highest is not None and self.highest - self.lowest > 1

    @property
    def form(self) -> str:
        """The form of the verdict, described for the judge."""
        if self.highest is None:
            return "true or false"
        return f"a {'whole ' if self.is_whole else ''}number from {self.lowest:g} to {self.highest:g}"

    @property
    def grade_schema(self) -> dict[str, JsonValue]:
        """The form of the verdict as a JSON schema."""
        if self.highest is None:
            return {"type": "boolean"}
        return {"type": "integer" if self.is_whole else "number", "minimum": self.lowest, "maximum": self.highest}

    def grade(self, value: object) -> float:
        """A verdict as a share of the scale: 0 to 1.

        Raises:
            ValueError: the value has not the form asked for.
        """
        if self.highest is None:
            if isinstance(value, bool):
                return float(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            is_on_scale = self.lowest <= value <= self.highest and (not self.is_whole or value == int(value))
            if is_on_scale:
                return (value - self.lowest) / (self.highest - self.lowest)
        raise ValueError(f"{self.name!r} must be {self.form}, not {shown_value(value)}")


class JudgeVerdict(Frozen):
    """A valid answer of a judge."""

    reasoning: str
    grades: dict[str, FiniteFloat]
    """Criterion → share of its scale, 0 to 1."""


def form_of(criteria: Sequence[Criterion]) -> str:
    """The JSON object that the judge is to answer with, described for the judge."""
    keys = [f'"{REASONING}": a few sentences', *(f'"{each.name}": {each.form}' for each in criteria)]
    return "{" + ", ".join(keys) + "}"


def object_schema(properties: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The JSON schema of an object with exactly these keys, in the form that strict structured outputs need."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def verdict_schema(properties: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The JSON schema of a judge's answer: its explanation, and then these keys."""
    return object_schema({REASONING: {"type": "string"}, **properties})


def read_verdict(text: str, criteria: Sequence[Criterion]) -> JudgeVerdict:
    """Parse a judge's whole answer as one JSON object, alone or in one code fence.

    An object inside other text is not accepted: it may be quoted from the candidate.

    Raises:
        ValueError: the text is no verdict; the message can be sent back to the judge.
    """
    values = read_object(text, [each.name for each in criteria])
    return JudgeVerdict(
        reasoning=values[REASONING], grades={each.name: each.grade(values[each.name]) for each in criteria}
    )


def read_object(text: str, keys: Sequence[str]) -> dict[str, Any]:
    """Parse a judge's whole answer as one JSON object with exactly these keys, and optionally `reasoning` (a text).

    Nested objects are `JudgedObject`s. An object inside other text is not accepted: it may be quoted from the
    candidate.

    Raises:
        ValueError: the answer is no such object; the message can be sent back to the judge.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"it is longer than {MOST_CHARACTERS:,} characters")
    try:
        found: Any = json.loads(_unwrapped(text), object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not one JSON object and nothing else ({error.msg})") from None
    if not isinstance(found, JudgedObject):
        raise ValueError("it is not a JSON object")
    values = found.only(keys, optional=(REASONING,))
    reasoning = values.get(REASONING, "")
    if not isinstance(reasoning, str):
        raise ValueError(f"{REASONING!r} must be text")
    values[REASONING] = storable(reasoning)
    return values


def storable(text: str) -> str:
    """The text with lone surrogates replaced, which could not be stored."""
    return text.encode(errors="replace").decode()


def _unwrapped(text: str) -> str:
    """The answer without a thinking block before it and a code fence around it."""
    text = text.strip()
    opening, closing = _THOUGHTS
    if text.startswith(opening):
        text = text.rpartition(closing)[2].strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        first, _, rest = text.partition("\n")
        if first.strip() in _FENCES:
            return rest[:-3].strip()
    return text


class JudgedObject:
    """A decoded JSON object of a judge's answer; a type of its own, to tell it from other JSON values."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def only(self, keys: Sequence[str], *, optional: Sequence[str] = ()) -> dict[str, Any]:
        """Its values, after a check that it has these keys and no others.

        Raises:
            ValueError: it has others, or lacks one.
        """
        expected = {*keys, *optional}
        if odd := [key for key in self.values if key not in expected]:
            raise ValueError(f"it has unknown keys: {', '.join(map(repr, odd))[:200]}")
        if missing := [key for key in keys if key not in self.values]:
            raise ValueError(f"it lacks {', '.join(map(repr, missing))[:200]}")
        return dict(self.values)


def _unique(pairs: list[tuple[str, Any]]) -> JudgedObject:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("it says one key twice")
    return JudgedObject(values)


def shown_value(value: object) -> str:
    """A value of a judge's answer in the form in which error messages quote it."""
    return "an object" if isinstance(value, JudgedObject) else repr(value)[:80]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
