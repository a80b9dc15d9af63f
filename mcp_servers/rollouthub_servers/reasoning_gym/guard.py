"""Prevents an agent's answer from being executed: the library passes some answers to `eval` and to sympy's parser.

Imported only in worker processes, in which it changes `eval` and the parser for good.
"""

import ast
import builtins
import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

LIBRARY = "reasoning_gym"
OWN_TEXT = frozenset({f"{LIBRARY}.arithmetic.bitwise_arithmetic"})
"""Modules whose scorers evaluate only text that they wrote themselves."""
NAMES = frozenset(
    (
        *("sin", "cos", "tan", "sec", "csc", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
        *("exp", "log", "ln", "sqrt", "Abs", "abs", "pi", "oo"),
    )
)
"""Names allowed in mathematical answers, besides single letters."""

_TOKENS = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+|\*\*|[-+*/^(),=!])")


def make_guard() -> Callable[[], None]:
    """Make a function that replaces `eval` and sympy's parser by versions that only read data.

    Call it early, since collecting the references to the parser is slow.
    """
    from sympy.parsing import sympy_parser  # pyright: ignore[reportMissingTypeStubs]  # none exist

    parser = sympy_parser.parse_expr
    evaluate, parse = _plain_evaluator(), _plain_parser(parser)
    # The package's own name for the parser, and that of every module that took it from there.
    holders = [vars(module) for module in tuple(sys.modules.values()) if vars(module).get("parse_expr") is parser]

    def guard() -> None:
        builtins.eval = evaluate
        for holder in holders:
            holder["parse_expr"] = parse

    return guard


def _plain_evaluator() -> Callable[..., Any]:
    evaluate = builtins.eval

    def only_literals(source: Any, *scopes: Any) -> Any:
        frame = inspect.currentframe()
        assert frame is not None
        assert frame.f_back is not None
        frame = frame.f_back
        caller = str(frame.f_globals.get("__name__"))
        if caller.split(".")[0] == LIBRARY and caller not in OWN_TEXT:
            return ast.literal_eval(source)
        return evaluate(source, *(scopes or (frame.f_globals, frame.f_locals)))

    return only_literals


def is_plain_mathematics(text: str) -> bool:
    """Whether a text has only numbers, operators, known functions and single letters; no attributes, no strings."""
    position = 0
    text = text.rstrip()
    while position < len(text):
        token = _TOKENS.match(text, position)
        if token is None:
            return False
        name = token["name"]
        if name is not None and len(name) > 1 and name not in NAMES:
            return False
        position = token.end()
    return True


def _plain_parser(parser: Callable[..., Any]) -> Callable[..., Any]:
    def parse(text: str, *arguments: Any, **options: Any) -> Any:
        if not is_plain_mathematics(text):
            raise ValueError("the answer is no plain mathematics")
        return parser(text, *arguments, **options)

    return parse
