"""What an agent does in a page, as DevTools commands: the mouse, the keys, and text."""

from collections.abc import Iterator, Mapping
from typing import Any

from rollouthub_servers.foreign.serving import Refused

Command = tuple[str, dict[str, Any]]
MOST_TYPED = 1_000
"""Maximum number of characters that are typed at once."""
SCROLLED = 50
"""Pixels of one turn of the wheel, as the library has it."""
CONTROL, SHIFT = 2, 8
_MOVE = "Input.dispatchMouseEvent"
_KEY = "Input.dispatchKeyEvent"
_SPECIAL = {
    "Backspace": 8,
    "Tab": 9,
    "Enter": 13,
    "Space": 32,
    "PageUp": 33,
    "PageDown": 34,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "ArrowDown": 40,
    "Delete": 46,
}
"""Keys in brackets that the library allows by default → their numbers on a keyboard."""
_TEXT = {"Enter": "\r", "Space": " "}
_CONTROLLED = ("C-a", "C-c", "C-x", "C-v")
_MARKS = {"-": ("Minus", 189), "=": ("Equal", 187), "[": ("BracketLeft", 219), "]": ("BracketRight", 221)} | {
    ";": ("Semicolon", 186),
    "'": ("Quote", 222),
    "\\": ("Backslash", 220),
    ",": ("Comma", 188),
    ".": ("Period", 190),
    "/": ("Slash", 191),
    "`": ("Backquote", 192),
    " ": ("Space", 32),
}
_SHIFTED = dict(zip('!@#$%^&*()_+{}|:"<>?~', "1234567890-=[]\\;',./`", strict=True))
KEYS = ", ".join((*(f"<{name}>" for name in _SPECIAL), *_CONTROLLED))
"""The keys that have names, for descriptions."""


class Mouse:
    """The mouse over one page: where it is, and whether its button is held."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.is_held = False

    def checked(self, x: Any, y: Any) -> tuple[float, float]:
        """A place on the page.

        Raises:
            Refused: it is no place there.
        """
        for name, value, most in (("x", x, self.width), ("y", y, self.height)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < most:
                raise Refused(f"{name}={value!r}: the page goes from 0 to below {most}"[:200])
        return float(x), float(y)

    def move(self, x: float, y: float) -> Command:
        """Move it, with its button as it is."""
        button = {"button": "left", "buttons": 1} if self.is_held else {}
        return _MOVE, {"type": "mouseMoved", "x": x, "y": y, **button}

    def press(self, x: float, y: float, count: int = 1) -> Command:
        """Press its button."""
        self.is_held = True
        return _MOVE, _button("mousePressed", x, y, count, 1)

    def release(self, x: float, y: float, count: int = 1) -> Command:
        """Release its button."""
        self.is_held = False
        return _MOVE, _button("mouseReleased", x, y, count, 0)

    def click(self, x: float, y: float, count: int = 1) -> Iterator[Command]:
        """Click, or click twice."""
        yield self.move(x, y)
        for number in range(1, count + 1):
            yield self.press(x, y, number)
            yield self.release(x, y, number)

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> Iterator[Command]:
        """Press, move in steps and release, as a hand does."""
        yield self.move(*start)
        yield self.press(*start)
        for part in (0.1, 0.5, 0.9, 1.0):
            yield self.move(*(a + (b - a) * part for a, b in zip(start, end, strict=True)))
        yield self.release(*end)

    def scroll(self, x: float, y: float, direction: Any) -> Iterator[Command]:
        """Turn the wheel once."""
        if direction not in ("up", "down"):
            raise Refused(f"direction={direction!r}: it is up or down"[:200])
        turned = SCROLLED if direction == "down" else -SCROLLED
        yield _MOVE, {"type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": turned}


def _button(kind: str, x: float, y: float, count: int, buttons: int) -> dict[str, Any]:
    return {"type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": count}


def typed(text: Any) -> Iterator[Command]:
    """The strokes that type a text.

    Raises:
        Refused: it is no text, or too long.
    """
    if not isinstance(text, str) or len(text) > MOST_TYPED:
        raise Refused(f"text has at most {MOST_TYPED:,} characters")
    for character in text:
        if character in "\n\t":
            yield from _stroke(_special("Enter" if character == "\n" else "Tab"), 0)
        elif character.isprintable():
            yield from _stroke(_printed(character), 0)


def pressed(key: Any) -> Iterator[Command]:
    """The stroke of a key by the name that the library gives it: `a`, `<Enter>`, `C-a`.

    Raises:
        Refused: it has no such name.
    """
    if key in _CONTROLLED:
        return _stroke({**_printed(key[2:]), "text": ""}, CONTROL)
    if isinstance(key, str) and key[:1] == "<" and key[-1:] == ">" and key[1:-1] in _SPECIAL:
        return _stroke(_special(key[1:-1]), 0)
    if isinstance(key, str) and len(key) == 1 and key.isprintable():
        return _stroke(_printed(key), 0)
    raise Refused(f"key={key!r}: it is one character, or {KEYS}"[:400])


def _special(name: str) -> dict[str, Any]:
    text = _TEXT.get(name, "")
    named = {"key": " " if name == "Space" else name, "code": name, "windowsVirtualKeyCode": _SPECIAL[name]}
    return {**named, "text": text}


def _printed(character: str) -> dict[str, Any]:
    """A key of the keyboard that is most common, or of none."""
    base = _SHIFTED.get(character, character.lower())
    number = 0
    code = ""
    if base.isascii() and base.isalpha():
        code, number = f"Key{base.upper()}", ord(base.upper())
    elif base.isascii() and base.isdigit():
        code, number = f"Digit{base}", ord(base)
    elif base in _MARKS:
        code, number = _MARKS[base]
    return {"key": character, "code": code, "windowsVirtualKeyCode": number, "text": character}


def _stroke(key: Mapping[str, Any], modifiers: int) -> Iterator[Command]:
    shift = SHIFT if key["text"] in _SHIFTED or (key["text"].isupper() and key["text"].isascii()) else 0
    named = {**key, "modifiers": modifiers | shift}
    kind = "keyDown" if key["text"] else "rawKeyDown"
    yield _KEY, {"type": kind, **named}
    yield _KEY, {"type": "keyUp", **{name: value for name, value in named.items() if name != "text"}}
