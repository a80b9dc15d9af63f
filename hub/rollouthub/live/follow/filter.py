"""Filter expressions over the columns of a run: `outcome == "scored" and reward < 0.5 and task ~ "algebra"`.

    expression := term ("or" term)*         term   := factor ("and" factor)*
    factor     := "not" factor | "(" expression ")" | column [operator value]
    operator   := == | != | < | <= | > | >= | ~ | !~          value := number | "text" | true | false | null

`~` tests whether a text contains another, ignoring case. A comparison with an absent value is false, so an unscored
row is never below a reward; `reward == null` finds it. A boolean column may be used without an operator. Of several
texts, as of a rollout's tags and comments, `==` and `~` hold if any of them does, `!=` and `!~` if all do.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, cast

from rollouthub.errors import UsageError
from rollouthub.live.follow.attempt_columns import ALL_KINDS, Kind
from rollouthub.live.follow.note_columns import NOTE_KINDS, NoteKind
from rollouthub.live.follow.predicates import (
    ORDERS,
    Binding,
    always,
    flag_is,
    is_absent,
    joined,
    negated,
    number_is,
    text_is,
)
from rollouthub.rollout import Outcome, Stop

ALIASES = {
    "task": "task_id",
    "id": "rollout_id",
    "group": "group_id",
    "env": "environment",
    "tokens": "output_tokens",
    "duration": "seconds",
    "error": "fault",
    "tags": "tag",
    "comments": "comment",
    "star": "starred",
    "reviewed_by": "reviewer",
}
"""Short names of columns."""
LONGEST, _DEEPEST = 2000, 40
_FIXED = {"outcome": {outcome.value for outcome in Outcome}, "stop": {stop.value for stop in Stop}}
_TOKEN = re.compile(
    r"""\s*(?:(?P<operator>==|!=|<=|>=|!~|<|>|~|\(|\))
    |(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[A-Za-z_][\w.]*))""",
    re.VERBOSE,
)
_TEXT_OPERATORS = ("==", "!=", "~", "!~")
_CONSTANTS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class FilterFields:
    """What a filter can compare."""

    kinds: Mapping[str, Kind | NoteKind]
    """Column → the type of its values."""
    aliases: Mapping[str, str]
    """Short name → column."""
    fixed: Mapping[str, Collection[str]]
    """Column → the only texts that it has."""


_OF_ROLLOUTS = FilterFields(ALL_KINDS, ALIASES, _FIXED)


class FilterError(UsageError):
    """A filter expression that is not valid, with the position of the mistake."""

    def __init__(self, problem: str, text: str, column: int) -> None:
        self.problem = problem
        self.column = column
        """Number of characters before the mistake."""
        shown = text if len(text) <= 200 else f"{text[:200]}…"
        super().__init__(f"{problem} (at column {column + 1}):\n  {shown!r}\n   {' ' * min(column, 200)}^")


@dataclass(frozen=True)
class RolloutFilter:
    """A parsed filter, not yet bound to a run."""

    text: str
    bind: Binding
    """Makes the predicate for a run's columns, which is valid until the columns are cleared."""
    reads_notes: bool = False
    """Whether it matches other rows when notes change."""
    columns: frozenset[str] = frozenset()
    """The columns that it compares."""


def quoted_text(text: str) -> str:
    """A text as a value of a filter."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def parse_filter(text: str, fields: FilterFields = _OF_ROLLOUTS) -> RolloutFilter:
    """Parse an expression over the columns of a run, or over other fields; an empty one matches every row.

    Raises:
        FilterError: the text is not a valid filter.
    """
    if not text.strip():
        return RolloutFilter(text, lambda _: always)
    if len(text) > LONGEST:
        raise FilterError(f"a filter has at most {LONGEST} characters, not {len(text)}", text, LONGEST)
    parser = _Parser(text, fields)
    bind = parser.parse()
    return RolloutFilter(text, bind, not parser.columns.isdisjoint(NOTE_KINDS), frozenset(parser.columns))


def column_named(name: str, text: str, at: int, fields: FilterFields = _OF_ROLLOUTS) -> str:
    """Return the column with a name or alias.

    Raises:
        FilterError: no column has this name or alias.
    """
    column = fields.aliases.get(name, name)
    if column not in fields.kinds:
        close = get_close_matches(name, [*fields.kinds, *fields.aliases], n=1, cutoff=0.5)
        meant = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(fields.kinds)}"
        raise FilterError(f"no column is named {name!r}{meant}", text, at)
    return column


@dataclass(frozen=True, slots=True)
class _Token:
    kind: Literal["operator", "number", "text", "name", "end"]
    text: str
    at: int


class _Parser:
    """Recursive-descent parser of filter expressions."""

    def __init__(self, text: str, fields: FilterFields) -> None:
        self._text, self._fields = text, fields
        self._tokens = self._split()
        self._next = 0
        self._depth = 0
        self.columns: set[str] = set()

    def parse(self) -> Binding:
        """Parse the whole expression."""
        found = self._either()
        token = self._peek()
        if token.kind != "end":
            raise self._error(f"did not expect {token.text!r} here: join comparisons by 'and' or 'or'", token)
        return found

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        at, end = 0, len(self._text.rstrip())
        while at < end:
            match = _TOKEN.match(self._text, at)
            if match is None:
                start = at + len(self._text[at:]) - len(self._text[at:].lstrip())
                sign = self._text[start]
                what = "a text that does not end" if sign in "\"'" else f"no word of a filter: {sign!r}"
                hint = "; compare with ==" if sign == "=" else ""
                raise FilterError(f"{what}{hint}", self._text, start)
            kind = cast('Literal["operator", "number", "text", "name"]', match.lastgroup)
            tokens.append(_Token(kind, match[kind], match.start(kind)))
            at = match.end()
        return [*tokens, _Token("end", "", len(self._text))]

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _takes(self, word: str) -> bool:
        token = self._peek()
        is_it = token.kind in ("name", "operator") and token.text == word
        self._next += is_it
        return is_it

    def _error(self, problem: str, token: _Token) -> FilterError:
        return FilterError(problem, self._text, token.at)

    def _either(self) -> Binding:
        terms = [self._both()]
        while self._takes("or"):
            terms.append(self._both())
        return terms[0] if len(terms) == 1 else joined(terms, is_any=True)

    def _both(self) -> Binding:
        factors = [self._factor()]
        while self._takes("and"):
            factors.append(self._factor())
        return factors[0] if len(factors) == 1 else joined(factors, is_any=False)

    def _factor(self) -> Binding:
        token = self._peek()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"nested more than {_DEEPEST} deep", token)
        try:
            if self._takes("not"):
                return negated(self._factor())
            if self._takes("("):
                inner = self._either()
                if not self._takes(")"):
                    raise self._error("expected ')'", self._peek())
                return inner
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Binding:
        named = self._take()
        if named.kind != "name":
            raise self._error(f"expected a column, not {named.text!r}" if named.text else "expected a column", named)
        column = column_named(named.text, self._text, named.at, self._fields)
        self.columns.add(column)
        sign = self._peek()
        if sign.kind != "operator" or sign.text in "()":
            if self._fields.kinds[column] != "flag":
                raise self._error(f"{named.text} is not yes or no: compare it with something", named)
            return flag_is(column, True)
        self._take()
        value = self._take()
        if value.kind in ("end", "operator") or (value.kind == "name" and value.text not in _CONSTANTS):
            hint = f': write "{value.text}"' if value.kind == "name" else ""
            raise self._error(f"expected a number, a text in quotes, true, false or null{hint}", value)
        return self._compared(column, sign, value)

    def _compared(self, column: str, sign: _Token, value: _Token) -> Binding:
        kind = self._fields.kinds[column]
        if value.text == "null" and value.kind == "name":
            if sign.text not in ("==", "!="):
                raise self._error("null is compared by == or !=", sign)
            return is_absent(column, sign.text == "==")
        if kind in ("words", "text", "texts"):
            if value.kind != "text":
                raise self._error(f"{column} is text: compare it with a text in quotes", value)
            if sign.text not in _TEXT_OPERATORS:
                raise self._error(f"{column} is text: use one of {' '.join(_TEXT_OPERATORS)}", sign)
            wanted = re.sub(r"\\(.)", r"\1", value.text[1:-1], flags=re.DOTALL)
            known = self._fields.fixed.get(column)
            if known and sign.text in ("==", "!=") and wanted not in known:
                close = get_close_matches(wanted, known, n=1, cutoff=0.5)
                meant = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(sorted(known))}"
                raise self._error(f"{column} is never {wanted!r}{meant}", value)
            return text_is(column, sign.text, wanted)
        if kind == "flag":
            if value.kind != "name":
                raise self._error(f"{column} is yes or no: compare it with true or false", value)
            if sign.text not in ("==", "!="):
                raise self._error(f"{column} is yes or no: use == or !=", sign)
            return flag_is(column, (value.text == "true") == (sign.text == "=="))
        if value.kind != "number":
            raise self._error(f"{column} is a number: compare it with one", value)
        if sign.text not in ORDERS:
            raise self._error(f"{column} is a number: use one of {' '.join(ORDERS)}", sign)
        return number_is(column, sign.text, float(value.text))
