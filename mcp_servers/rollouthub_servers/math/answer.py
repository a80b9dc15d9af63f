"""Finds the answer in a response. Runs in the hub's own process, without heavy imports."""

import re

MAX_ANSWER = 2_000
"""Most characters of an answer; longer ones count as no answer."""
_TAIL = 2_000
"""Characters from the end in which an answer outside a box is searched."""
_READ = 100_000
"""Characters from the end in which a box is searched."""
_MOST_BOXES = 100
"""Most boxes that are joined into one answer."""
_BETWEEN = 40
"""Most characters between two boxes that are joined."""

_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BETWEEN_BOXES = re.compile(r"[\s$,;.]*(?:and|or)?[\s$,;.]*")
_MARKER = re.compile(r"(?i)\banswer\b(?:\s++is)?\s*+[:=]?[\s*_]*+(?P<answer>[^\n]+)")
_HASHES = re.compile(r"####[ \t]*(?P<answer>[^\n]+)")
_MATH = re.compile(
    r"\$\$(?P<display>[^$]+)\$\$|\$(?P<inline>[^$\n]+)\$|\\\((?P<paren>.+?)\\\)|\\\[(?P<bracket>.+?)\\\]", re.DOTALL
)
_PROSE = re.compile(r"(?<![A-Za-z])[A-Za-z]{2,}+[,:;]?\s++[A-Za-z]{2}")
_NUMBER = re.compile(r"(?<![\w.])[-−]?\s?\$?\d[\d,]*(?:\.\d+)?(?:\s?/\s?\d+)?(?:\s?\\?%)?")


def find_answer(text: str) -> str:
    r"""The answer in a response, as LaTeX or plain text; empty where there is none.

    The last `\boxed{…}` counts (boxes joined by a comma, "and" or "or" are one answer), else the rest of the line after
    `####`, else what follows the last "answer is", else the whole text where it is a bare expression, else the last
    formula, else the last number. Thinking between `<think>` marks is not read, nor a box or thought left open.
    """
    text = _without_thinking(text).strip()[-_READ:]
    if not text:
        return ""
    if (boxed := last_boxed(text)) is not None:
        return boxed[:MAX_ANSWER]
    if _BOX.search(text):
        return ""
    tail = text[-_TAIL:]
    for pattern in (_HASHES, _MARKER):
        if found := [match["answer"] for match in pattern.finditer(tail)]:
            return _bare(found[-1])
    if len(text) <= 200 and "\n" not in text and not _PROSE.search(text):
        return _bare(text)
    return _last_formula(tail) or _last_number(tail)


def last_boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{…}`, with boxes joined to it; None if there is none, or it is not closed."""
    contents: list[str] = []
    following = len(text)
    # From the end: what stands in boxes earlier on, closed or not, was not the last word.
    for opening in reversed(list(_BOX.finditer(text, max(0, len(text) - _READ)))):
        end = _closing_brace(text, opening.end())
        if end is None or end > following or len(contents) >= _MOST_BOXES:
            break
        is_near = following - end <= _BETWEEN
        if contents and not (is_near and _BETWEEN_BOXES.fullmatch(text, end + 1, following)):
            break
        content = text[opening.end() : end].strip()
        if not contents or content != contents[0]:
            contents.insert(0, content)
        following = opening.start()
    return ", ".join(contents) if contents else None


def _closing_brace(text: str, position: int) -> int | None:
    depth = 1
    for index in range(position, min(len(text), position + MAX_ANSWER + 1)):
        character = text[index]
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return index
    return None


def _without_thinking(text: str) -> str:
    _, closed, rest = text.rpartition("</think>")
    if closed:
        return rest
    return "" if text.lstrip().startswith("<think>") else text


def _bare(text: str) -> str:
    """The answer without what surrounds it: dollar signs, emphasis, a leading equals sign, a full stop."""
    text = text.strip().strip("*_`").strip()
    if formula := _last_formula(text):
        outside = _MATH.sub("", text)
        if not re.search(r"\w", outside) or _PROSE.search(outside):
            return formula
    if _PROSE.search(text):
        return _last_number(text) or text
    return text.rstrip(".;, ").lstrip("=: ")


def _last_formula(text: str) -> str:
    found = list(_MATH.finditer(text))
    return next((part.strip() for part in found[-1].groups() if part), "") if found else ""


def _last_number(text: str) -> str:
    found = _NUMBER.findall(text)
    return found[-1].strip().rstrip(",") if found else ""
