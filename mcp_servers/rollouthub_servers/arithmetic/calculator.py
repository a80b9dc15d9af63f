"""Evaluates arithmetic expressions of models exactly, with bounds on time and memory."""

import ast
import re
from fractions import Fraction

from rollouthub import ToolError

MAX_LENGTH = 2_000
"""Most characters of an expression."""
MAX_DIGITS = 1_000
"""Most decimal digits of any number, including intermediate results."""
_MAX_BITS = MAX_DIGITS * 10 // 3
_SHOWN_DIGITS = 20

_ALLOWED = re.compile(r"[0-9+\-*/%(). ]*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SPACE = re.compile(r"\s+")
_SPELLINGS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-"})

Number = int | Fraction


def calculate(expression: str) -> str:
    """The exact value as a whole number or a decimal; a decimal that does not end is rounded to 20 digits.

    Raises:
        ToolError: the expression is invalid; the message says why.
    """
    if len(expression) > MAX_LENGTH:
        raise ToolError(f"the expression is {len(expression):,} characters long; the limit is {MAX_LENGTH:,}")
    text = _SPACE.sub(" ", _THOUSANDS.sub("", expression.translate(_SPELLINGS))).strip()
    if not text:
        raise ToolError("the expression is empty")
    if not _ALLOWED.fullmatch(text):
        raise ToolError(f"cannot read {_first_odd(text)!r}; an expression has numbers, + - * / // % ** and parentheses")
    try:
        return _show(_Evaluator(text).value(ast.parse(text, mode="eval").body))
    except ZeroDivisionError:
        raise ToolError("division by zero") from None
    except (SyntaxError, ValueError) as error:
        raise ToolError(f"not a well-formed expression: {getattr(error, 'msg', error)}") from None
    except (RecursionError, MemoryError):
        raise ToolError("the expression is too long or nested too deeply") from None


class _Evaluator:
    """Evaluates a syntax tree with exact fractions; the size of each result is checked."""

    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, node: ast.expr) -> Number:
        match node:
            case ast.Constant():
                return self._literal(node)
            case ast.UnaryOp(op=ast.USub()):
                return -self.value(node.operand)
            case ast.UnaryOp(op=ast.UAdd()):
                return self.value(node.operand)
            case ast.BinOp():
                return _bounded(_apply(node.op, self.value(node.left), self.value(node.right)))
            case _:
                raise ToolError("not a well-formed expression: numbers need an operator between them")

    def _literal(self, node: ast.Constant) -> Number:
        if isinstance(node.value, int):
            return _bounded(node.value)
        # From the source, not from the float it was read into: 0.1 is one tenth.
        return _bounded(Fraction(self._text[node.col_offset : node.end_col_offset]))


def _apply(operator: ast.operator, left: Number, right: Number) -> Number:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return Fraction(left, right) if right else _divide_by_zero()
        case ast.FloorDiv():
            return left // right
        case ast.Mod():
            return left % right
        case ast.Pow():
            return _power(left, right)
        case _:
            raise ToolError("only + - * / // % ** are known")


def _divide_by_zero() -> Number:
    raise ZeroDivisionError


def _power(base: Number, exponent: Number) -> Number:
    if exponent.denominator != 1:
        raise ToolError("an exponent must be a whole number")
    power = int(exponent)
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits > 1 and bits * abs(power) > 2 * _MAX_BITS:
        raise ToolError(f"the result has more than {MAX_DIGITS:,} digits")
    if abs(power) > 2 * _MAX_BITS:  # 0, 1 and -1
        power = power % 2 + 2 if power > 0 else -(power % 2) - 2
    return Fraction(base) ** power


def _bounded(number: Number) -> Number:
    if not isinstance(number, int) and number.denominator == 1:
        number = number.numerator
    if number.numerator.bit_length() > _MAX_BITS or number.denominator.bit_length() > _MAX_BITS:
        raise ToolError(f"a number here has more than {MAX_DIGITS:,} digits")
    return number


def _show(number: Number) -> str:
    if isinstance(number, int):
        return str(number)
    places = _decimal_places(number.denominator)
    if places is None:
        return f"{_rounded(number)} (rounded)"
    sign, scaled = "-" if number < 0 else "", str(abs(int(number * 10**places))).rjust(places + 1, "0")
    return f"{sign}{scaled[:-places]}.{scaled[-places:]}"


def _decimal_places(denominator: int) -> int | None:
    """The number of decimals of a fraction with this denominator; None if they do not end."""
    counts = [0, 0]
    for slot, prime in enumerate((2, 5)):
        while denominator % prime == 0:
            denominator //= prime
            counts[slot] += 1
    return max(counts) if denominator == 1 else None


def _rounded(number: Fraction) -> str:
    """Format with 20 significant digits, without conversion to a float."""
    size = len(str(abs(number.numerator))) - len(str(number.denominator))
    places = max(_SHOWN_DIGITS - size, 0)
    scaled = round(abs(number) * 10**places)
    sign, digits = "-" if number < 0 else "", str(scaled).rjust(places + 1, "0")
    return sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits)


def _first_odd(text: str) -> str:
    return next(character for character in text if not _ALLOWED.fullmatch(character))
