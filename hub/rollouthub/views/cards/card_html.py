"""Cards as HTML that needs no script: classes for the style sheet, `details` for what is folded."""

from collections.abc import Iterable

from rollouthub.statistics.amounts import count, dollars, number, seconds
from rollouthub.views.cards.block_html import blocks_html, pre_html, prose
from rollouthub.views.cards.blocks import Block, CodeBlock, PlainBlock
from rollouthub.views.cards.card import (
    Card,
    JudgeCard,
    NoteCard,
    PersonCard,
    SpeechCard,
    ThinkingCard,
    ToolCard,
    TurnCards,
    VerdictCard,
)
from rollouthub.views.cards.drawn_text import with_pictures
from rollouthub.views.markup import Markup, join, table, tag

_STATUS = {"ok": ("✓", "ok"), "error": ("✗", "error"), "not run": ("○", "not run")}
_LONG_ANSWER = 200
_SHORT_PROMPT = 600
"""Most characters of a system prompt that is not folded."""


def cards_html(cards: Iterable[Card]) -> Markup:
    """Several cards, one below the other."""
    return join(*map(card_html, cards))


def card_html(card: Card) -> Markup:
    """One card."""
    match card:
        case SpeechCard():
            return _speech(card)
        case ThinkingCard():
            head = tag("summary", tag("span", "thinking", class_="who"), _soft(count(card.characters, "character")))
            return _card("thinking", tag("details", head, tag("div", prose(card.text), class_="prose")))
        case ToolCard():
            return _tool(card)
        case PersonCard():
            who = f"a person, to {card.seat}"
            return _card("person", _who(who, f"{seconds(card.at)} in"), pre_html(card.text.text, card.text.left))
        case JudgeCard():
            return _judge(card)
        case NoteCard():
            return tag("p", f"… {card.text} …", class_="card note soft")


def turn_head(turn: TurnCards, link: str | None = None) -> Markup:
    """The heading of a turn with its facts; `link` is the address of the turn itself."""
    name = tag("a", turn.number, href=link) if link is not None else turn.number
    errors = tag("span", count(turn.errors, "error"), class_="chip bad") if turn.errors else None
    seat = tag("span", turn.seat, class_="seat") if turn.seat else None
    facts = tag("span", " · ".join(turn.facts), class_="facts")
    return tag("header", tag("h3", name), seat, facts, errors, class_="turn-head")


def verdict_html(card: VerdictCard, anchor: str | None = None) -> Markup:
    """How it ended: the reward and why."""
    facts: list[tuple[str, str | Markup]] = []
    if card.answer is not None:
        facts.append(("submitted", _submitted(card.answer)))
    if card.suspect:
        facts.append(("suspect", card.suspect))
    facts += [(f"seat {name}", number(value)) for name, value in card.seats]
    if not card.trainable:
        facts.append(("not trainable", card.why_not))
    if card.gaps:
        facts.append(("missing", ", ".join(card.gaps)))
    parts = [
        [part.name, f"{part.value:g} × {part.weight:g}", number(part.value * part.weight)] for part in card.components
    ]
    figures = [[name, f"{value:g}"] for name, value in card.metrics]
    head = tag(
        "header",
        tag("span", f"{card.mark} {card.word}", class_=f"verdict-mark t-{card.style.removeprefix('bright_')}"),
        tag("b", card.worth),
        _soft(card.ended),
    )
    return tag(
        "section",
        head,
        _part("Feedback", tag("div", prose(card.feedback), class_="prose")) if card.feedback is not None else None,
        [_fault(where, message, left) for where, message, left in _faults(card)],
        tag("dl", [join(tag("dt", term), tag("dd", said)) for term, said in facts], class_="fields") if facts else None,
        _part("Components of the reward", table(["component", "value × weight", "gives"], parts)) if parts else None,
        _part("Metrics", table(["metric", "value"], figures)) if figures else None,
        _part("Judges", cards_html(card.judges)) if card.judges else None,
        class_=f"verdict t-{card.style.removeprefix('bright_')}",
        id=anchor,
        aria_label="Verdict",
    )


def _submitted(answer: CodeBlock | PlainBlock) -> Markup:
    has_lines = "\n" in answer.text or len(answer.text) > _LONG_ANSWER
    made = pre_html(answer.text, answer.left) if has_lines else tag("code", answer.text)
    return with_pictures(answer.text, lambda: made)


def _speech(card: SpeechCard) -> Markup:
    inner = blocks_html(card.blocks)
    size = sum(len(getattr(block, "text", "")) for block in card.blocks)
    if card.role == "system" and size > _SHORT_PROMPT:
        head = tag("summary", tag("span", card.who, class_="who"), _soft(count(size, "character")))
        return _card("speech system", tag("details", head, inner))
    kind = "prompt " if card.is_prompt else ""
    return _card(f"speech {kind}{card.role}", _who(card.who), inner)


def _tool(card: ToolCard) -> Markup:
    mark, word = _STATUS[card.status]
    took = None if card.seconds is None else seconds(card.seconds)
    size = None if card.size is None else count(card.size, "byte")
    raw = tag("details", tag("summary", "JSON"), pre_html(card.raw.text, card.raw.left), class_="raw")
    head = tag(
        "header",
        tag("span", "tool", class_="who"),
        tag("code", card.name, class_="name"),
        tag("span", f"{mark} {word}", class_=f"status {word.replace(' ', '-')}"),
        _soft(" · ".join(fact for fact in (took, size) if fact)),
        raw if _needs_raw(card.arguments) else None,
        class_="call-head",
    )
    result = blocks_html(card.result) if card.result else tag("p", "(it gave nothing)", class_="soft")
    return _card(
        f"tool {card.status.replace(' ', '-')}",
        head,
        tag("div", blocks_html(card.arguments), class_="arguments") if card.arguments else None,
        tag("div", tag("div", "error" if card.status == "error" else "result", class_="label"), result, class_="result")
        if card.status != "not run"
        else None,
    )


def _needs_raw(blocks: Iterable[Block]) -> bool:
    return any(not isinstance(block, PlainBlock) for block in blocks)


def _judge(card: JudgeCard) -> Markup:
    took = [card.model, seconds(card.seconds) if card.seconds else "", dollars(card.cost) if card.cost else ""]
    asked = None
    if card.asked:
        asked = tag("details", tag("summary", "what it was asked"), cards_html(card.asked), class_="raw")
    return _card(
        "judge",
        _who(card.who, " · ".join(fact for fact in took if fact)),
        tag("p", f"it failed: {card.error}", class_="status error") if card.error else None,
        tag("div", prose(card.words), class_="prose") if card.words.text else None,
        asked,
    )


def _faults(card: VerdictCard) -> list[tuple[str, str, int]]:
    return [(fault.where, fault.message, fault.left) for fault in card.faults]


def _fault(where: str, message: str, left: int) -> Markup:
    return _part(f"Fault: {where}", pre_html(message, left), class_="fault")


def _part(title: str, *inner: Markup, class_: str | None = None) -> Markup:
    return tag("div", tag("h4", title), *inner, class_=f"part {class_ or ''}".strip())


def _card(kind: str, *inner: Markup | None) -> Markup:
    return tag("div", *inner, class_=f"card {kind}")


def _who(who: str, more: str = "") -> Markup:
    return tag("div", tag("span", who, class_="who"), _soft(more) if more else None)


def _soft(text: str) -> Markup:
    return tag("span", text, class_="soft")
