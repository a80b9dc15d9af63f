"""Rewrites an answer into LaTeX that math-verify parses correctly; applied to references and candidates alike."""

import re
from fractions import Fraction

_UNITS = "Hz|eV|Pa|Torr|bar|atm|mol|rad|sr|dB|Wb|lm|lx|Bq|Gy|Sv|kat|cal|Nm|Js|pc|AU|ly"

_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # Spaces and signs.
        ("[−–]", "-"),
        ("[\u00a0\u2009\u202f]", " "),
        (r"(?<=\d)(?:\{,\}|,?\s*\\[,;:! ]\s*|~| )(?=\d{3}(?!\d))", ""),
        (r"\\[;:!]|\\quad|\\qquad", " "),
        (r"\\varnothing", r"\\emptyset "),
        # Numbers set as words are still numbers.
        (r"\\(?:text(?:bf|rm|it)?|math(?:bf|rm|it)|boldsymbol|bf|rm)\s*\{\s*(-?[\d.,/]+)\s*\}", r"\1"),
        (r"^(?:\\approx|\\simeq|\\sim|=|:|\s)+", ""),
        # 4.5e33 is a number, not 4.5 times Euler's number times 33.
        (r"(?<![\w.\\}])(-?(?:\d+\.?\d*|\.\d+))[eE]([+-]?\d+)(?![\w.])", r"\1 \\times 10^{\2}"),
        (r"\^\{\+(\d+)\}", r"^{\1}"),
        (r"(?<![\w./])(\d+) (\d+)/(\d+)(?![\w./])", r"\1\\frac{\2}{\3}"),
        # Units the library does not take off by itself.
        (r"\^\s*\{?\s*\\circ\s*\}?\s*(?:[CFK]|\\(?:text|mathrm)\s*\{\s*[CFK]\s*\})\s*$", r"^{\\circ}"),
        (rf"(?<=[\d}}])(?:\s|\\,|~)+[TGMkcmunp]?(?:{_UNITS})\s*$", ""),
        # A name below a letter: M_\odot, v_{\max}, T_{\text{sun}} are one symbol each.
        (r"_\s*\{?\s*\\(?:text|mathrm|rm|operatorname|mathit)\s*\{?\s*(\w+)\s*\}?\s*\}", r"_{\1}"),
        (r"_\s*\{\s*\\([A-Za-z]+)\s*\}", r"_{\1}"),
        (r"_\s*\\(odot|oplus|max|min|ast|infty|perp|parallel)\b", r"_{\1}"),
        # The library takes E, e and \gamma for the constants, also where a subscript says they are names.
        (r"(?<![A-Za-z\\])([Ee])_\s*\{?(\w+)\}?", r"\\eta_{\1\2}"),
        (r"\\gamma(?![A-Za-z])(?:_\s*\{?(\w+)\}?)?", r"\\eta_{gamma\1}"),
    )
)
_REPEATING = re.compile(r"(\d*)\.(\d*)\\overline\s*\{(\d{1,20})\}")
_TEXT = re.compile(r"\\(?:text(?:bf|rm|it|tt|sf)?|mathrm|mathbf|mathit|mbox|operatorname)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[A-Za-z][A-Za-z' -]*[A-Za-z]|[A-Za-z]")


def normal(answer: str) -> str:
    """The answer as LaTeX that the library reads as a person would."""
    text = answer.strip().strip("$").strip()
    text = _REPEATING.sub(_as_fraction, text)
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    return text.strip().rstrip(".;,").strip()


def words(answer: str) -> str | None:
    r"""A canonical spelling of an answer that is only words (`\text{Evelyn}`, `(C)`, east); None for other answers."""
    text = _TEXT.sub(r"\1", answer.strip().strip("$")).replace("~", " ").strip().rstrip(".").strip("()").strip()
    return " ".join(text.casefold().split()) if _WORDS.fullmatch(text) else None


def plain(answer: str) -> str:
    """A canonical spelling of an answer that the library cannot parse: no spaces, sizing or superfluous braces."""
    text = re.sub(r"\\(?:left|right|displaystyle|,|;|:|!)|\s|\$", "", answer)
    return re.sub(r"\{(\w)\}", r"\1", text)


def _as_fraction(match: re.Match[str]) -> str:
    """A repeating decimal as a fraction."""
    whole, fixed, repeating = match[1] or "0", match[2][:20], match[3]
    value = Fraction(int(whole + fixed + repeating) - int(whole + fixed), 10 ** len(fixed) * (10 ** len(repeating) - 1))
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
