"""A record's conversation as a document: one section for each turn, with pieces for its messages, calls and results,
and a last section that says how it ended.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from mcp_types import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents
from rich.text import Text

from rollouthub.messages import Media, Message, ToolRequest
from rollouthub.rollout import Rollout, ToolCall, Turn
from rollouthub.statistics.amounts import count, dollars, number, seconds, short, turn_number
from rollouthub.views.cards.rollout_cards import follows
from rollouthub.views.credit_words import CreditWords
from rollouthub.views.terminal.outcome_styles import verdict_of
from rollouthub_tui.widgets.rollout.argument_pieces import RESULT_ROWS, call_pieces, pretty
from rollouthub_tui.widgets.rollout.document import Medium, Piece, Section, Syntax
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line

MANY_TURNS = 200
"""With more turns than this, all but the first and last are closed at first."""
MESSAGE_ROWS, SYSTEM_ROWS, THINKING_ROWS = 40, 8, 4
ROLE_STYLES = {"system": "magenta", "user": "blue", "assistant": "green", "tool": "yellow"}


def transcript(rollout: Rollout, *, raw: bool = False) -> list[Section]:
    """The sections of the conversation: one per turn, then the end. With `raw`, arguments are shown as JSON."""
    seats = len({turn.agent for turn in rollout.turns} | rollout.seats.keys()) > 1
    many = len(rollout.turns) > MANY_TURNS
    asked = {turn.index: frozenset(request.id for request in turn.response.tool_requests) for turn in rollout.turns}
    sections: list[Section] = []
    before: int | None = None
    credit = CreditWords(rollout.score)
    for place, turn in enumerate(rollout.turns):
        answered = asked.get(turn.parent_turn, frozenset[str]()) if turn.parent_turn is not None else frozenset[str]()
        sections.append(
            Section(
                ("turn", turn.index),
                partial(_title, turn, before, seats),
                partial(_pieces, turn, answered, credit, raw),
                is_open=not many or place in (0, len(rollout.turns) - 1),
                has_error=any(call.is_error for call in turn.tool_calls),
            )
        )
        before = turn.index
    ending = partial(_ending, rollout)
    return [*sections, Section("ending", ending, partial(ending_pieces, rollout), has_error=bool(rollout.faults))]


def _ending(rollout: Rollout, width: int, is_open: bool) -> Text:
    score = rollout.score
    ending = verdict_of(rollout.outcome.kind, score and score.passed, score and score.reward)
    became = f"reward {number(rollout.reward)}" if score is not None else f"{ending.word}, unscored"
    what = "ended" if rollout.turns else "ended without any turn"
    return Text.assemble(
        (f"{ending.mark} {what}", f"bold {ending.style}"), f" · {rollout.stop.value.replace('_', ' ')} · {became}"
    )


def ending_pieces(rollout: Rollout) -> list[Piece]:
    """Why it ended as it did: the verifier's feedback, the components of its reward, and its faults."""
    pieces: list[Piece] = []
    score = rollout.score
    if score is not None and score.feedback:
        head = Text("feedback of the verifier", "bold")
        pieces.append(Piece("feedback", score.feedback, head=head, folded_rows=MESSAGE_ROWS))
    if score is not None and score.components:
        lines = (f"{drawn_line(name, 40)}  {part.value:g} × {part.weight:g}" for name, part in score.components.items())
        pieces.append(Piece("components", "\n".join(lines), head=Text("components of the reward", "bold")))
    return [*pieces, *fault_pieces(rollout)]


def fault_pieces(rollout: Rollout) -> list[Piece]:
    """The faults of the rollout with their messages."""
    pieces: list[Piece] = []
    for place, fault in enumerate(rollout.faults):
        more = [f"status {fault.status}"] if fault.status is not None else []
        more += ["may be tried again"] if fault.retryable else []
        head = Text.assemble(
            (f"{fault.boundary} ", "bold red"),
            f"in {fault.phase}: {drawn_line(fault.type, 80)}",
            (f" · {', '.join(more)}" if more else "", "dim"),
        )
        pieces.append(Piece(f"fault {place}", fault.message, head=head, folded_rows=MESSAGE_ROWS))
    return pieces


def _title(turn: Turn, before: int | None, seats: bool, width: int, is_open: bool) -> Text:
    errors = sum(call.is_error for call in turn.tool_calls)
    facts = [
        drawn_line(turn.agent, 40) if seats else None,
        follows(turn.parent_turn, before),
        drawn_line(turn.model, 40) if turn.model else None,
        f"{short(turn.usage.output_tokens)} tokens" if turn.usage.output_tokens else None,
        seconds(turn.seconds) if turn.seconds else None,
        f"reward {turn.reward:+g}" if turn.reward is not None else None,
    ]
    if is_open:  # a closed one has room for what was said instead
        facts += [
            drawn_line(turn.finish_reason, 24) if turn.finish_reason else None,
            f"{turn.retries:,} tries failed before" if turn.retries else None,
            dollars(turn.cost) if turn.cost else None,
            count(len(turn.tool_calls), "call") if turn.tool_calls else None,
        ]
    return turn_title(turn.index, facts, errors, "" if is_open else _gist(turn), width)


def turn_title(index: int, facts: Sequence[str | None], errors: int, gist: str, width: int) -> Text:
    """The title line of a turn; `gist` is a short summary of its calls and text."""
    title = Text(turn_number(index), style="bold")
    for fact in facts:
        if fact:
            title.append(" · ", "dim").append(fact, "not bold")
    if errors:
        title.append(" · ", "dim").append(count(errors, "error"), "bold red")
    if gist and (room := width - title.cell_len - 3) > 8:
        title.append(f"  {gist[:room]}", "not bold dim")
    if title.cell_len > width:
        title.truncate(width, overflow="ellipsis")
    return title


def _gist(turn: Turn) -> str:
    calls = ", ".join(dict.fromkeys(drawn_line(call.name, 24) for call in turn.tool_calls[:6]))
    said = drawn_line(turn.response.text, 200)
    return " – ".join(part for part in (calls, said) if part)


def _pieces(turn: Turn, answered: frozenset[str], credit: CreditWords, raw: bool) -> list[Piece]:
    pieces: list[Piece] = []
    for place, message in enumerate(turn.messages):
        # What a tool gave is shown at its call.
        if message.role != "tool" or message.tool_call_id not in answered:
            pieces += _message(f"message {place}", message, message.role)
    pieces += _message("response", turn.response, "agent" if turn.agent == "agent" else drawn_line(turn.agent, 40))
    pieces += _requests(turn.response.tool_requests, {call.id for call in turn.tool_calls}, raw)
    for place, call in enumerate(turn.tool_calls):
        pieces += _call(f"call {place}", call, raw)
    return [*pieces, *judged("judge", "judge", credit.of_turn(turn.index))]


def _message(name: str, message: Message, who: str) -> Iterator[Piece]:
    if message.reasoning:
        yield thinking(name, message.reasoning)
    if message.text:
        yield said(name, who, message.role, message.text)
    parts = () if isinstance(message.content, str) else message.content
    for place, part in enumerate(parts):
        if isinstance(part, Media):
            yield medium_piece(f"{name} medium {place}", Medium(part.digest, part.mime_type), 4)


def said(name: str, who: str, role: str, text: str) -> Piece:
    """A message's text under its author's name."""
    return Piece(
        name,
        text,
        head=Text(who, style=ROLE_STYLES.get(role, "")),
        syntax="markdown" if role == "assistant" else "plain",
        folded_rows=SYSTEM_ROWS if role == "system" else MESSAGE_ROWS,
    )


def thinking(name: str, text: str) -> Piece:
    """The model's reasoning text."""
    head = Text.assemble(("thinking", "green"), (f" · {len(text):,} characters", "dim"))
    return Piece(f"{name} thinking", text, head=head, style="dim", folded_rows=THINKING_ROWS)


def judged(name: str, who: str, words: Sequence[str]) -> Iterator[Piece]:
    """What judges say on a turn, a seat or the whole."""
    for place, line in enumerate(words):
        yield Piece(f"{name} {place}", line, head=Text(who, style="dim"), folded_rows=MESSAGE_ROWS)


def medium_piece(name: str, medium: Medium, indent: int) -> Piece:
    """A line for a picture or another file."""
    digest = drawn_line(medium.digest[:19])
    kind = "picture" if medium.mime_type.startswith("image/") else "file"
    told = f"[{kind} {drawn_line(medium.mime_type, 40)} {digest}… · enter shows it]"
    return Piece(name, told, style="cyan", medium=medium, indent=indent)


def _requests(requests: Sequence[ToolRequest], ran: set[str], raw: bool) -> Iterator[Piece]:
    for place, request in enumerate(requests):
        if request.id not in ran:
            yield from call_pieces(f"request {place}", request.name, request.arguments, None, False, raw=raw)


def _call(name: str, call: ToolCall, raw: bool) -> Iterator[Piece]:
    yield from call_pieces(name, call.name, call.arguments, call.seconds, call.is_error, raw=raw)
    texts: list[str] = []
    media: list[Piece] = []
    for place, block in enumerate(call.result.content):
        match block:
            case TextContent():
                texts.append(block.text)
            case ImageContent() | AudioContent():
                media.append(medium_piece(f"{name} medium {place}", Medium(block.data, block.mime_type), 6))
            case EmbeddedResource():
                texts.append(_resource(block))
            case ResourceLink():
                texts.append(f"[a link to {block.uri}]")
    structured = call.result.structured_content
    if not texts and structured is not None:
        texts.append(pretty(structured))
    yield from result_pieces(name, "\n".join(texts), call.bytes, call.is_error, not media)
    yield from media


def result_pieces(name: str, text: str, size: int | None, is_error: bool, tells_nothing: bool) -> Iterator[Piece]:
    """The result of a tool call."""
    if not text:
        if tells_nothing:
            yield Piece(f"{name} result", "(it gave nothing)", style="dim", indent=6)
        return
    head = Text.assemble(("error" if is_error else "result", "red" if is_error else "dim"))
    if size is not None:
        head.append(f" · {short(size)} bytes", "dim")
    syntax: Syntax = "json" if text.lstrip()[:1] in ("{", "[") else "plain"
    yield Piece(f"{name} result", text, head=head, syntax=syntax, folded_rows=RESULT_ROWS, indent=6)


def _resource(block: EmbeddedResource) -> str:
    resource = block.resource
    if isinstance(resource, TextResourceContents):
        return f"[{resource.uri}]\n{resource.text}"
    return f"[{resource.uri}: {resource.mime_type or 'bytes'}]"
