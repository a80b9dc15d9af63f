"""What people noted on rollouts, as a section of a report."""

from collections.abc import Iterator

from rollouthub.statistics.amounts import count, number
from rollouthub.views.markup import Markup, table, tag
from rollouthub.views.note_words import turn_note_lines
from rollouthub.views.report.conversation_html import anchor_of
from rollouthub.views.report.report_facts import NotedRollout, RunReport

OPEN_NOTED = 12
"""Number of rollouts shown before the reader unfolds the rest."""


def notes(run: RunReport, anchor: str = "") -> Markup | None:
    """The section of noted rollouts, each linked to its transcript if the report has it; None without any.

    `anchor` begins the anchors of rollouts, as those of `transcripts`.
    """
    if not run.noted:
        return None
    there = {each.rollout_id for each in run.transcripts}
    rows = [_row(noted, anchor, is_there=noted.is_effective and noted.rollout_id in there) for noted in run.noted]
    titles = ["rollout", "task", "noted", "reward"]
    parts = [table(titles, rows[:OPEN_NOTED], words=3)]
    if len(rows) > OPEN_NOTED:
        more = table(titles, rows[OPEN_NOTED:], words=3)
        parts.append(tag("details", tag("summary", f"{len(rows) - OPEN_NOTED:,} more"), more, class_="told"))
    if run.noted_left_out:
        parts.append(tag("p", f"{count(run.noted_left_out, 'more rollout')} with notes.", class_="soft small"))
    return tag("section", tag("h2", "Notes"), parts)


def said_of(noted: NotedRollout) -> Iterator[str]:
    """The notes on a rollout in lines."""
    for part in noted.parts:
        yield from turn_note_lines(part.notes, "" if part.turn is None else f"turn {part.turn}: ")
    if noted.comments_left_out:
        yield count(noted.comments_left_out, "more comment")


def named(noted: NotedRollout) -> str:
    """The rollout's id; with its attempt if that does not count."""
    return noted.rollout_id if noted.is_effective else f"{noted.rollout_id}, attempt {noted.attempt}"


def _row(noted: NotedRollout, anchor: str, *, is_there: bool) -> list[str]:
    name = named(noted)
    link = tag("a", name, href=f"#{anchor_of(noted.rollout_id, anchor)}") if is_there else name
    return [link, noted.task, tag("div", "\n".join(said_of(noted)), class_="noted"), number(noted.reward)]
