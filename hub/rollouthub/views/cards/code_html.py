"""Code and diffs as HTML: words coloured by one pass over the text, whatever it holds."""

import re
from html import escape

from rollouthub.views.markup import Markup

LONGEST = 60_000
"""Most characters of a text that is coloured; a longer one is shown plain."""
_WORDS = {
    "python": "and as assert async await break class continue def del elif else except finally for from global if "
    "import in is lambda match nonlocal not or pass raise return try while with yield None True False",
    "bash": "if then else elif fi for while until do done case esac in function return exit export local set unset cd "
    "echo sudo source",
    "sql": "select from where insert into values update set delete create table alter drop index view join left right "
    "inner outer on group by order limit having union all distinct as and or not null is in like between case when "
    "then else end with pragma",
    "javascript": "async await break case catch class const continue default delete do else export extends finally for "
    "from function if import in instanceof let new of return static super switch this throw try typeof var void while "
    "yield null true false undefined interface type enum implements private public readonly",
    "c": "auto bool break case char class const constexpr continue default delete do double else enum extern false "
    "float for fn func go goto if impl import include int let long loop match mod mut namespace new nil null nullptr "
    "package private pub public return self short signed sizeof static string struct switch template this throw trait "
    "true try type typedef union unsigned use using var virtual void while",
    "json": "true false null",
}
_KIN = {
    **dict.fromkeys(("py", "python3", "ipython"), "python"),
    **dict.fromkeys(("sh", "shell", "zsh", "console", "terminal"), "bash"),
    **dict.fromkeys(("js", "ts", "typescript", "jsx", "tsx"), "javascript"),
    **dict.fromkeys(("cpp", "c++", "cc", "rust", "go", "java", "kotlin", "swift"), "c"),
    **dict.fromkeys(("yaml", "toml", "ini", "ruby"), "bash"),
}
_COMMENT = {
    "python": "#[^\\n]*+",
    "bash": "#[^\\n]*+",
    "sql": "--[^\\n]*+",
    "javascript": "//[^\\n]*+|/\\*(?:[^*]|\\*(?!/))*+(?:\\*/)?+",
    "c": "//[^\\n]*+|/\\*(?:[^*]|\\*(?!/))*+(?:\\*/)?+",
    "json": "(?!)",
}
_STRING = (
    "\"\"\"(?:[^\"\\\\]|\\\\.|\"(?!\"\"))*+(?:\"\"\")?+|'''(?:[^'\\\\]|\\\\.|'(?!''))*+(?:''')?+"
    "|\"(?:[^\"\\\\\\n]|\\\\.)*+\"?+|'(?:[^'\\\\\\n]|\\\\.)*+'?+"
)
_PATTERNS = {
    name: re.compile(f"(?P<c>{_COMMENT[name]})|(?P<s>{_STRING})|(?P<n>\\b\\d[\\w.]*+)|(?P<w>[^\\W\\d]\\w*+)", re.DOTALL)
    for name in _WORDS
}
"""Each alternative takes what it begins and never gives it back, so that a text is read once."""
_KEYWORDS = {name: frozenset(words.split()) for name, words in _WORDS.items()}


def code_html(text: str, language: str) -> Markup:
    """The text with its comments, strings, numbers and keywords in elements of classes `c`, `s`, `n` and `k`."""
    name = _KIN.get(language, language)
    if name not in _PATTERNS or len(text) > LONGEST:
        return Markup(escape(text))
    keywords = _KEYWORDS[name]
    parts: list[str] = []
    at = 0
    for found in _PATTERNS[name].finditer(text):
        kind = found.lastgroup
        word = found[0]
        if kind == "w":
            if (word.lower() if name == "sql" else word) not in keywords:
                continue
            kind = "k"
        elif kind == "s" and name == "json" and text[found.end() : found.end() + 1] == ":":
            kind = "k"
        parts += (escape(text[at : found.start()]), f'<span class="{kind}">', escape(word), "</span>")
        at = found.end()
    return Markup("".join((*parts, escape(text[at:]))))


def diff_html(text: str) -> Markup:
    """The text with added, removed and heading lines in elements of classes `add`, `del` and `k`."""
    return Markup("\n".join(map(_diff_line, text.split("\n"))))


def _diff_line(line: str) -> str:
    kind = {"+": "add", "-": "del", "@": "k"}.get(line[:1])
    if line.startswith(("+++ ", "--- ", "diff --git ", "*** ")):
        kind = "k"
    return escape(line) if kind is None else f'<span class="{kind}">{escape(line)}</span>'
