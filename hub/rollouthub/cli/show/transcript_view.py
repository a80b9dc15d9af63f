"""Prints one rollout in full. Text of models and tools is printed literally, never as markup or control codes."""

import json
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from rollouthub.messages import Message, media_of
from rollouthub.rollout import Rollout, ToolCall, Turn
from rollouthub.score import SpanReward
from rollouthub.statistics.amounts import seconds, turn_number
from rollouthub.store.notes import NO_NOTES, RolloutNotes
from rollouthub.text import escaped
from rollouthub.views.credit_words import CreditWords
from rollouthub.views.note_words import note_lines
from rollouthub.views.terminal.span_words import span_words

_STYLE = {"system": "dim", "user": "cyan", "assistant": "green", "tool": "yellow"}
MARGIN = " " * 10


def print_rollout(console: Console, rollout: Rollout, notes: RolloutNotes = NO_NOTES) -> None:
    """Print what people noted and the conversation, then how it was scored and how long it took."""
    task, environment = rollout.task, rollout.environment
    console.print(Text(f"{rollout.rollout_id}  attempt {rollout.attempt}", style="bold"))
    console.print(Text(f"{environment.name} {environment.version}  {environment.digest}"))
    if environment.bundle is not None:
        console.print(Text(f"bundle {environment.bundle}", style="dim"))
    console.print(Text(f"task {task.id}  split {task.split}  {task.digest}  seed {rollout.seed}"))
    console.print(Text(f"agent {rollout.agent.name} {rollout.agent.version}  model {rollout.model or 'none'}"))
    for seat, player in rollout.seats.items():
        version = "" if player.version is None else f"  version {player.version}"
        console.print(
            Text(f"seat {seat}: {player.agent.name} {player.agent.version}  model {player.model or 'none'}{version}")
        )
    if rollout.isolation not in ("in_process", "process"):
        reached = f", open to {' and '.join(rollout.openings)}" if rollout.openings else ""
        console.print(Text(f"environment behind a wall: {rollout.isolation}{reached}"))
    for ref in rollout.sandboxes:
        where = f"{ref.provider}, {ref.walls}" + (f", {ref.engine}" if ref.engine else "")
        console.print(Text(f"sandbox {where}  {ref.profile}  network {ref.network}  {ref.image or ''}".rstrip()))
    for line in note_lines(notes):
        console.print(Text(line, style="yellow"))
    spans = () if rollout.score is None else rollout.score.span_rewards
    credit = CreditWords(rollout.score)
    for turn in rollout.turns:
        _print_turn(console, turn, [span for span in spans if span.turn == turn.index], credit.of_turn(turn.index))
    console.print()
    console.print(Text(f"{rollout.outcome.value}, stopped: {rollout.stop.value}", style="bold"))
    for line in verdict(rollout):
        console.print(Text(line))
    if not rollout.trainable:
        console.print(Text(f"not trainable: {rollout.trainable_reason}"))
    timings = rollout.timings.model_dump()
    total = timings.pop("total")
    stages = ", ".join(f"{stage} {seconds(spent)}" for stage, spent in timings.items() if spent)
    console.print(Text(f"{seconds(total)}: {stages}", style="dim"))


def _print_turn(console: Console, turn: Turn, spans: Sequence[SpanReward], credit: Sequence[str]) -> None:
    parent = "" if turn.parent_turn is None else f", after {turn_number(turn.parent_turn)}"
    console.print()
    console.print(Text(f"── {turn_number(turn.index)} ({turn.agent}{parent})", style="dim"))
    for message in turn.messages:
        if message.role != "tool":
            _print_message(console, message)
    _print_message(console, turn.response)
    for call in turn.tool_calls:
        _print_call(console, call)
    facts = [f"{turn.usage.prompt_tokens}+{turn.usage.output_tokens} tokens"] if turn.finish_reason else []
    if turn.output_token_ids is not None:
        facts.append(f"{len(turn.output_token_ids)} ids from the engine")
    if turn.retries:
        facts.append(f"{turn.retries} retries")
    if turn.reward is not None:
        facts.append(f"reward {turn.reward:+g}")
    facts += span_words(spans)
    if facts:
        console.print(Text(MARGIN + ", ".join(facts), style="dim"))
    for words in credit:
        _print_block(console, "judge", words, "dim")


def _print_message(console: Console, message: Message) -> None:
    if message.reasoning:
        _print_block(console, "thinks", message.reasoning, "dim")
    shown = "\n".join([message.text, *(f"[{part.mime_type} {part.digest[:19]}…]" for part in media_of([message]))])
    if shown or not message.tool_requests:
        _print_block(console, message.role, shown.strip("\n"), _STYLE[message.role])


def _print_call(console: Console, call: ToolCall) -> None:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    _print_block(console, "calls", f"{call.name} {arguments}", "magenta")
    texts = [getattr(block, "text", f"[{block.type}]") for block in call.result.content]
    label = "error" if call.is_error else "result"
    _print_block(console, label, "\n".join(texts), "red" if call.is_error else "yellow")
    console.print(Text(f"{MARGIN}{call.seconds * 1000:.2f} ms, {call.bytes} bytes", style="dim"))


def _print_block(console: Console, label: str, text: str, style: str) -> None:
    """Print a label with the text beside it; continuation lines are indented to the text."""
    words = Text(escaped(text), style=style)
    for index, line in enumerate(words.wrap(console, max(20, console.width - len(MARGIN)))):
        line.rstrip()
        beginning = (f"{label:>9} ", f"bold {style}") if index == 0 else MARGIN
        console.print(Text.assemble(beginning, line), soft_wrap=True)


def verdict(rollout: Rollout) -> Iterable[str]:
    """Lines on the rollout's score, its answer and its errors."""
    score = rollout.score
    if score is not None:
        passed = "" if score.passed is None else ", passed" if score.passed else ", not passed"
        yield f"reward {score.reward:g}{passed}"
        if score.suspect:
            yield f"suspect: {escaped(score.suspect)}"
        credit = CreditWords(score)
        for words in credit.of_team:
            yield f"  judge: {words}"
        for seat, reward in score.seat_rewards.items():
            yield f"  seat {escaped(seat)}: {reward:g}"
            for words in credit.of_seat(seat):
                yield f"    judge: {words}"
        for name, part in score.components.items():
            yield f"  {name}: {part.value:g} × {part.weight:g}"
        for name, value in score.metrics.items():
            yield f"  {name} = {value:g}"
        if score.feedback:
            yield f"  {escaped(score.feedback)}"
    if rollout.answer is not None:
        yield f"submitted: {escaped(rollout.answer)}"
    for fault in rollout.faults:
        yield f"fault in {fault.boundary} during {fault.phase}: {escaped(fault.message)}"
