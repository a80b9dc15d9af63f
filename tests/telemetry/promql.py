"""As much of PromQL as it takes to know which metrics and labels an expression speaks of."""

import re
from dataclasses import dataclass

_WORDS = {"by", "without", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "bool", "offset"}
_SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)?\{([^}]*)\}")
_MATCHER = re.compile(r'(\w+)\s*(=~|!=|!~|=)\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")


@dataclass(frozen=True)
class Matcher:
    """What a selector asks of a label."""

    metric: str
    label: str
    operator: str
    value: str


@dataclass(frozen=True)
class Spoken:
    """What an expression speaks of."""

    metrics: frozenset[str]
    matchers: tuple[Matcher, ...]
    groupings: frozenset[str]
    """Labels that are grouped by."""


def parse(expression: str) -> Spoken:
    """What an expression speaks of."""
    matchers = tuple(
        Matcher(selector[1] or "", *found.groups())
        for selector in _SELECTOR.finditer(expression)
        for found in _MATCHER.finditer(selector[2])
    )
    groupings = frozenset(
        label.strip() for found in _GROUPING.finditer(expression) for label in found[1].split(",") if label.strip()
    )
    rest = _GROUPING.sub(" ", re.sub(r"\[[^\]]*\]", " ", re.sub(r"\{[^}]*\}", " ", expression)))
    rest = re.sub(r"\b\d[\w.]*", " ", rest)
    names = {found[1] for found in re.finditer(r"([a-zA-Z_:][\w:]*)(?!\w)\s*(?!\s*\()", rest)}
    functions = {found[1] for found in re.finditer(r"([a-zA-Z_]\w*)\s*\(", rest)}
    return Spoken(frozenset(names - functions - _WORDS), matchers, groupings)
