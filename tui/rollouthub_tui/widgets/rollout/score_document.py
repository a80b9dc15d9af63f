"""The score of a rollout as a document; without a score, why there is none."""

from collections.abc import Iterator, Sequence
from functools import partial

from rich.text import Text

from rollouthub.rollout import Rollout
from rollouthub.score import ModelCall, Score, SpanReward
from rollouthub.statistics.amounts import count, dollars, number, seconds, short, turn_number
from rollouthub.views.credit_words import CreditWords
from rollouthub.views.terminal.span_words import span_words
from rollouthub_tui.widgets.rollout.document import Piece, Section
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line
from rollouthub_tui.widgets.rollout.outcome_facts import Fact, Mates, mates_facts, outcome_facts, training_facts
from rollouthub_tui.widgets.rollout.transcript import MESSAGE_ROWS, fault_pieces, judged, said

_BAR = 24


def verdict(rollout: Rollout, mates: Mates | None) -> list[Section]:
    """The sections on a rollout's outcome and score."""
    sections = [_section("outcome", "Outcome", _facts(outcome_facts(rollout)))]
    score = rollout.score
    if score is not None:
        if score.components:
            sections.append(_section("components", "Components of the reward", _components(score)))
        if score.metrics:
            lines = [f"{drawn_line(name, 60):<28} {value:g}" for name, value in score.metrics.items()]
            sections.append(_section("metrics", "Metrics", [Text(line) for line in lines]))
        if score.span_rewards:
            sections.append(_section("spans", "Rewards of spans", _spans(score)))
        if credit := list(_credit(score)):
            sections.append(Section("credit", _heading("Words of the judge"), lambda: credit))
        if score.feedback:
            feedback = score.feedback
            sections.append(
                Section(
                    "feedback",
                    lambda width, is_open: Text("Feedback of the verifier", style="bold"),
                    lambda: [Piece("feedback", feedback, folded_rows=MESSAGE_ROWS, indent=2)],
                )
            )
    if rollout.faults:
        sections.append(
            Section("faults", _heading(count(len(rollout.faults), "fault")), partial(fault_pieces, rollout))
        )
    if mates is not None and len(mates.rewards) > 1:
        sections.append(_section("mates", "Samples of the same task", _facts(mates_facts(mates, rollout.reward))))
    sections.append(_section("training", "For training", _facts(training_facts(rollout))))
    if rollout.answer is not None:
        answer = rollout.answer
        piece = Piece("answer", answer or "(empty)", folded_rows=MESSAGE_ROWS, indent=2)
        sections.append(Section("answer", _heading("Submitted answer"), lambda: [piece]))
    if score is not None:
        sections += _calls(score.judge_calls, "Judge call")
    sections += _calls(rollout.role_calls, "Call of the environment")
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


def _components(score: Score) -> list[Text]:
    most = max((abs(part.value * part.weight) for part in score.components.values()), default=0.0)
    lines: list[Text] = []
    for name, part in score.components.items():
        share = part.value * part.weight
        filled = round(_BAR * abs(share) / most) if most else 0
        lines.append(
            Text.assemble(
                f"{drawn_line(name, 24):<24} ",
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


def _credit(score: Score) -> Iterator[Piece]:
    """What judges say on the whole and on each seat; what they say on a turn stands at the turn."""
    credit = CreditWords(score)
    yield from judged("team", "the whole", credit.of_team)
    for seat in score.seat_rewards:
        yield from judged(f"seat {seat}", f"seat {drawn_line(seat, 24)}", credit.of_seat(seat))


def _calls(calls: Sequence[ModelCall], title: str) -> Iterator[Section]:
    for place, call in enumerate(calls):
        yield Section(
            (title, place),
            partial(_call_title, f"{title} {place + 1}", call),
            partial(_call_pieces, call),
            len(calls) < 5,
        )


def _call_title(title: str, call: ModelCall, width: int, is_open: bool) -> Text:
    cost = f" · {dollars(call.cost)}" if call.cost is not None else ""
    told = Text.assemble(
        (title, "bold"),
        f" · {drawn_line(call.role, 24)} · {drawn_line(call.model, 40)} · {short(call.prompt_tokens)} + "
        f"{short(call.output_tokens)} tokens · {seconds(call.seconds)}{cost}",
    )
    if call.error is not None:
        told.append(" · failed", "bold red")
    told.truncate(width, overflow="ellipsis")
    return told


def _call_pieces(call: ModelCall) -> list[Piece]:
    pieces = [
        said(f"message {at}", message.role, message.role, message.text) for at, message in enumerate(call.messages)
    ]
    if call.response is not None:
        pieces.append(said("reply", "reply", "assistant", call.response.text))
    if call.error is not None:
        pieces.append(Piece("error", call.error, head=Text("it failed", style="red")))
    return pieces
