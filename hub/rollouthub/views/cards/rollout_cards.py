"""Makes the cards of a rollout, one turn at a time."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from pydantic import JsonValue

from rollouthub.messages import Media, Message, ToolRequest
from rollouthub.rollout import ONLY_SEAT, Intervention, Rollout, ToolCall, Turn
from rollouthub.score import ModelCall, SpanReward
from rollouthub.statistics.amounts import count, dollars, seconds, short, turn_number
from rollouthub.text import one_line
from rollouthub.views.cards.argument_blocks import argument_blocks, raw_arguments
from rollouthub.views.cards.blocks import Block, CodeBlock, PlainBlock, ProseBlock
from rollouthub.views.cards.card import (
    Card,
    ComponentFigures,
    FaultWords,
    JudgeCard,
    NoteCard,
    PersonCard,
    Speaker,
    SpeechCard,
    ThinkingCard,
    ToolCard,
    TurnCards,
    VerdictCard,
)
from rollouthub.views.cards.card_text import CardText
from rollouthub.views.cards.result_blocks import result_blocks
from rollouthub.views.credit_words import CreditWords
from rollouthub.views.terminal.outcome_styles import verdict_of
from rollouthub.views.terminal.span_words import span_words

MOST_FIGURES = 200
"""Most components, metrics, seats, faults and judge calls of a verdict."""
PLAIN = CardText()


class RolloutCards:
    """The cards of one rollout."""

    def __init__(self, rollout: Rollout, shown: CardText = PLAIN) -> None:
        self.rollout, self._shown = rollout, shown
        self._credit = CreditWords(rollout.score)
        self._has_seats = len({turn.agent for turn in rollout.turns} | rollout.seats.keys()) > 1
        self._asked = {
            turn.index: frozenset(request.id for request in turn.response.tool_requests) for turn in rollout.turns
        }
        self._told = {(told.seat, told.text): told for told in rollout.told}
        self._spans: dict[int, list[SpanReward]] = {}
        for span in () if rollout.score is None else rollout.score.span_rewards:
            self._spans.setdefault(span.turn, []).append(span)
        self._answered_by, self._other_calls = _placed(rollout)

    def turn(self, place: int) -> TurnCards:
        """The cards of the turn at a place in the record."""
        turn = self.rollout.turns[place]
        before = self.rollout.turns[place - 1].index if place else None
        calls = dict.fromkeys(shown_name(call.name, self._shown) for call in turn.tool_calls[:6])
        said = one_line(self._shown.line(turn.response.text[:400]), 160)
        return TurnCards(
            turn.index,
            turn_number(turn.index),
            self._shown.name(turn.agent) if self._has_seats else "",
            tuple(self._facts(turn, before)),
            sum(call.is_error for call in turn.tool_calls),
            " – ".join(part for part in (", ".join(calls), said) if part),
            tuple(self.cards_of(turn)),
        )

    def cards_of(self, turn: Turn) -> Iterator[Card]:
        """The messages that came before an answer, the answer, its calls, and what a judge said of it."""
        added = [each for each in turn.messages if each.role != "tool" or not self._is_at_its_call(turn, each)]
        if more := max(0, len(added) - self._shown.most_cards):
            yield NoteCard(f"{count(more, 'earlier message')} of this turn not shown")
        for message in added[more:]:
            told = self._told.get((turn.agent, message.text)) if message.role == "user" else None
            if told is not None:
                yield self._person(told)
            else:
                yield from self._message(message, WHO[message.role], is_prompt=turn.parent_turn is None)
        for call in self._answered_by.get(turn.index, ()):
            yield self.model_call(call)
        yield from self._message(turn.response, "agent" if turn.agent == ONLY_SEAT else self._shown.name(turn.agent))
        ran = {call.id for call in turn.tool_calls}
        left_out = max(0, len(turn.tool_calls) - self._shown.most_cards)
        yield from (self.call(call) for call in turn.tool_calls[: self._shown.most_cards])
        if left_out:
            yield NoteCard(f"{count(left_out, 'further call')} of this turn not shown")
        missed = (request for request in turn.response.tool_requests if request.id not in ran)
        yield from (self._request(request) for request in islice(missed, self._shown.most_cards))
        for words in self._credit.of_turn(turn.index):
            yield JudgeCard("judge", ProseBlock(words))

    def _is_at_its_call(self, turn: Turn, message: Message) -> bool:
        """Whether what a tool gave is shown at its call, or would be if that turn was shown."""
        if turn.parent_turn is None:
            return False
        asked = self._asked.get(turn.parent_turn)
        return asked is None or message.tool_call_id in asked

    def call(self, call: ToolCall) -> ToolCard:
        """A tool call that ran."""
        shown = self._shown
        return ToolCard(
            name=shown_name(call.name, shown),
            arguments=argument_blocks(call.arguments, call.name, shown),
            raw=PlainBlock(*raw_arguments(call.arguments, shown)),
            result=result_blocks(call.result, call.name, shown),
            status="error" if call.is_error else "ok",
            seconds=call.seconds,
            size=call.bytes,
        )

    def verdict(self) -> VerdictCard:
        """How it ended."""
        rollout, shown = self.rollout, self._shown
        score = rollout.score
        ending = verdict_of(rollout.outcome.kind, score and score.passed, score and score.reward)
        return VerdictCard(
            mark=ending.mark,
            word=ending.word,
            style=ending.style,
            outcome=rollout.outcome.value,
            stop=rollout.stop.value.replace("_", " "),
            reward=rollout.reward,
            passed=score.passed if score is not None else None,
            suspect=shown.line(score.suspect) if score is not None and score.suspect else "",
            answer=None if rollout.answer is None else self._answer(rollout.answer),
            feedback=ProseBlock(*shown(score.feedback)) if score is not None and score.feedback else None,
            components=tuple(
                ComponentFigures(shown.name(name), part.value, part.weight)
                for name, part in islice(score.components.items() if score is not None else (), MOST_FIGURES)
            ),
            metrics=_named(score.metrics.items() if score is not None else (), shown),
            seats=_named(score.seat_rewards.items() if score is not None else (), shown),
            judges=tuple(islice(self._judges(), MOST_FIGURES)),
            faults=tuple(
                FaultWords(f"{fault.boundary} in {fault.phase}: {shown.name(fault.type)}", *shown.told(fault.message))
                for fault in rollout.faults[:MOST_FIGURES]
            ),
            trainable=rollout.trainable,
            why_not="" if rollout.trainable else shown.told(rollout.trainable_reason or "no reason was recorded")[0],
            gaps=tuple(map(shown.name, rollout.gaps[:MOST_FIGURES])),
        )

    def model_call(self, call: ModelCall, who: str = "") -> JudgeCard:
        """A model call of the environment or of a verifier."""
        shown = self._shown
        return JudgeCard(
            who=who or shown.name(call.role.replace("_", " ")),
            words=ProseBlock(*shown(call.response.text if call.response is not None else "")),
            asked=tuple(
                SpeechCard(message.role, WHO[message.role], tuple(self._content(message)))
                for message in call.messages[-shown.most_cards :]
            ),
            model=shown.name(call.model),
            error=shown.told(call.error or "")[0],
            seconds=call.seconds,
            cost=call.cost,
        )

    def _judges(self) -> Iterator[JudgeCard]:
        score = self.rollout.score
        yield from (self.model_call(call) for call in self._other_calls)
        if score is None:
            return
        yield from (self.model_call(call, "judge" if call.role == "judge" else "") for call in score.judge_calls)
        yield from (JudgeCard("judge, of the whole", ProseBlock(words)) for words in self._credit.of_team)
        for seat in islice(score.seat_rewards, MOST_FIGURES):
            for words in self._credit.of_seat(seat):
                yield JudgeCard(f"judge, of {self._shown.name(seat)}", ProseBlock(words))

    def _answer(self, answer: str) -> CodeBlock | PlainBlock:
        (block, *_) = argument_blocks({"code": answer}, "", self._shown) if "\n" in answer.strip() else (None,)
        return block if isinstance(block, CodeBlock) else PlainBlock(*self._shown(answer or "(empty)"))

    def _facts(self, turn: Turn, before: int | None) -> Iterator[str]:
        if (said := follows(turn.parent_turn, before)) is not None:
            yield said
        if turn.model:
            yield self._shown.name(turn.model)
        if turn.usage.output_tokens:
            yield f"{short(turn.usage.output_tokens)} tokens"
        if turn.seconds:
            yield seconds(turn.seconds)
        if turn.reward is not None:
            yield f"reward {turn.reward:+g}"
        yield from span_words(self._spans.get(turn.index, ()))
        if turn.finish_reason:
            yield self._shown.name(turn.finish_reason.replace("_", " "))
        if turn.retries:
            yield f"{turn.retries:,} tries failed before"
        if turn.cost:
            yield dollars(turn.cost)

    def _message(self, message: Message, who: str, *, is_prompt: bool = False) -> Iterator[Card]:
        if message.reasoning:
            yield ThinkingCard(ProseBlock(*self._shown(message.reasoning)), len(message.reasoning))
        if blocks := tuple(self._content(message)):
            yield SpeechCard(message.role, who, blocks, is_prompt)

    def _content(self, message: Message) -> Iterator[Block]:
        if text := message.text:
            cut = self._shown(text)
            yield PlainBlock(*cut) if message.role == "tool" else ProseBlock(*cut)
        parts = () if isinstance(message.content, str) else message.content
        yield from (self._shown.media(part.mime_type, part.digest) for part in parts if isinstance(part, Media))

    def _person(self, told: Intervention) -> PersonCard:
        return PersonCard(PlainBlock(*self._shown(told.text)), self._shown.name(told.seat), told.at)

    def _request(self, request: ToolRequest) -> ToolCard:
        arguments: JsonValue = request.arguments
        return ToolCard(
            name=shown_name(request.name, self._shown),
            arguments=argument_blocks(arguments, request.name, self._shown),
            raw=PlainBlock(*raw_arguments(arguments, self._shown)),
            status="not run",
        )


WHO: dict[Speaker, str] = {"system": "system", "user": "user", "assistant": "agent", "tool": "tool result"}


def shown_name(name: str, shown: CardText) -> str:
    """The name of a tool; an agent may have called one without a name."""
    return shown.name(name) or "(no name)"


def follows(parent: int | None, before: int | None) -> str | None:
    """The turn that a turn follows, in words, unless that is the previous one."""
    if parent == before:
        return None
    return "begins anew" if parent is None else f"after {turn_number(parent)}"


def _named(items: Iterable[tuple[str, float]], shown: CardText) -> tuple[tuple[str, float], ...]:
    return tuple((shown.name(name), value) for name, value in islice(items, MOST_FIGURES))


def _placed(rollout: Rollout) -> tuple[dict[int, list[ModelCall]], Sequence[ModelCall]]:
    """The model calls of the environment by the turn before whose answer their text was said, and all others.

    A call has no time on record: its place is where the conversation has exactly its text, in the order of the calls.
    """
    if not rollout.role_calls:
        return {}, ()
    heard: dict[str, list[int]] = {}
    for turn in reversed(rollout.turns):
        for message in turn.messages:
            heard.setdefault(message.text.strip(), []).append(turn.index)
    placed: dict[int, list[ModelCall]] = {}
    others: list[ModelCall] = []
    for call in rollout.role_calls:
        text = call.response.text.strip() if call.response is not None else ""
        if text and (turns := heard.get(text)):
            placed.setdefault(turns.pop(), []).append(call)
        else:
            others.append(call)
    return placed, others
