"""Compares an answer with references by math-verify. Imported only in worker processes, as it loads sympy (0.5 s)."""

import logging
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, Literal, cast

# None of the three has type stubs.
from latex2sympy2_extended import NormalizationConfig  # pyright: ignore[reportMissingTypeStubs]
from math_verify import LatexExtractionConfig, parse, verify  # pyright: ignore[reportMissingTypeStubs]
from sympy import Basic, Derivative, Eq, Expr, Float, MatrixBase, Symbol, nan, zoo  # pyright: ignore[reportMissingTypeStubs]

from rollouthub_servers.math.normal_form import normal, plain, words

# Its notice that timeouts are off is no news here: the worker's own budget stands in for them.
logging.getLogger("math_verify").setLevel(logging.ERROR)

_LATEX = LatexExtractionConfig(
    boxed_match_priority=0,
    normalization_config=NormalizationConfig(
        basic_latex=True, units=True, malformed_operators=True, nits=True, boxed="all"
    ),
)
_SMALLEST = 1e-4
"""Relative difference above which two numbers differ, even if the library rounds both to the same six decimals."""
_APART = 1e-3
"""Relative difference of two formulas at a point that rounding cannot explain."""


_MARK_AT_END = 60
"""Last characters of an answer in which a mark is looked for."""
_MARKS = (
    re.compile(r"\d_\{?(\d{1,3})\}?[\s.$]*$", re.ASCII),
    re.compile(r"\\(?:text|mbox|mathrm)\{[^{}]*\}\s*\^\{?(-?\d{1,3})\}?[\s.$]*$", re.ASCII),
)
"""The base of a number, and the power of a unit."""

Status = Literal["correct", "wrong", "unreadable_reference", "too_complex"]
_BY_WEIGHT: tuple[Status, ...] = ("correct", "unreadable_reference", "wrong", "too_complex")
"""Precedence of verdicts on several references: one that agrees decides; an unreadable one outweighs a wrong one."""


@dataclass(frozen=True)
class Judgement:
    """A worker's reply."""

    status: Status
    parsed: str | None = None
    """The candidate as the library parsed it; None if it could not."""


def judge(references: Sequence[str], candidate: str, cpu_seconds: float) -> Judgement:
    """Whether the candidate agrees with one of the references.

    Each reference, and the candidate, may take this many CPU seconds. Beyond that a signal kills the process, since C
    code
    cannot block it: SIGVTALRM for a reference, SIGPROF for the candidate.
    """
    expected: list[Any] = []
    for reference in references:
        signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
        try:
            expected.append(_read(normal(reference)))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    try:
        given = _read(normal(candidate))
        statuses: list[Status] = [
            _compare(reference, expression, candidate, given)
            for reference, expression in zip(references, expected, strict=True)
        ]
        status = min(statuses, key=_BY_WEIGHT.index)
        return Judgement(status, None if given is None else _shown(given))
    except (MemoryError, RecursionError):
        return Judgement("too_complex")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _compare(reference: str, expected: Any, candidate: str, given: Any) -> Status:
    # Words are compared as words: as mathematics, a bare "Evelyn" is a product of six letters.
    name = words(reference)
    if name is not None and name == words(candidate):
        return "correct"
    if expected is None:
        # Text on both sides can still be compared; what is text on one side only cannot.
        if given is None and plain(reference) == plain(candidate):
            return "correct"
        return "wrong" if name is not None else "unreadable_reference"
    expected, given = _with_named_derivatives(expected), _with_named_derivatives(given)
    if given is None or _differ_in_marks(reference, candidate):
        return "wrong"
    if expected != given and _differ_surely(expected, given):
        return "wrong"
    same = verify([expected], [given], timeout_seconds=None) and not _differ_widely(expected, given)
    return "correct" if same else "wrong"


def _differ_in_marks(reference: str, candidate: str) -> bool:
    """Whether both name a base or a power of their unit, which the library leaves out, and not the same one."""
    for mark in _MARKS:
        one, other = mark.search(reference[-_MARK_AT_END:]), mark.search(candidate[-_MARK_AT_END:])
        if one and other and int(one[1]) != int(other[1]):
            return True
    return False


@lru_cache(maxsize=512)
def _read(latex: str) -> Basic | MatrixBase | None:
    """Parse LaTeX; None if it has no expression. Cached, since candidates of a group share their reference."""
    if not latex:
        return None
    found = cast(
        list[Any], cast(Any, parse)(rf"\boxed{{{latex}}}", [_LATEX], fallback_mode="no_fallback", parsing_timeout=None)
    )
    expression = found[0] if found else None
    if not isinstance(expression, Basic | MatrixBase):
        return None
    return None if cast(Any, expression).has(nan, zoo) else expression


def _with_named_derivatives(expression: Any) -> Any:
    """An equation with a symbol for each derivative: the library solves both equations, and takes any two differential
    equations to be solved by what is constant.
    """
    if not isinstance(expression, Eq):
        return expression
    found = cast(Any, expression).atoms(Derivative)
    return cast(Any, expression).xreplace({each: Symbol(f"[{each}]") for each in found})


def _differ_widely(expected: Any, given: Any) -> bool:
    """Whether two small numbers that the library considers equal differ clearly, and only its rounding hid that."""
    if not (getattr(expected, "is_number", False) and getattr(given, "is_number", False)):
        return False
    if not (expected.has(Float) or given.has(Float)):
        return False
    try:
        one, other = float(expected.doit()), float(given.doit())
    except (TypeError, ValueError, OverflowError):
        return False
    largest = max(abs(one), abs(other))
    return largest < 1 and abs(one - other) > _SMALLEST * largest


def _differ_surely(expected: Any, given: Any) -> bool:
    """Whether two equations have different symbols, or two formulas have clearly different values at some point.

    This cheap test avoids minutes in the library, which would solve both equations or simplify the difference to zero.
    """
    if isinstance(expected, Eq) and isinstance(given, Eq):
        return expected.free_symbols != given.free_symbols
    if not (isinstance(expected, Expr) and isinstance(given, Expr)):
        return False
    symbols = sorted(expected.free_symbols | given.free_symbols, key=str)
    # A lone symbol may be a word, which the library compares by its letters.
    if not symbols or isinstance(expected, Symbol) or isinstance(given, Symbol):
        return False
    point: Any = {symbol: Float(1.1 + 0.37 * place % 1, 30) for place, symbol in enumerate(symbols)}
    try:
        one, other = complex(expected.evalf(20, point)), complex(given.evalf(20, point))
    except (TypeError, ValueError, OverflowError):
        return False
    return isfinite(abs(one)) and isfinite(abs(other)) and abs(one - other) > _APART * max(abs(one), abs(other))


def _shown(expression: object) -> str:
    try:
        return str(expression)[:200]
    except Exception:  # a printer that gives up (huge integers, recursion) must not decide the score
        return type(expression).__name__
