"""Cards as text for a terminal that scrolls: a label for who spoke, called or judged, and beside it what was said."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from rollouthub.statistics.amounts import count, dollars, number, seconds
from rollouthub.views.cards.blocks import Block, CodeBlock, DiffBlock, FieldsBlock, MediaBlock, TableBlock, in_one_line
from rollouthub.views.cards.card import (
    Card,
    JudgeCard,
    NoteCard,
    PersonCard,
    Speaker,
    SpeechCard,
    ThinkingCard,
    ToolCard,
    VerdictCard,
)

ROLE_STYLES: dict[Speaker, str] = {"system": "bright_black", "user": "green", "assistant": "blue", "tool": "yellow"}
"""Role → colour of what it says; the colours that pages give the roles."""
_STYLES: dict[Speaker, str] = {**ROLE_STYLES, "assistant": "bright_blue"}
"""Here whole texts are in the colour, and many a terminal's blue is hardly read on its black."""
_QUIET = "dim"
_LONGEST_BESIDE = 240
"""Most characters of arguments on the line of their call."""


class Passage(NamedTuple):
    """What stands beside one label."""

    label: str
    text: Text
    style: str = ""
    """The style of the label, and of the text where that has none of its own."""


def passages(card: Card) -> Iterator[Passage]:
    """The passages of a card."""
    match card:
        case SpeechCard():
            yield Passage(card.who, blocks_text(card.blocks), _STYLES[card.role])
        case ThinkingCard():
            yield Passage("thinks", block_text(card.text), _QUIET)
        case ToolCard():
            yield from _tool(card)
        case PersonCard():
            yield Passage("a person", block_text(card.text), "magenta")
        case JudgeCard():
            yield _judge(card)
        case NoteCard():
            yield Passage("", Text(f"… {card.text} …"), _QUIET)


def _tool(card: ToolCard) -> Iterator[Passage]:
    first, *rest = card.arguments or (None,)
    line = None if first is None else in_one_line(first, _LONGEST_BESIDE)
    called = Text.assemble(card.name, f"  {line}" if line else "")
    others = rest if line or first is None else [first, *rest]
    if others:
        called.append("\n").append_text(blocks_text(others))
    yield Passage("calls", called, _STYLES["tool"])
    if card.status == "not run":
        yield Passage("", Text("was not run"), _QUIET)
        return
    is_error = card.status == "error"
    given = blocks_text(card.result) if card.result else Text("(it gave nothing)")
    yield Passage("error" if is_error else "result", given, "red" if is_error else _STYLES["tool"])
    took = [seconds(card.seconds)] if card.seconds is not None else []
    took += [count(card.size, "byte")] if card.size is not None else []
    if took:
        yield Passage("", Text(", ".join(took)), _QUIET)


def _judge(card: JudgeCard) -> Passage:
    facts = [
        card.model,
        seconds(card.seconds) if card.seconds else "",
        dollars(card.cost) if card.cost else "",
        f"it failed: {card.error}" if card.error else "",
    ]
    told = ", ".join(fact for fact in facts if fact)
    words = block_text(card.words)
    return Passage(card.who, Text("\n").join(part for part in (Text(told), words) if part.plain), "magenta")


def blocks_text(blocks: Iterable[Block]) -> Text:
    """Blocks one below the other."""
    return Text("\n").join(map(block_text, blocks))


def block_text(block: Block) -> Text:
    """One block, with the name of the argument or field that holds it, and how much of it is left out."""
    match block:
        case FieldsBlock():
            text = Text("\n".join(f"{name}: {value}" for name, value in block.fields))
        case TableBlock():
            text = Text("\n".join(aligned((block.titles, *block.rows))))
        case MediaBlock():
            return Text(f"[{block.mime_type} {block.digest[:19]}…]" + (f" {block.why}" if block.why else ""))
        case CodeBlock() | DiffBlock():
            said = _diff(block.text) if isinstance(block, DiffBlock) else Text(block.text)
            text = Text.assemble(f"{block.name}:\n", said) if block.name else said
        case _:
            text = Text(block.text.strip("\n"))
    if block.left:
        text.append(f" … {block.left:,} more", _QUIET)
    return text


def aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of a table as lines, their columns as wide as the widest cell."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _diff(patch: str) -> Text:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    return Text("\n").join(Text(line, styles.get(line[:1], "")) for line in patch.split("\n"))


def verdict_lines(card: VerdictCard) -> Iterator[Text]:
    """How it ended, what it was worth and why, in the order in which all displays say it."""
    style = f"bold {card.style}"
    yield Text.assemble((f"{card.mark} {card.word}", style), f", {card.worth} ({card.outcome}, {card.ended})")
    if card.suspect:
        yield Text(f"suspect: {card.suspect}", "yellow")
    if card.feedback is not None:
        yield from _told("feedback", card.feedback)
    for fault in card.faults:
        left = f" … {fault.left:,} more characters" if fault.left else ""
        yield Text(f"fault: {fault.where}: {fault.message}{left}", "red")
    if card.answer is not None:
        yield from _told("submitted", card.answer)
    for name, value in card.seats:
        yield Text(f"  seat {name}: {number(value)}")
    for part in card.components:
        yield Text(f"  {part.name}: {part.value:g} × {part.weight:g} gives {number(part.value * part.weight)}")
    for name, value in card.metrics:
        yield Text(f"  {name} = {value:g}")
    for judge in card.judges:
        yield Text.assemble(f"  {judge.who}: ", _judge(judge).text)
    if not card.trainable:
        yield Text(f"not trainable: {card.why_not}")
    if card.gaps:
        yield Text(f"not recorded: {', '.join(card.gaps)}")


def _told(name: str, block: Block) -> Iterator[Text]:
    text = block_text(block)
    yield Text.assemble(f"{name}: ", text) if "\n" not in text.plain else Text.assemble(f"{name}:\n", text)
