"""A rollout's full record that a notebook displays as HTML."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import PrivateAttr

from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import NONE, number, seconds
from rollouthub.store.notes import NO_NOTES, RolloutNotes
from rollouthub.views.cards.card_html import cards_html, turn_head, verdict_html
from rollouthub.views.cards.card_style import NOTEBOOK_STYLE
from rollouthub.views.cards.card_text import CardText
from rollouthub.views.cards.embedded_pictures import EmbeddedPictures
from rollouthub.views.cards.rollout_cards import RolloutCards
from rollouthub.views.markup import Markup, tag
from rollouthub.views.note_words import note_lines
from rollouthub.views.notebook import notebook_html

_TEXT_CHARACTERS = 20_000
"""Most characters of one message or result."""
_PAGE_CHARACTERS = 1_000_000
_OPEN_TURNS = 3
_MOST_CARDS = 100


class RolloutPage(Rollout):
    """A stored record that a notebook displays as HTML."""

    _directory: Path | None = PrivateAttr(default=None)
    _notes: RolloutNotes = PrivateAttr(default=NO_NOTES)
    """The notes of people, of which `notes` is the JSON."""

    def _repr_html_(self) -> str:
        shown = CardText(most=_TEXT_CHARACTERS, most_cards=_MOST_CARDS)
        if self._directory is not None:
            pictures = EmbeddedPictures(self._directory)
            shown = CardText(media=pictures.show, most=_TEXT_CHARACTERS, most_cards=_MOST_CARDS)
        cards = RolloutCards(self, shown)
        title = notebook_html.heading(f"{self.rollout_id}, attempt {self.attempt}")
        conversation = tag("div", _turns(cards), verdict_html(cards.verdict()), class_="cards")
        facts = notebook_html.facts(_facts(self))
        noted = notebook_html.noted(note_lines(self._notes)) if self._notes else None
        return notebook_html.page(tag("style", Markup(NOTEBOOK_STYLE)), title, noted, facts, conversation)


def shown(rollout: Rollout, directory: Path | None = None, notes: RolloutNotes = NO_NOTES) -> RolloutPage:
    """The same record as a `RolloutPage`, with what people noted; its pictures are read in the run's directory."""
    noted = notes.as_json() if notes else None
    fields = {name: getattr(rollout, name) for name in type(rollout).model_fields if name != "notes"}
    page = RolloutPage.model_construct(**fields, notes=noted)
    page._directory = directory  # pyright: ignore[reportPrivateUsage]  # model_construct takes fields only
    page._notes = notes  # pyright: ignore[reportPrivateUsage]
    return page


def _facts(rollout: Rollout) -> Iterator[tuple[str, object]]:
    environment, score = rollout.environment, rollout.score
    yield "environment", f"{environment.name} {environment.version} {environment.digest}"
    yield "task", f"{rollout.task.id} ({rollout.task.split}), sample {rollout.sample}, seed {rollout.seed}"
    yield "agent", f"{rollout.agent.name} {rollout.agent.version}, model {rollout.model or 'none'}"
    yield "outcome", f"{rollout.outcome.value}, stopped: {rollout.stop.value}"
    yield "reward", NONE if score is None else number(score.reward)
    if score is not None and score.passed is not None:
        yield "passed", "yes" if score.passed else "no"
    stages = ((name, spent) for name, spent in rollout.timings.model_dump().items() if spent)
    yield "time", ", ".join(f"{name} {seconds(spent)}" for name, spent in stages)


def _turns(cards: RolloutCards) -> Iterator[Markup]:
    left, turns = _PAGE_CHARACTERS, cards.rollout.turns
    for place in range(len(turns)):
        if left <= 0:
            yield notebook_html.heading(f"… and {len(turns) - place} more turns, which are in .turns")
            return
        turn = cards.turn(place)
        head = tag("summary", turn_head(turn), tag("span", turn.gist, class_="soft gist"))
        shown_turn = tag("details", head, cards_html(turn.cards), class_="turn", open=place < _OPEN_TURNS)
        left -= len(shown_turn)
        yield shown_turn
