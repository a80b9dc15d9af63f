"""Prints one rollout in full. Text of models and tools is printed literally, never as markup or control codes."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from rollouthub.rollout import Rollout, Turn
from rollouthub.statistics.amounts import count, seconds
from rollouthub.store.notes import NO_NOTES, RolloutNotes
from rollouthub.text import escaped, plain_name
from rollouthub.views.cards.card import TurnCards
from rollouthub.views.cards.card_text import CardText, CutText
from rollouthub.views.cards.rollout_cards import RolloutCards
from rollouthub.views.note_words import note_lines
from rollouthub.views.terminal.card_lines import Passage, passages, verdict_lines

_LABEL = 9
MARGIN = " " * (_LABEL + 1)


def _whole(text: str, most: int) -> CutText:
    """All of a text: who asks for one rollout gets all of it, with escapes for what no screen should get."""
    return escaped(text), 0


WHOLE = CardText(cut=_whole, ours=_whole, most_cards=1_000_000)


def print_rollout(console: Console, rollout: Rollout, notes: RolloutNotes = NO_NOTES) -> None:
    """Print what people noted and the conversation, then how it was scored and how long it took."""
    for line in _heading(rollout):
        console.print(line)
    for line in note_lines(notes):
        console.print(Text(line, style="yellow"))
    cards = RolloutCards(rollout, WHOLE)
    for place, turn in enumerate(rollout.turns):
        _print_turn(console, turn, cards.turn(place))
    console.print()
    for line in verdict(rollout, cards):
        console.print(line)
    timings = rollout.timings.model_dump()
    total = timings.pop("total")
    stages = ", ".join(f"{stage} {seconds(spent)}" for stage, spent in timings.items() if spent)
    console.print(Text(f"{seconds(total)}: {stages}", style="dim"))


def _heading(rollout: Rollout) -> Iterator[Text]:
    task, environment = rollout.task, rollout.environment
    yield Text(f"{rollout.rollout_id}  attempt {rollout.attempt}", style="bold")
    yield Text(f"{environment.name} {environment.version}  {environment.digest}")
    if environment.bundle is not None:
        yield Text(f"bundle {environment.bundle}", style="dim")
    yield Text(f"task {task.id}  split {task.split}  {task.digest}  seed {rollout.seed}")
    yield Text(f"agent {rollout.agent.name} {rollout.agent.version}  model {rollout.model or 'none'}")
    for seat, player in rollout.seats.items():
        version = "" if player.version is None else f"  version {player.version}"
        yield Text(f"seat {seat}: {player.agent.name} {player.agent.version}  model {player.model or 'none'}{version}")
    if rollout.isolation not in ("in_process", "process"):
        reached = f", open to {' and '.join(rollout.openings)}" if rollout.openings else ""
        yield Text(f"environment behind a wall: {rollout.isolation}{reached}")
    for ref in rollout.sandboxes:
        where = f"{ref.provider}, {ref.walls}" + (f", {ref.engine}" if ref.engine else "")
        yield Text(f"sandbox {where}  {ref.profile}  network {ref.network}  {ref.image or ''}".rstrip())


def _print_turn(console: Console, turn: Turn, shown: TurnCards) -> None:
    facts = [plain_name(turn.agent), *shown.facts]
    if turn.usage.prompt_tokens:
        facts.append(count(turn.usage.prompt_tokens, "prompt token"))
    if turn.output_token_ids is not None:
        facts.append(f"{len(turn.output_token_ids):,} engine ids")
    console.print()
    title = Text(f"── {shown.number} · {' · '.join(facts)}", style="dim")
    if shown.errors:
        title.append(f" · {count(shown.errors, 'error')}", "red")
    console.print(title)
    for card in shown.cards:
        for passage in passages(card):
            _print_passage(console, passage)


def _print_passage(console: Console, passage: Passage) -> None:
    """Print a label with the text beside it; continuation lines are indented to the text."""
    label, text, style = passage
    if len(label) > _LABEL:
        console.print(Text(f"{label}:", f"bold {style}"))
        label = ""
    text.stylize_before(style)
    for index, line in enumerate(text.wrap(console, max(20, console.width - len(MARGIN)))):
        line.rstrip()
        beginning = (f"{label:>{_LABEL}} ", f"bold {style}") if index == 0 else MARGIN
        console.print(Text.assemble(beginning, line), soft_wrap=True)


def verdict(rollout: Rollout, cards: RolloutCards | None = None) -> Iterator[Text]:
    """Lines on how a rollout ended, its score, its answer and its errors."""
    return verdict_lines((cards or RolloutCards(rollout, WHOLE)).verdict())
