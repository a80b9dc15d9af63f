"""What cards are made of: prose, code, diffs, tables, fields and media, as plain data that every display draws."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ProseBlock:
    """Text that is read as Markdown."""

    text: str
    left: int = 0
    """Number of characters that are left out after the text."""
    kind: Literal["prose"] = "prose"


@dataclass(frozen=True, slots=True)
class PlainBlock:
    """Text shown as it is, such as what a tool printed."""

    text: str
    left: int = 0
    """Number of characters that are left out after the text."""
    kind: Literal["plain"] = "plain"


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Code in a language, such as the argument of a tool."""

    text: str
    language: str = ""
    """Name of the language in lower case; empty if it is unknown."""
    name: str = ""
    """Name of the argument or field that holds it."""
    left: int = 0
    """Number of characters that are left out after the text."""
    kind: Literal["code"] = "code"


@dataclass(frozen=True, slots=True)
class DiffBlock:
    """A change of files in the unified format."""

    text: str
    name: str = ""
    """Name of the argument or field that holds it."""
    left: int = 0
    """Number of characters that are left out after the text."""
    kind: Literal["diff"] = "diff"


@dataclass(frozen=True, slots=True)
class FieldsBlock:
    """Names with short values."""

    fields: tuple[tuple[str, str], ...]
    left: int = 0
    """Number of fields that are left out."""
    kind: Literal["fields"] = "fields"


@dataclass(frozen=True, slots=True)
class TableBlock:
    """Rows of short values under common names."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 0
    """Number of rows that are left out."""
    kind: Literal["table"] = "table"


@dataclass(frozen=True, slots=True)
class MediaBlock:
    """A picture, sound or file."""

    mime_type: str
    digest: str
    source: str | None = None
    """Address at which the display finds it, such as a `data:` URL; None if it has none."""
    why: str = ""
    """Why it is not shown; empty if it is, or if the display has no pictures."""
    kind: Literal["media"] = "media"

    @property
    def is_picture(self) -> bool:
        """Whether a browser shows it as a picture."""
        return self.mime_type in PICTURES


PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
Block = ProseBlock | PlainBlock | CodeBlock | DiffBlock | FieldsBlock | TableBlock | MediaBlock


def in_one_line(block: Block, most: int) -> str | None:
    """Fields or plain text in one line of at most so many characters; None for what is longer, cut or anything else."""
    match block:
        case FieldsBlock():
            text = ", ".join(f"{name}: {value}" for name, value in block.fields)
        case PlainBlock():
            text = block.text.strip("\n")
        case _:
            return None
    return text if not block.left and len(text) <= most and "\n" not in text else None
