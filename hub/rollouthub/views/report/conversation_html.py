"""Transcripts as HTML: conversations that open on a click, or by their address."""

from rollouthub.statistics.amounts import count, number, seconds
from rollouthub.views.cards.card import NoteCard
from rollouthub.views.cards.card_html import card_html, cards_html, turn_head, verdict_html
from rollouthub.views.markup import Markup, join, tag
from rollouthub.views.report.report_facts import RunReport
from rollouthub.views.report.rollout_text import Transcript

_TITLES = {"worst": "The lowest rewards", "best": "The highest rewards", "unscored": "Not scored"}


def transcripts(run: RunReport, anchor: str = "") -> Markup | None:
    """The section with transcripts of the worst, the best and the unscored rollouts; None without any.

    `anchor` begins the anchors of rollouts, to tell those of several runs apart.
    """
    if not run.transcripts:
        return None
    chosen = {each.chosen for each in run.transcripts}
    parts: list[Markup] = []
    for kind, title in _TITLES.items():
        if kind in chosen:
            # Where all rewards are alike, none is the best.
            said = "Some of the rollouts, all of one reward" if kind == "best" and len(run.rewards) == 1 else title
            parts.append(tag("h3", said))
            parts += [transcript_html(each, anchor) for each in run.transcripts if each.chosen == kind]
    return tag("section", tag("h2", "Transcripts"), parts)


def anchor_of(rollout_id: str, anchor: str = "") -> str:
    """The anchor of a rollout's transcript."""
    return f"{anchor}rollout-{rollout_id.replace(' ', '-')}"


def transcript_html(transcript: Transcript, anchor: str) -> Markup:
    """One conversation, under a line that opens it; for `anchor` see `transcripts`."""
    reward = "no reward" if transcript.reward is None else f"reward {number(transcript.reward)}"
    mark = "bad" if transcript.reward is None or transcript.passed is False else "good" if transcript.passed else "warn"
    head = tag(
        "summary",
        tag("span", reward, class_=f"chip {mark}"),
        " ",
        tag("b", transcript.task),
        tag(
            "span",
            f" · sample {transcript.sample} · {transcript.outcome}, {transcript.stop}"
            f" · {count(transcript.turns, 'turn')}",
            class_="soft",
        ),
    )
    name = anchor_of(transcript.rollout_id, anchor)
    facts = [
        ("rollout", tag("a", transcript.rollout_id, href=f"#{name}")),
        ("environment", transcript.environment),
        ("took", f"{seconds(transcript.seconds)}, {transcript.output_tokens:,} output tokens"),
        ("fault", transcript.fault if transcript.verdict is None else None),
    ]
    said = [join(tag("dt", term), tag("dd", value)) for term, value in facts if value]
    parts = [
        card_html(part)
        if isinstance(part, NoteCard)
        else tag("div", turn_head(part), cards_html(part.cards), class_="turn")
        for part in transcript.cards
    ]
    verdict = None if transcript.verdict is None else verdict_html(transcript.verdict)
    # The anchor is inside: a browser opens what holds the element that an address names.
    return tag("details", head, tag("div", tag("dl", said, class_="fields"), parts, verdict, class_="cards", id=name),
               class_="task")  # fmt: skip
