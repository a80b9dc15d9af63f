"""The score of a rollout as a document; without a score, why there is none."""

from collections.abc import Sequence
from functools import partial

from rich.text import Text

from rollouthub.rollout import Rollout
from rollouthub.score import Score, SpanReward
from rollouthub.statistics.amounts import count, number, turn_number
from rollouthub.views.cards.card import ComponentFigures
from rollouthub.views.cards.rollout_cards import RolloutCards
from rollouthub.views.terminal.span_words import span_words
from rollouthub_tui.widgets.rollout.card_pieces import MESSAGE_ROWS, SHOWN, block_piece, fault_pieces, judge_pieces
from rollouthub_tui.widgets.rollout.document import Piece, Section
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line
from rollouthub_tui.widgets.rollout.outcome_facts import Fact, Mates, mates_facts, outcome_facts, training_facts

_BAR = 24


def verdict(rollout: Rollout, mates: Mates | None) -> list[Section]:
    """The sections on a rollout's outcome and score."""
    card = RolloutCards(rollout, SHOWN).verdict()
    sections = [_section("outcome", "Outcome", _facts(outcome_facts(rollout)))]
    if card.components:
        sections.append(_section("components", "Components of the reward", _components(card.components)))
    if card.metrics:
        lines = [f"{name:<28} {value:g}" for name, value in card.metrics]
        sections.append(_section("metrics", "Metrics", [Text(line) for line in lines]))
    if rollout.score is not None and rollout.score.span_rewards:
        sections.append(_section("spans", "Rewards of spans", _spans(rollout.score)))
    if card.feedback is not None:
        piece = block_piece("feedback", card.feedback, None, indent=2, rows=MESSAGE_ROWS)
        sections.append(Section("feedback", _heading("Feedback of the verifier"), lambda: [piece]))
    if card.faults:
        faults = list(fault_pieces(card.faults))
        sections.append(Section("faults", _heading(count(len(card.faults), "fault")), lambda: faults))
    if mates is not None and len(mates.rewards) > 1:
        sections.append(_section("mates", "Samples of the same task", _facts(mates_facts(mates, rollout.reward))))
    sections.append(_section("training", "For training", _facts(training_facts(rollout))))
    if card.answer is not None:
        answer = block_piece("answer", card.answer, None, indent=2, rows=MESSAGE_ROWS)
        sections.append(Section("answer", _heading("Submitted answer"), lambda: [answer]))
    if card.judges:
        said = [piece for at, judge in enumerate(card.judges) for piece in judge_pieces(f"judge {at}", judge)]
        sections.append(Section("judges", _heading("Said by judges and other models"), lambda: said))
    return sections


def _heading(text: str) -> "partial[Text]":
    return partial(_draw_heading, text)


def _draw_heading(text: str, width: int, is_open: bool) -> Text:
    return Text(text, style="bold")


def _section(key: str, title: str, lines: Sequence[Text]) -> Section:
    return Section(
        key, _heading(title), lambda: [Piece(f"{key} {at}", line, indent=2) for at, line in enumerate(lines)]
    )


def _facts(facts: Sequence[Fact]) -> list[Text]:
    return [_fact(fact) for fact in facts]


def _fact(fact: Fact) -> Text:
    mark = f"{fact.mark} " if fact.mark else ""
    line = Text.assemble((f"{fact.name:<12}", "dim"), (f"{mark}{fact.value}", fact.style))
    return line.append(f"  {fact.remark}…", "dim") if fact.remark else line


def _components(parts: Sequence[ComponentFigures]) -> list[Text]:
    most = max(abs(part.value * part.weight) for part in parts)
    lines: list[Text] = []
    for part in parts:
        share = part.value * part.weight
        filled = round(_BAR * abs(share) / most) if most else 0
        lines.append(
            Text.assemble(
                f"{drawn_line(part.name, 24):<24} ",
                ("█" * filled, "red" if share < 0 else "green"),
                ("░" * (_BAR - filled), "dim"),
                f" {part.value:g} × {part.weight:g} = ",
                (number(share), "bold"),
            )
        )
    return lines


def _spans(score: Score) -> list[Text]:
    by_turn: dict[int, list[SpanReward]] = {}
    for span in score.span_rewards:
        by_turn.setdefault(span.turn, []).append(span)
    return [
        Text.assemble((f"{turn_number(index):<12}", "dim"), ", ".join(span_words(spans)))
        for index, spans in sorted(by_turn.items())
    ]
