"""The page of a rollout in flight: its conversation so far, as its hub tells it, and what a person may do."""

from rollouthub.live.control.live_views import RolloutDetails, TurnView
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.availability import Action, situation, why_not
from rollouthub.statistics.amounts import clock, count, dollars, seconds, short, turn_number
from rollouthub.store import LiveState
from rollouthub.text import plain_name
from rollouthub.views.cards.card import TurnCards
from rollouthub.views.cards.card_html import cards_html, turn_head
from rollouthub.views.cards.card_text import CardText
from rollouthub.views.cards.live_cards import live_cards
from rollouthub.views.markup import Markup, join, tag
from rollouthub.views.web.links import Links
from rollouthub.views.web.opened_runs import OpenedRun
from rollouthub.views.web.page_frame import Crumb, page

_SHOWN = CardText(most=40_000)
_ACTIONS: dict[Action, str] = {"message": "Message …", "interrupt": "Score it now …", "cancel": "Cancel …"}


def flight_page(
    opened: OpenedRun, state: LiveState, shown: RolloutDetails | None, links: Links, events: str | None
) -> str:
    """The page of an attempt in flight; `shown` is its hub's report, None where no hub answers."""
    run = opened.name
    title = f"{plain_name(state.task_id)}, sample {state.sample} ({plain_name(state.rollout_id)[:8]})"
    crumbs: list[Crumb] = [("runs", links.runs()), (run, links.run(run)), (title, None)]
    head = tag(
        "header", tag("h1", title), flight_status(state, shown), _actions(opened, state, links), class_="rollout-head"
    )
    return page(title, head, flight_talk(shown), links=links, crumbs=crumbs, kind="flight", events=events)


def flight_fragment(state: LiveState, shown: RolloutDetails | None) -> str:
    """The parts that change, as a document of their own."""
    parts = join(flight_status(state, shown), flight_talk(shown))
    return f"<!doctype html><title>live</title><div id=live>{parts}</div>"


def flight_status(state: LiveState, shown: RolloutDetails | None) -> Markup:
    """Its stage, turns, tokens and time."""
    facts = [f"▸ {state.state}", turn_number(max(0, state.turn - 1)) if state.turn else "no turn yet"]
    facts.append(f"{short(state.output_tokens)} tokens")
    if shown is not None:
        facts += [clock(shown.seconds), *([dollars(shown.cost)] if shown.cost else [])]
    return tag("p", " · ".join(facts), class_="verdict t-cyan", id="status")


def _actions(opened: OpenedRun, state: LiveState, links: Links) -> Markup:
    now = situation(opened.watched, Target(state.rollout_id, state.attempt, None), is_web=True)
    items: list[Markup] = []
    for action, word in _ACTIONS.items():
        reason = why_not(action, now)
        address = links.action(opened.name, action, state.rollout_id)
        inner = (
            tag("a", word, href=address, class_="button") if reason is None else tag("span", word, class_="button off")
        )
        items.append(tag("li", inner, None if reason is None else tag("span", f" {reason}", class_="soft small")))
    return tag("ul", items, class_="steer", aria_label="Steer the rollout")


def flight_talk(shown: RolloutDetails | None) -> Markup:
    """The conversation so far."""
    if shown is None:
        words = "No hub answers for it: it plays elsewhere, has no socket, or has just ended. Reload the page."
        return tag("section", tag("p", words, class_="soft"), id="talk")
    by_index: dict[int | None, TurnView] = {turn.index: turn for turn in shown.turns}
    turns = [_turn(turn, by_index.get(turn.parent_turn)) for turn in shown.turns]
    left_out = f"{count(shown.turns_left_out, 'earlier turn')}, shown once the rollout has ended."
    first = tag("p", left_out, class_="soft") if shown.turns_left_out else None
    waits = tag("p", "Nothing was said yet; a turn is shown once the model has answered.", class_="soft")
    return tag("div", first, turns or waits, class_="conversation cards", id="talk")


def _turn(turn: TurnView, parent: TurnView | None) -> Markup:
    """A turn as it is shown once its rollout has ended."""
    errors = sum(call.outcome == "error" for call in turn.calls)
    head = TurnCards(turn.index, turn_number(turn.index), "", (seconds(turn.seconds),), errors, "", ())
    running = [
        tag("p", f"tool call {plain_name(name)} · running", class_="soft") for name in turn.asked[len(turn.calls) :]
    ]
    anchor = f"turn-{turn.index + 1}"
    inner = (turn_head(head, f"#{anchor}"), cards_html(live_cards(turn, parent, _SHOWN)), running)
    return tag("section", *inner, id=anchor, class_="turn")
