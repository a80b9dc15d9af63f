"""The pages that ask before an action of a person, with the questions of the terminal, and say what came of it."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from rollouthub.errors import UsageError
from rollouthub.live.control.live_protocol import MOST_CONCURRENT
from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.availability import situation, why_not
from rollouthub.live.steering.control_requests import HubRequests, no_concurrency
from rollouthub.text import plain_name
from rollouthub.views.markup import Markup, tag
from rollouthub.views.web.links import Links
from rollouthub.views.web.opened_runs import OpenedRun
from rollouthub.views.web.page_frame import Crumb, page

WebAction = Literal["pause", "concurrency", "cancel", "interrupt", "message", "retry"]
ACTIONS: tuple[WebAction, ...] = get_args(WebAction)
LONGEST_MESSAGE = 20_000
_TITLES: dict[WebAction, str] = {
    "pause": "Pause the run",
    "concurrency": "Concurrency",
    "cancel": "Cancel a rollout",
    "interrupt": "Score a rollout now",
    "message": "Message an agent",
    "retry": "Play a sample again",
}


@dataclass
class WebPerson:
    """A person at a browser: asked on one page, heard on the next."""

    has_agreed: bool
    """Whether the form that asks was sent."""
    retry_word: str = "“Play it again” on its page"
    question: str = ""
    said: str = ""
    yes: str = ""
    heard: list[str] = field(default_factory=list[str])

    async def agrees(self, question: str, said: str, *, yes: str) -> bool:
        """Note the question; the form's answer is the answer."""
        self.question, self.said, self.yes = question, said, yes
        return self.has_agreed

    def hear(self, words: str, *, is_error: bool = False) -> None:
        """Note a message for the page."""
        self.heard.append(words)


@dataclass(frozen=True)
class ActionOrder:
    """An action of a person, and what it concerns."""

    action: WebAction
    rollout_id: str = ""
    text: str = ""
    """The message, or the number of episodes at a time."""

    @classmethod
    def of(cls, action: str, rollout_id: str, text: str = "") -> "ActionOrder":
        """Read what an address and a form say.

        Raises:
            UsageError: there is no such action.
        """
        known: WebAction | None = next((each for each in ACTIONS if each == action), None)
        if known is None:
            raise UsageError(f"there is no action {action[:40]!r}; there are {', '.join(ACTIONS)}")
        return cls(known, rollout_id, text.strip().replace("\r\n", "\n"))

    def target(self, columns: AttemptColumns) -> Target | None:
        """The rollout that is meant: in flight, or the attempt that counts."""
        if not self.rollout_id:
            return None
        ids = columns.texts["rollout_id"]
        places = [at for at, each in enumerate(ids) if each == self.rollout_id and columns.effective[at]]
        is_recorded = self.action == "retry" and places
        place = places[-1] if is_recorded else None
        return Target(self.rollout_id, 0 if place is None else columns.wholes["attempt"][place], place)

    def wrong(self) -> str | None:
        """What is wrong with the text; None if nothing is."""
        if self.action == "concurrency":
            return no_concurrency(self.text)
        if self.action == "message" and not self.text:
            return "write something"
        if self.action == "message" and len(self.text) > LONGEST_MESSAGE:
            return f"a message has at most {LONGEST_MESSAGE:,} characters, not {len(self.text):,}"
        return None


async def perform(opened: OpenedRun, order: ActionOrder, person: WebPerson) -> str | None:
    """Ask the run's hub for an action, or learn from it what is to be asked first; returns why it cannot be done.

    Raises:
        LiveControlError: the hub does not answer, or refuses.
        UsageError: it knows no such rollout.
    """
    target = order.target(opened.feed.columns)
    reason = why_not(order.action, situation(opened.watched, target, is_web=True))
    if reason is not None:
        return reason
    asks = HubRequests(person, opened.watched, target)
    match order.action:
        case "cancel":
            await asks.cancel()
        case "interrupt":
            await asks.interrupt()
        case _ if not person.has_agreed:
            pass
        case "pause":
            await asks.pause()
        case "concurrency":
            await asks.resize(int(order.text))
        case "message":
            await asks.message(order.text)
        case "retry":
            await asks.retry()
    return None


def asking_page(
    opened: OpenedRun,
    order: ActionOrder,
    person: WebPerson,
    links: Links,
    key: str,
    *,
    reason: str | None,
    wrong: str = "",
) -> str:
    """The page with the question; `reason` is why the action is not possible now, `wrong` what is wrong with a text."""
    run, name = opened.name, plain_name(order.rollout_id)
    title = _title(opened, order)
    back = _back(links, run, order)
    if reason is not None:
        parts: list[Markup | None] = [
            tag("h1", title),
            tag("p", reason, class_="notice warn"),
            tag("p", tag("a", "Back", href=back)),
        ]
        return page(title, tag("section", *parts), links=links, crumbs=_crumbs(links, run, title), kind="ask")
    question = person.question or _question(opened, order, name)
    field = _field(opened, order, wrong)
    form = tag(
        "form",
        tag("input", type="hidden", name="key", value=key),
        field,
        tag("p", wrong, class_="problem", role="alert", id="wrong") if wrong else None,
        tag(
            "p",
            tag("button", person.yes or "Do it", type="submit", class_="danger"),
            " ",
            tag("a", "No, go back", href=back, class_="button"),
        ),
        method="post",
        action=links.action(run, order.action, order.rollout_id),
    )
    said = tag("p", person.said, class_="soft") if person.said else None
    return page(
        title,
        tag("section", tag("h1", question), said, form),
        links=links,
        crumbs=_crumbs(links, run, title),
        kind="ask",
    )


def done_page(opened: OpenedRun, order: ActionOrder, words: str, links: Links, *, is_error: bool = False) -> str:
    """The page that says what came of an action."""
    title = _title(opened, order)
    notice = tag("p", words, class_=f"notice {'bad' if is_error else 'good'}", role="status")
    back = tag("p", tag("a", "Back", href=_back(links, opened.name, order), class_="button"))
    return page(
        title,
        tag("section", tag("h1", title), notice, back),
        links=links,
        crumbs=_crumbs(links, opened.name, title),
        kind="ask",
    )


def _title(opened: OpenedRun, order: ActionOrder) -> str:
    return "Resume the run" if order.action == "pause" and _is_paused(opened) else _TITLES[order.action]


def _is_paused(opened: OpenedRun) -> bool:
    view = opened.watched.view
    return view is not None and view.status == "paused"


def _question(opened: OpenedRun, order: ActionOrder, name: str) -> str:
    match order.action:
        case "pause":
            return "Let the run go on?" if _is_paused(opened) else "Pause the run? What is in flight goes on."
        case "concurrency":
            return "How many episodes at a time?"
        case "message":
            return f"What do you say to the agent of {name}?"
        case _:
            return f"Play {name} again?"


def _field(opened: OpenedRun, order: ActionOrder, wrong: str) -> Markup | None:
    is_wrong, told = ("true", "wrong") if wrong else (None, None)
    if order.action == "concurrency":
        view = opened.watched.view
        now = order.text or (str(view.concurrency) if view is not None and view.concurrency is not None else "")
        number = tag(
            "input", type="number", name="text", id="text", min="1", max=str(MOST_CONCURRENT), value=now,
            aria_invalid=is_wrong, aria_describedby=told, required=True,
        )  # fmt: skip
        return tag("p", tag("label", "Episodes at a time ", for_="text"), number)
    if order.action == "message":
        area = tag(
            "textarea", order.text, name="text", id="text", rows="5", cols="60", maxlength=str(LONGEST_MESSAGE),
            aria_invalid=is_wrong, aria_describedby=told, required=True,
        )  # fmt: skip
        note = tag(
            "p", "It arrives as a message of the user; the rollout's record keeps that a person helped.", class_="soft"
        )
        return tag("div", tag("label", "Message", for_="text"), area, note)
    return None


def _back(links: Links, run: str, order: ActionOrder) -> str:
    return (links.rollout(run, order.rollout_id) if order.rollout_id else None) or links.run(run)


def _crumbs(links: Links, run: str, title: str) -> list[Crumb]:
    return [("runs", links.runs()), (run, links.run(run)), (title, None)]
