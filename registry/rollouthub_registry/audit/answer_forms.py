"""Variants of an answer: those that are wrong, and those that say the same in another form."""

import json
import re
from dataclasses import dataclass
from typing import Any, cast

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\d)")
_WHOLE_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_BOXED = "\\boxed{"
_FRAMES = (
    re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE),
    re.compile(r"^[ \t]*(?:the )?(?:final |correct )?answer(?: is|:)[ \t]+(\S[^\n]{0,120}?)\.?[ \t]*$", re.I | re.M),
)
"""How an answer may be framed besides `\\boxed{…}`; the last one of a kind counts."""
_LETTER = re.compile(r"\(?([A-J])\)?\.?")
_WORD = re.compile(r"[A-Za-z][A-Za-z -]*")
_PROGRAM = re.compile(r"^\s*(?:def |class |import |from \w+ import |#include|function |public class )", re.MULTILINE)
_RETURNS = re.compile(r"^([ \t]*)return[ \t]+[^\n]+$", re.MULTILINE)
_PART = 1e-4
"""Relative change below which a number may be within a verifier's tolerance."""
_SENTENCE = 200
"""Longest text whose last number is taken for its answer; in a longer one it may be any number."""
_LIST = 3
_ITEM = re.compile(r"[\w+-]{1,30}")
"""An answer of at least so many lines, each of one word, is a list."""
MOST_CHARACTERS = 20_000
"""Longest answer of which variants are made."""


@dataclass(frozen=True)
class OtherForm:
    """The same answer in another form."""

    how: str
    text: str
    is_notation: bool = False
    """Whether a prompt may well ask for the one notation and not for the other."""


def made_wrong(answer: str) -> list[tuple[str, str]]:
    """Wrong variants of an answer, each with how it was changed."""
    if len(answer) > MOST_CHARACTERS:
        return []
    found: list[tuple[str, str]] = []
    core, before, after = _core(answer)
    if _WHOLE_NUMBER.fullmatch(core):
        found += [(how, f"{before}{text}{after}") for how, text in _other_numbers(core)]
    elif letter := _LETTER.fullmatch(core):
        other = "B" if letter[1] == "A" else "A"
        found.append(("another letter", before + core.replace(letter[1], other, 1) + after))
    elif (value := _json(core)) is not None:
        found += [(how, f"{before}{text}{after}") for how, text in _other_json(value)]
    elif core.startswith("<"):
        pass  # a drawing or a page: a changed number may be within what its verifier allows
    elif _PROGRAM.search(answer):
        if _RETURNS.search(answer):
            found.append(("its functions return nothing", _RETURNS.sub(r"\1return None", answer)))
        found.append(("a program that does nothing", "pass\n"))
    else:
        numbers = list(_NUMBER.finditer(core)) if len(core) <= _SENTENCE else []
        if numbers:
            last = numbers[-1]
            found += [
                (f"its last number {how}", before + core[: last.start()] + text + core[last.end() :] + after)
                for how, text in _other_numbers(last[0])[:1]
            ]
        lines = core.splitlines()
        if len(lines) >= _LIST and all(_ITEM.fullmatch(line.strip()) for line in lines):
            other = "\n".join([lines[0], *("none" for _ in lines[1:])])
            found.append(("a list of which the first item alone is right", before + other + after))
    return [(how, text) for how, text in dict.fromkeys(found) if text.strip() != answer.strip()]


def in_other_forms(answer: str) -> list[OtherForm]:
    """The same answer in other forms."""
    if not answer.strip() or len(answer) > MOST_CHARACTERS:
        return []
    core, before, after = _core(answer)
    found = [OtherForm("a line break at its end", answer + "\n")]
    value = _json(core)
    if _PROGRAM.search(answer):
        found.append(OtherForm("an empty line before it", "\n" + answer))
    elif value is not None and isinstance(value, dict | list):
        if isinstance(value, dict) and len(cast(dict[str, Any], value)) > 1:
            turned = dict(reversed(cast(dict[str, Any], value).items()))
            found.append(OtherForm("its keys in another order", before + json.dumps(turned) + after))
        found.append(OtherForm("indented", before + json.dumps(value, indent=2) + after))
    elif "\n" not in answer:
        found.append(OtherForm("spaces around it", f"  {answer} "))
    if _WHOLE_NUMBER.fullmatch(core):
        whole = core.lstrip("-")
        if "." not in core:
            found.append(OtherForm("with a decimal point", f"{before}{core}.0{after}", is_notation=True))
        if "." not in core and len(whole) > 3:
            grouped = f"{'-' if core.startswith('-') else ''}{int(whole):,}"
            found.append(OtherForm("with commas between thousands", before + grouped + after, is_notation=True))
    if fraction := re.fullmatch(r"(-?)\\d?frac\{(\d+)\}\{(\d+)\}", core):
        same = f"{before}{fraction[1]}{fraction[2]}/{fraction[3]}{after}"
        found.append(OtherForm("as a/b", same, is_notation=True))
    return found


def core_of(answer: str) -> str:
    """The part of an answer that counts, without a frame such as `\\boxed{…}` or `The answer is …`, and spaces."""
    return _core(answer)[0]


def mark_of(answer: str) -> str | None:
    """The mark around an answer by which a verifier may find it; None if it stands in words, or alone."""
    if _last_boxed(answer) is not None:
        return "\\boxed"
    return "<answer>" if "<answer>" in answer and "</answer>" in answer else None


def kind_of(core: str) -> str:
    """What kind of answer it is: other answers of that kind may be given in its place."""
    kinds = {"number": _WHOLE_NUMBER, "letter": _LETTER, "word": _WORD}
    return next((kind for kind, pattern in kinds.items() if pattern.fullmatch(core)), "other")


def _core(answer: str) -> tuple[str, str, str]:
    """The part of an answer that counts, and what stands before and after it: its frame and spaces."""
    if len(answer) <= MOST_CHARACTERS:
        if (span := _last_boxed(answer)) is not None:
            return answer[slice(*span)].strip(), answer[: span[0]], answer[span[1] :]
        for frame in _FRAMES:
            if found := list(frame.finditer(answer)):
                last = found[-1]
                return last[1].strip(), answer[: last.start(1)], answer[last.end(1) :]
    core = answer.strip()
    start = answer.find(core)
    return core, answer[:start], answer[start + len(core) :]


def _last_boxed(answer: str) -> tuple[int, int] | None:
    """Where the content of the last `\\boxed{…}` begins and ends; None if there is none that is closed."""
    start = answer.rfind(_BOXED) + len(_BOXED)
    depth = 1
    for place in range(start, len(answer) if start >= len(_BOXED) else 0):
        depth += {"{": 1, "}": -1}.get(answer[place], 0)
        if not depth:
            return start, place
    return None


def _other_numbers(number: str) -> list[tuple[str, str]]:
    places = len(number.partition(".")[2])
    value = float(number)
    found: list[tuple[str, str]] = []
    step = 1.0 if abs(value) < 1 / _PART else abs(value) * 0.1
    changed = value + step
    width = len(number) if number.startswith("0") else 0  # as the minutes of a clock
    text = str(int(number) + int(step)).zfill(width) if not places else f"{changed:.{places}f}"
    found.append(("off by one" if step == 1 else "off by a tenth", text))
    if value:
        found.append(("its sign turned", number.removeprefix("-") if number.startswith("-") else f"-{number}"))
    return found


def _json(text: str) -> Any:
    if not text[:1] or text[0] not in "[{":
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _other_json(value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        found = [("one key left out", json.dumps(dict(list(fields.items())[:-1])))] if len(fields) > 1 else []
        for key, item in fields.items():
            if isinstance(item, int | float) and not isinstance(item, bool):
                # Far off: of a table of numbers, such as the colours of a map, another near one may be right, too.
                found.append((f"{key} far off", json.dumps({**fields, key: 7 * item + 1_000_003})))
                break
            if isinstance(item, str):
                found.append((f"{key} changed", json.dumps({**fields, key: item + "x"})))
                break
        return found
    items = cast("list[Any]", value)
    return [("its last item left out", json.dumps(items[:-1]))] if items else []
