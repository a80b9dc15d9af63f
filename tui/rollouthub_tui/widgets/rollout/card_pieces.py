"""The cards of a conversation as pieces of a document, drawn by the terminal as the other displays draw them."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from rollouthub.statistics.amounts import count, dollars, seconds, short
from rollouthub.views.cards.blocks import (
    Block,
    CodeBlock,
    DiffBlock,
    FieldsBlock,
    MediaBlock,
    ProseBlock,
    TableBlock,
    in_one_line,
)
from rollouthub.views.cards.card import (
    Card,
    FaultWords,
    JudgeCard,
    NoteCard,
    PersonCard,
    SpeechCard,
    ThinkingCard,
    ToolCard,
    VerdictCard,
)
from rollouthub.views.cards.card_text import CardText, CutText
from rollouthub.views.terminal.card_lines import ROLE_STYLES, aligned
from rollouthub_tui.widgets.rollout.document import Medium, Piece, Syntax
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line

MESSAGE_ROWS, SYSTEM_ROWS, THINKING_ROWS, RESULT_ROWS = 40, 8, 4, 20
_CALL, _PERSON, _JUDGE = ROLE_STYLES["tool"], "bold magenta", "magenta"
_THINKING = ROLE_STYLES["assistant"]
_INDENT, _INNER = 4, 6
_SHORT = 50
"""Most characters of arguments that stand beside the tool's name."""
_WIDEST_CELL = 32


def _whole(text: str, most: int) -> CutText:
    """Pieces clean their texts themselves, when they are drawn; folding makes long ones short."""
    return text, 0


SHOWN = CardText(cut=_whole, ours=_whole, name=lambda name: drawn_line(name, 80))
"""How cards for this display are made."""


def card_pieces(name: str, card: Card, *, raw: bool = False) -> Iterator[Piece]:
    """The pieces of a card; `name` is unique in its section. With `raw`, arguments of calls are shown as JSON."""
    match card:
        case SpeechCard():
            yield from _speech(name, card)
        case ThinkingCard():
            head = Text.assemble(("thinking", _THINKING), (f" · {card.characters:,} characters", "dim"))
            yield Piece(
                name, card.text.text, head=head, style="dim", folded_rows=THINKING_ROWS, rule=f"dim {_THINKING}"
            )
        case ToolCard():
            yield from _tool(name, card, raw)
        case PersonCard():
            head = Text(f"a person, to {card.seat}, {seconds(card.at)} in", style=_PERSON)
            yield Piece(name, card.text.text, head=head, folded_rows=MESSAGE_ROWS, rule=_PERSON)
        case JudgeCard():
            yield from judge_pieces(name, card)
        case NoteCard():
            yield Piece(name, card.text, style="dim italic")


def _speech(name: str, card: SpeechCard) -> Iterator[Piece]:
    style = ROLE_STYLES[card.role]
    rows = SYSTEM_ROWS if card.role == "system" else MESSAGE_ROWS
    head: Text | None = Text(card.who, style=style)
    for place, block in enumerate(card.blocks):
        yield block_piece(f"{name} {place}", block, head, indent=_INDENT, rows=rows, rule=style)
        head = None


def _tool(name: str, card: ToolCard, raw: bool) -> Iterator[Piece]:
    head = Text.assemble(("call ", "dim"), (card.name, "bold yellow"))
    facts = ["was not run" if card.status == "not run" else None, card.seconds and seconds(card.seconds)]
    head.append("".join(f" · {fact}" for fact in facts if fact), "dim")
    if card.status == "error":
        head.append(" · ", "dim").append("error", "bold red")
    blocks = [card.raw] if raw else list(card.arguments)
    if blocks and (line := in_one_line(blocks[0], _SHORT)) is not None:
        head.append("  ").append(drawn_line(line), "not bold")
        del blocks[0]
    # An empty text: the rows below have heads of their own.
    yield Piece(f"{name} call", head=head, indent=_INNER, rule=_CALL)
    for place, block in enumerate(blocks):
        yield block_piece(
            f"{name} argument {place}", block, _titled(block), indent=_INNER, rule=_CALL, syntax="json" if raw else None
        )
    if card.status != "not run":
        yield from result_pieces(name, card)


def result_pieces(name: str, card: ToolCard) -> Iterator[Piece]:
    """What a call gave."""
    rule, is_error = ("red" if card.status == "error" else "dim yellow"), card.status == "error"
    if not card.result:
        yield Piece(f"{name} result", "(it gave nothing)", style="dim", indent=_INNER, rule=rule)
        return
    title = Text("error" if is_error else "result", style="red" if is_error else "dim")
    if card.size is not None:
        title.append(f" · {short(card.size)} bytes", "dim")
    head: Text | None = title
    for place, block in enumerate(card.result):
        if head is not None and (block_head := _titled(block)) is not None:
            head.append(" · ", "dim").append_text(block_head)
        own = head or _titled(block)
        yield block_piece(f"{name} result {place}", block, own, indent=_INNER, rule=rule)
        head = None


def judge_pieces(name: str, card: JudgeCard) -> Iterator[Piece]:
    """What a judge, or another model of the environment, said; what it was asked comes first, folded."""
    facts = [card.model, card.seconds and seconds(card.seconds), card.cost and dollars(card.cost)]
    said = "".join(f" · {fact}" for fact in facts if fact)
    head: Text | None = Text.assemble(
        (card.who, f"bold {_JUDGE}"), (said, "dim"), (" · failed" if card.error else "", "bold red")
    )
    if card.asked:
        yield Piece(f"{name} who", head=head, rule=_JUDGE)
        head = Text("it said", style="dim")
    for place, asked in enumerate(card.asked):
        for at, block in enumerate(asked.blocks):
            who = None if at else Text(f"asked, as {asked.who}", style="dim")
            yield block_piece(
                f"{name} asked {place} {at}", block, who, indent=_INNER, rows=THINKING_ROWS, rule=_JUDGE, style="dim"
            )
    if card.words.text:
        yield block_piece(f"{name} words", card.words, head, rows=MESSAGE_ROWS, rule=_JUDGE)
        head = None
    if card.error:
        yield Piece(f"{name} error", card.error, head=head, folded_rows=MESSAGE_ROWS, rule="red")


def verdict_pieces(card: VerdictCard) -> Iterator[Piece]:
    """Why it ended as it did: what speaks against it, the verifier's feedback, what the reward is made of, its faults,
    and the answer.
    """
    if card.suspect:
        yield Piece("suspect", card.suspect, head=Text("the reward may be wrong", "bold yellow"), rule="yellow")
    if card.feedback is not None:
        head = Text("feedback of the verifier", "bold")
        yield block_piece("feedback", card.feedback, head, indent=_INDENT, rule=card.style)
    if card.components:
        lines = "\n".join(f"{part.name}  {part.value:g} × {part.weight:g}" for part in card.components)
        yield Piece("components", lines, head=Text("components of the reward", "bold"), rule=card.style)
    yield from fault_pieces(card.faults)
    if card.answer is not None:
        yield block_piece("answer", card.answer, Text("submitted answer", "bold"), indent=_INDENT, rule="green")


def fault_pieces(faults: Sequence[FaultWords]) -> Iterator[Piece]:
    """The faults of the rollout with their messages."""
    for place, fault in enumerate(faults):
        yield Piece(
            f"fault {place}", fault.message, head=Text(fault.where, "bold red"), folded_rows=MESSAGE_ROWS, rule="red"
        )


def block_piece(
    name: str,
    block: Block,
    head: Text | None,
    *,
    indent: int = _INDENT,
    rows: int = RESULT_ROWS,
    rule: str = "",
    style: str = "",
    syntax: Syntax | None = None,
) -> Piece:
    """One block as a piece."""
    language, medium = "", None
    kind: Syntax = "plain"
    shown: str | Text
    match block:
        case MediaBlock():
            kept = "picture" if block.mime_type.startswith("image/") else "file"
            shown = f"[{kept} {drawn_line(block.mime_type, 40)} {drawn_line(block.digest[:19])}… · enter shows it]"
            medium, style = Medium(block.digest, block.mime_type), "cyan"
        case FieldsBlock():
            shown = Text("\n").join(
                Text.assemble((f"{field}: ", "dim"), drawn_line(value, 400)) for field, value in block.fields
            )
        case TableBlock():
            shown = _table(block)
        case CodeBlock():
            shown, kind, language = block.text, "json" if block.language == "json" else "code", block.language
        case DiffBlock():
            shown, kind = block.text, "diff"
        case _:
            shown = block.text
            kind = "markdown" if isinstance(block, ProseBlock) else "plain"
    return Piece(
        name,
        shown,
        head=head,
        syntax=syntax or kind,
        language=language,
        style=style,
        folded_rows=rows,
        medium=medium,
        indent=indent,
        rule=rule,
    )


def _titled(block: Block) -> Text | None:
    """What stands above a block of code or a change: its name and language."""
    match block:
        case CodeBlock():
            return Text(" · ".join(part for part in (block.name, block.language) if part) or "code", style="dim")
        case DiffBlock():
            return Text(" · ".join(part for part in (block.name, "diff") if part), style="dim")
        case TableBlock():
            return Text(count(len(block.rows) + block.left, "row"), style="dim")
        case _:
            return None


def _table(block: TableBlock) -> Text:
    rows = [tuple(drawn_line(cell, _WIDEST_CELL) for cell in row) for row in (block.titles, *block.rows)]
    lines = [Text(line, "" if at else "dim") for at, line in enumerate(aligned(rows))]
    if block.left:
        lines.append(Text(f"… {count(block.left, 'more row')}", style="dim italic"))
    return Text("\n").join(lines)
