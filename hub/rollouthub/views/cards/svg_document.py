"""SVG documents of models and tools, built anew from a list of what may be in them: shapes, text, gradients and clips.

An `img` element runs no script of an SVG and loads nothing for it; but a browser takes all the time that a document
asks for. So the document is bounded as a whole, with everything that is drawn again by a reference, and none of its own
text but words and measures is kept: no CSS, no links, no filters, no animation.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from xml.parsers import expat

MOST_CHARACTERS, MOST_ELEMENTS, MOST_DEPTH = 64_000, 4000, 40
MOST_DRAWN = 20_000
"""Most elements that are drawn, counting again what is drawn again by a reference."""
MOST_DASHED, LEAST_DASH = 64, 0.5
MOST_NUMBER = 100_000.0
"""Largest measure, so that no line has more than a few hundred thousand dashes."""
SIDE = 320
"""Pixels of a picture's longer side."""
_SHAPES = frozenset(("path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "use"))
_ELEMENTS = _SHAPES | frozenset(
    ("svg", "g", "defs", "symbol", "tspan", "linearGradient", "radialGradient", "stop", "clipPath")
)
_SILENT = frozenset(("title", "desc", "metadata", "style"))
"""Elements that are no part of a picture; of `style`, plain rules are read."""
_PAINTED_WORDS = (
    "fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-linecap stroke-linejoin stroke-miterlimit "
    "stroke-dasharray stroke-dashoffset opacity color display visibility font-family font-size font-weight font-style "
    "text-anchor dominant-baseline alignment-baseline letter-spacing stop-color stop-opacity clip-path clip-rule "
    "paint-order vector-effect transform"
)
_PLACED_WORDS = (
    "x y width height cx cy r rx ry x1 y1 x2 y2 dx dy rotate points d viewBox preserveAspectRatio gradientUnits "
    "gradientTransform spreadMethod fx fy fr offset clipPathUnits textLength lengthAdjust pathLength"
)
_PAINTED, _PLACED = frozenset(_PAINTED_WORDS.split()), frozenset(_PLACED_WORDS.split())
_NOT_DRAWN = ("filter", "mask", "marker-start", "marker-mid", "marker-end")
_NAME = re.compile(r"[\w.:-]{1,100}", re.ASCII)
_VALUE = re.compile(r"[\w\s.,#%()+'\"-]*", re.ASCII)
_LOCAL = re.compile(r"url\(\s*['\"]?#([\w.:-]{1,100})['\"]?\s*\)", re.ASCII)
_NUMBER = re.compile(r"[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?")
_RULE = re.compile(r"([^{}]{1,200})\{([^{}]*)\}")


class NoPictureError(ValueError):
    """A text that is no SVG document, or one that is not shown as a picture."""


@dataclass(eq=False)
class SvgElement:
    """An element with what may be in it."""

    name: str
    attributes: dict[str, str]
    children: "list[SvgElement | str]" = field(default_factory=list["SvgElement | str"])

    @property
    def targets(self) -> Iterator[str]:
        """Ids of what it refers to."""
        if (href := self.attributes.get("href")) is not None:
            yield href[1:]
        for name in ("fill", "stroke", "clip-path"):
            if (found := _LOCAL.match(self.attributes.get(name, ""))) is not None:
                yield found[1]


@dataclass
class SvgDocument:
    """A document that is safe to show in an `img` element."""

    text: str
    width: int
    height: int
    left_out: tuple[str, ...]
    """Names of what it has that is not drawn."""
    end: int
    """Bytes of the text, in UTF-8, that it was read from."""


class _SvgEnded(Exception):
    """The document has ended."""


class _SvgReader:
    """Reads one document, and stops at its end."""

    def __init__(self) -> None:
        self.open: list[SvgElement | None] = []
        """The open elements; None for those that are left out."""
        self.root: SvgElement | None = None
        self.end = self.elements = self.shapes = self.dashed = 0
        self.left_out: dict[str, None] = {}
        self.rules: dict[str, dict[str, str]] = {}
        self._style: list[str] | None = None
        self._parser = expat.ParserCreate("utf-8")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._close
        self._parser.CharacterDataHandler = self._say
        self._parser.StartDoctypeDeclHandler = self._refuse

    def read(self, content: bytes) -> None:
        try:
            self._parser.Parse(content, True)
        except _SvgEnded:
            return
        except expat.ExpatError as error:
            raise NoPictureError(str(error)) from None
        raise NoPictureError("it has no end")

    def _refuse(self, *_: object) -> None:
        raise NoPictureError("a document type")  # the only place for entities

    def _start(self, name: str, given: dict[str, str]) -> None:
        self.elements += 1
        if self.elements > MOST_ELEMENTS or len(self.open) >= MOST_DEPTH:
            raise NoPictureError("it is too large")
        above = self.open[-1] if self.open else None
        if (name not in _ELEMENTS) or (self.open and above is None):
            if name not in _SILENT and name not in _ELEMENTS and (not self.open or above is not None):
                self.left_out[name] = None
            if name == "style":
                self._style = []
            self.open.append(None)
            return
        element = SvgElement(name, self._kept(given))
        self.shapes += name in _SHAPES
        self.dashed += "stroke-dasharray" in element.attributes
        if above is not None:
            above.children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def _close(self, name: str) -> None:
        element = self.open.pop()
        if name == "style" and self._style is not None:
            for selectors, declared in _RULE.findall("".join(self._style)):
                for selector in selectors.split(",")[:20]:
                    self.rules.setdefault(selector.strip(), {}).update(self._declared(declared))
            self._style = None
        if not self.open:
            self.root = element if element is not None and element.name == "svg" else None
            self.end = self._parser.CurrentByteIndex
            raise _SvgEnded

    def _say(self, text: str) -> None:
        if self._style is not None:
            self._style.append(text)
        elif self.open and (element := self.open[-1]) is not None and element.name in ("text", "tspan"):
            element.children.append(text)

    def _kept(self, given: dict[str, str]) -> dict[str, str]:
        kept: dict[str, str] = {}
        for name, value in given.items():
            if name in ("id", "class"):
                if all(_NAME.fullmatch(part) for part in value.split()):
                    kept[name] = value
            elif name in ("href", "xlink:href"):
                if value.startswith("#") and _NAME.fullmatch(value[1:]) is not None:
                    kept["href"] = value
                else:
                    self.left_out["href"] = None
            elif name in _PAINTED or name in _PLACED:
                self._keep(name, value, kept)
            elif name in _NOT_DRAWN or name.startswith("on"):
                self.left_out[name] = None
        kept |= self._declared(given.get("style", ""))
        return kept

    def _declared(self, text: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for declaration in text.split(";")[:60]:
            name, _, value = declaration.partition(":")
            if (name := name.strip()) in _PAINTED:
                self._keep(name, value.removesuffix("!important"), found)
            elif name in _NOT_DRAWN or name.startswith("animation"):
                self.left_out[name] = None
        return found

    def _keep(self, name: str, value: str, kept: dict[str, str]) -> None:
        value = value.strip()
        if _VALUE.fullmatch(value) is None or ("url" in value.lower() and _LOCAL.match(value) is None):
            return
        if name in _PLACED or name not in ("fill", "stroke", "color", "stop-color", "font-family", "clip-path"):
            numbers = [float(number) for number in _NUMBER.findall(value)]
            if any(number > MOST_NUMBER for number in numbers):
                raise NoPictureError(f"{name} is too large")
            if name == "stroke-dasharray" and any(0 < number < LEAST_DASH for number in numbers):
                return
        kept[name] = value


def read_svg(text: str) -> SvgDocument:
    """The document that a text begins with.

    Raises:
        NoPictureError: there is none, or it draws nothing, or too much.
    """
    reader = _SvgReader()
    content = text[:MOST_CHARACTERS].encode("utf-8", "replace")
    reader.read(content)
    if reader.root is None or not reader.shapes or reader.dashed > MOST_DASHED:
        raise NoPictureError("it draws nothing, or too much")
    root = reader.root
    _style(root, reader.rules)
    known: dict[str, SvgElement] = {}
    for element in _all(root):
        known.setdefault(element.attributes.get("id", ""), element)
    try:
        drawn = _drawn(root, known, {})
    except RecursionError:
        raise NoPictureError("its references are too deep") from None
    if drawn > MOST_DRAWN:
        raise NoPictureError("it draws too much")
    width, height = _sides(root)
    end = content.find(b">", reader.end) + 1
    return SvgDocument(_written(root, ' xmlns="http://www.w3.org/2000/svg"'), width, height, (*reader.left_out,), end)


def _all(element: SvgElement) -> Iterator[SvgElement]:
    yield element
    for child in element.children:
        if isinstance(child, SvgElement):
            yield from _all(child)


def _style(root: SvgElement, rules: dict[str, dict[str, str]]) -> None:
    """Give elements what the rules of style sheets say of their name, class and id."""
    for element in _all(root) if rules else ():
        own = element.attributes
        classes = own.get("class", "").split()
        for selector in (element.name, *(f".{each}" for each in classes), f"#{own.get('id', '')}"):
            own |= rules.get(selector, {})


def _drawn(element: SvgElement, known: dict[str, SvgElement], counted: dict[SvgElement, int]) -> int:
    """Number of elements that are drawn for one."""
    if element in counted:
        if not counted[element]:
            raise NoPictureError("it refers to itself")
        return counted[element]
    counted[element] = 0
    inner = [child for child in element.children if isinstance(child, SvgElement)]
    inner += [known[target] for target in element.targets if target in known]
    counted[element] = total = 1 + sum(_drawn(each, known, counted) for each in inner)
    return total


def _sides(root: SvgElement) -> tuple[int, int]:
    """Width and height of the picture; the document gets a view of its own where it has none."""
    numbers = [float(number) for number in re.findall(r"-?[0-9]*\.?[0-9]+", root.attributes.get("viewBox", ""))]
    if len(numbers) == 4 and min(numbers[2:]) > 0:
        width, height = numbers[2:]
    else:
        sides = [_NUMBER.match(root.attributes.get(name, "")) for name in ("width", "height")]
        width, height = (float(side[0]) if side is not None else 150.0 for side in sides)
        if min(width, height) <= 0:
            raise NoPictureError("it has no size")
        root.attributes["viewBox"] = f"0 0 {width:g} {height:g}"
    scale = SIDE / max(width, height)
    found = max(1, round(width * scale)), max(1, round(height * scale))
    root.attributes |= {"width": str(found[0]), "height": str(found[1])}
    return found


def _written(element: SvgElement, more: str = "") -> str:
    attributes = "".join(f' {name}="{escape(value)}"' for name, value in element.attributes.items())
    inner = "".join(escape(child) if isinstance(child, str) else _written(child) for child in element.children)
    return f"<{element.name}{more}{attributes}>{inner}</{element.name}>"
