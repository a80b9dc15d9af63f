"""`HiddenText`: what an agent must not see of a task, its answer and the lines of its solution and tests."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rollouthub_registry.audit.answer_forms import core_of

_HIDDEN_FOLDERS = ("tests/", "solution/")
_LEAST_LINE, _MOST_LINES, _MOST_TEXTS = 16, 500, 40
"""Fewest characters of a line that is searched for; most lines of a file, and most files."""
_COMMON = re.compile(r"(?:#|//|set -|import |from \S+ import |if __name__|echo [01] > /logs/|@pytest\.|\"\"\")")
"""How lines begin that many files have."""
_LEAST_DIGITS, _LEAST_WORD, _LONG_WORD = 6, 8, 14
_DISTINCT_DIGITS, _DISTINCT_LETTERS = 4, 5


@dataclass(frozen=True)
class HiddenText:
    """A text that no agent may see. Whoever sees all of its lines in one place has seen it."""

    name: str
    """'the answer', or the path of the file."""
    lines: tuple[str, ...]

    def is_in(self, text: str) -> bool:
        """Whether all of its lines are in the text, each as a word of its own."""
        return all(has_word(text, line) for line in self.lines)


def has_word(text: str, word: str) -> bool:
    """Whether a text contains a word that is no part of a longer one."""
    start = text.find(word)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(word) : start + len(word) + 1]
        if not (before.isalnum() and word[0].isalnum()) and not (after.isalnum() and word[-1].isalnum()):
            return True
        start = text.find(word, start + 1)
    return False


def hidden_texts(answer: str | None, files: Mapping[str, str], public: str) -> list[HiddenText]:
    """What is hidden of a task, without what `public` shows: the prompt, and what any agent may read."""
    shown = public + "\n".join(text for name, text in files.items() if not name.startswith(_HIDDEN_FOLDERS))
    found: list[HiddenText] = []
    if answer is not None and (lines := tuple(_lines_of_answer(answer, shown))):
        found.append(HiddenText("the answer", lines))
    for name, text in files.items():
        if name.startswith(_HIDDEN_FOLDERS) and len(found) < _MOST_TEXTS:
            lines = tuple(_lines_of_file(text, shown))
            if lines and len(lines) <= _MOST_LINES:
                found.append(HiddenText(name, lines))
    return found


def is_distinctive(text: str) -> bool:
    """Whether a text of one line is hardly met by chance."""
    word = text.strip()
    digits = re.sub(r"[\s.,\-+]", "", word)
    if digits.isdigit():
        return len(digits) >= _LEAST_DIGITS and len(set(digits)) >= _DISTINCT_DIGITS
    if len(set(word.lower()) - {" "}) < _DISTINCT_LETTERS:
        return False
    return len(word) >= (_LONG_WORD if word.isalpha() else _LEAST_WORD)


def _lines_of_answer(answer: str, shown: str) -> Iterator[str]:
    core = core_of(answer)
    lines = [line.strip() for line in core.splitlines() if line.strip()]
    if len(lines) == 1:
        if is_distinctive(lines[0]) and lines[0].lower() not in shown.lower():
            yield lines[0]
        return
    yield from dict.fromkeys(line for line in lines if _is_own(line, shown) and not line.startswith("```"))


def _lines_of_file(text: str, shown: str) -> Iterator[str]:
    lines = text.splitlines()
    if any(line.startswith("@@ ") for line in lines):  # a patch: what it adds
        lines = [line[1:] for line in lines if line.startswith("+") and not line.startswith("+++")]
    yield from dict.fromkeys(line.strip() for line in lines if _is_own(line.strip(), shown))


def _is_own(line: str, shown: str) -> bool:
    return (
        len(line) >= _LEAST_LINE
        and len(set(line)) > _DISTINCT_LETTERS
        and not _COMMON.match(line)
        and line not in shown
    )
