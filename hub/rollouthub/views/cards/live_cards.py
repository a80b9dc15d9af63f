"""The cards of a rollout in flight, from what its hub tells of it."""

from rollouthub.live.control.live_views import CallView, SaidView, TurnView
from rollouthub.views.cards.argument_blocks import argument_blocks, raw_arguments
from rollouthub.views.cards.blocks import PlainBlock, ProseBlock
from rollouthub.views.cards.card import Card, Speaker, SpeechCard, ToolCard
from rollouthub.views.cards.card_text import CardText
from rollouthub.views.cards.result_blocks import text_blocks
from rollouthub.views.cards.rollout_cards import WHO, shown_name

_SPEAKERS: dict[str, Speaker] = {speaker: speaker for speaker in WHO}


def live_cards(turn: TurnView, parent: TurnView | None, shown: CardText) -> list[Card]:
    """The cards of a turn as they will be once its rollout has ended; what a tool gave is only at its call, which is in
    the turn that this one follows, its `parent`.
    """
    given = {call.result for call in parent.calls} if parent is not None else set[str | None]()
    said = (message for message in turn.messages or () if message.text)
    said = (message for message in said if message.role != "tool" or message.text not in given)
    return [*(_said(message, shown) for message in said), *(_called(call, shown) for call in turn.calls)]


def _said(message: SaidView, shown: CardText) -> SpeechCard:
    cut = shown(message.text)
    block = PlainBlock(*cut) if message.role == "tool" else ProseBlock(*cut)
    speaker = _SPEAKERS.get(message.role)
    return SpeechCard(speaker or "user", WHO[speaker] if speaker else shown.name(message.role), (block,))


def _called(call: CallView, shown: CardText) -> ToolCard:
    arguments = call.arguments or ""
    return ToolCard(
        name=shown_name(call.name, shown),
        arguments=argument_blocks(arguments, call.name, shown),
        raw=PlainBlock(*raw_arguments(arguments, shown)),
        result=text_blocks(call.result or "", call.name, shown),
        status="error" if call.outcome == "error" else "ok",
        seconds=call.seconds,
    )
