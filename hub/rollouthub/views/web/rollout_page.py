"""The page of a rollout: its verdict and facts, its conversation, and the way to its neighbours."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from mcp_types import Tool

from rollouthub.errors import UnknownNameError
from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.availability import situation, why_not
from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import count, dollars, moment, number, seconds, turn_number
from rollouthub.text import plain, plain_name
from rollouthub.views.markup import Markup, join, table, tag
from rollouthub.views.terminal.outcome_styles import verdict_of
from rollouthub.views.web.links import Links
from rollouthub.views.web.notes_html import PageNotes
from rollouthub.views.web.opened_runs import OpenedRun
from rollouthub.views.web.page_frame import Crumb, page
from rollouthub.views.web.rollout_content import rollout_content
from rollouthub.views.web.row_query import RowQuery
from rollouthub.views.web.time_chart import time_chart
from rollouthub.views.web.verdict_marks import mark, reward, verdict_at

MOST_SAMPLES = 64
MOST_LISTED = 60
"""Most components, metrics, artifacts or turns that are listed."""
MOST_TEXT = 20_000


@dataclass(frozen=True)
class RolloutContext:
    """What the page of a rollout shows besides its record."""

    place: int
    """Index of its record in the run's columns."""
    attempts: Sequence[tuple[int, bool, Markup]]
    """Each attempt at the sample: its number, whether it counts, and its mark."""
    samples: Sequence[tuple[str, int, Markup]]
    """The samples of its task: rollout id, number and mark."""
    before: str | None = None
    """Id of the rollout before it in the list."""
    after: str | None = None
    where: str = ""
    """Its position in the list, in words."""
    tools: Sequence[Tool] = field(default_factory=tuple[Tool, ...])
    rewards: Sequence[float | None] = ()
    """The rewards of all samples of its task, its own included; None for a sample without one."""
    reasons: Sequence[str] = ()
    """Why a person should look at it."""


def read_rollout(
    opened: OpenedRun, rollout_id: str, attempt: int | None, query: RowQuery
) -> tuple[Rollout, RolloutContext]:
    """A record with what is around it.

    Raises:
        UnknownNameError: there is no such record.
        RunDirectoryError: it is damaged.
    """
    feed = opened.feed
    columns = feed.columns
    ids, tries, counts = columns.texts["rollout_id"], columns.wholes["attempt"], columns.effective
    mine = feed.places_of(rollout_id)
    place = next((at for at in mine if (counts[at] if attempt is None else tries[at] == attempt)), None)
    if place is None:
        if attempt is not None and mine:
            raise UnknownNameError(f"attempt of {rollout_id}", str(attempt), [str(tries[at]) for at in mine])
        raise UnknownNameError("rollout", rollout_id, ())
    (rollout,) = feed.records([place])
    group = columns.words["group_id"]
    counting = [at for at in group.rows(group.codes[place]) if counts[at]]
    samples = sorted(counting[:MOST_SAMPLES], key=lambda at: columns.wholes["sample"][at])
    found = opened.lists.find(query)
    position = found.rows.position(place)
    before = after = None
    where = ""
    if position is not None:
        before = ids[found.rows[position - 1]] if position else None
        after = ids[found.rows[position + 1]] if position + 1 < len(found.rows) else None
        where = f"{position + 1:,} of {len(found.rows):,}{' left to review' if query.review else ''}"
    elif query.review and len(found.rows):
        after, where = ids[found.rows[0]], f"{len(found.rows):,} left to review"
    tools: Sequence[Tool] = ()
    if rollout.tools_digest:
        try:
            tools = feed.reader.tools(rollout.tools_digest)
        except (UnknownNameError, ValueError):
            tools = ()
    return rollout, RolloutContext(
        place,
        [(tries[at], bool(counts[at]), mark(verdict_at(columns, at), counts=bool(counts[at]))) for at in mine],
        [(ids[at], columns.wholes["sample"][at], _sample_mark(columns, at)) for at in samples],
        before,
        after,
        where,
        tools,
        [None if (reward := columns.numbers["reward"][at]) != reward else reward for at in counting],
        feed.review.reasons(place) if feed.has_review else (),
    )


def _sample_mark(columns: AttemptColumns, place: int) -> Markup:
    return mark(verdict_at(columns, place))


def rollout_page(
    opened: OpenedRun,
    rollout: Rollout,
    context: RolloutContext,
    links: Links,
    query: RowQuery,
    *,
    notes: PageNotes,
    has_all_tokens: bool = True,
) -> str:
    """The whole page. `notes` is what people wrote on the rollout and its turns, with the forms to write more.

    Without `has_all_tokens` a long rollout has its first tokens, and a link to the page with all.
    """
    run = opened.name
    title = name_of(rollout)
    crumbs: list[Crumb] = [("runs", links.runs()), (run, links.run(run, replace(query, review=False)))]
    crumbs += [("review", links.run(run, query)), (title, None)] if query.review else [(title, None)]
    task = links.task(run, rollout.group_id)
    head = tag(
        "header",
        tag("h1", title),
        tag("p", _verdict(rollout), class_="verdict"),
        _around(links, run, context, query),
        tag("p", "To review: ", ", ".join(context.reasons), class_="soft") if context.reasons else None,
        _acting(opened, rollout, context, links),
        notes.section(),
        class_="rollout-head",
    )
    aside = tag(
        "aside",
        _samples(links, run, rollout, context, query, task),
        _attempts(links, run, rollout, context, query),
        _outline(rollout),
        aria_label="Around this rollout",
        class_="around",
    )
    content = rollout_content(
        rollout,
        tools=context.tools,
        media_url=lambda digest: links.media(run, digest) or "",
        turn_link=lambda turn: f"#turn-{turn + 1}",
        rewards=context.rewards if rollout.trainable else (),
        turn_notes=notes.of_turn,
        all_tokens=None if has_all_tokens else links.all_tokens(run, rollout.rollout_id, rollout.attempt, query),
        has_components=False,
    )
    body = tag(
        "div",
        aside,
        tag("div", _facts(rollout, links, run), tag("h2", "Conversation"), content, class_="talks"),
        class_="split",
    )
    return page(f"{title} · {plain_name(run)}", head, body, links=links, crumbs=crumbs, kind="rollout")


def name_of(rollout: Rollout) -> str:
    """A rollout's name for people: its task, sample, and the beginning of its id."""
    again = f", attempt {rollout.attempt}" if rollout.attempt else ""
    return f"{plain_name(rollout.task.id)}, sample {rollout.sample}{again} ({plain_name(rollout.rollout_id)[:8]})"


def _verdict(rollout: Rollout) -> Markup:
    score = rollout.score
    shown = verdict_of(rollout.outcome.kind, score.passed if score else None, rollout.reward)
    facts = [
        rollout.stop.value.replace("_", " "),
        count(len(rollout.turns), "turn"),
        seconds(rollout.timings.total),
    ]
    return join(
        mark(shown, has_word=True),
        tag("span", " reward ", reward(rollout.reward)) if score else " no reward",
        tag("span", f" · {' · '.join(facts)}", class_="soft"),
    )


def _around(links: Links, run: str, context: RolloutContext, query: RowQuery) -> Markup:
    """Links to the neighbours in the list that the reader came from."""
    items: list[Markup] = []
    for name, rollout, rel in (("← Previous", context.before, "prev"), ("Next →", context.after, "next")):
        address = None if rollout is None else links.rollout(run, rollout, query=query)
        items.append(tag("li", tag("a", name, href=address, rel=rel) if address else tag("span", name, class_="soft")))
    where = tag("li", context.where, class_="soft") if context.where else None
    return tag("nav", tag("ul", items[0], where, items[1]), aria_label="In the list", class_="beside")


def _acting(opened: OpenedRun, rollout: Rollout, context: RolloutContext, links: Links) -> Markup | None:
    """What a person may do with the rollout while its run plays."""
    if links.is_static or opened.feed.info.status != "running":
        return None
    now = situation(opened.watched, Target(rollout.rollout_id, rollout.attempt, context.place), is_web=True)
    reason = why_not("retry", now)
    if reason is not None:
        return None
    return tag(
        "p", tag("a", "Play it again …", href=links.action(opened.name, "retry", rollout.rollout_id), class_="button")
    )


def _samples(
    links: Links, run: str, rollout: Rollout, context: RolloutContext, query: RowQuery, task: str | None
) -> Markup | None:
    if len(context.samples) < 2:
        return None
    items = [
        tag(
            "li",
            tag(
                "a",
                sign,
                f" {sample}",
                href=links.rollout(run, each, query=query),
                aria_current="page" if each == rollout.rollout_id else None,
            ),
        )
        for each, sample, sign in context.samples
    ]
    title = tag("h2", tag("a", "Samples of the task", href=task) if task else "Samples of the task")
    return tag("section", title, tag("ul", items, class_="samples"))


def _attempts(links: Links, run: str, rollout: Rollout, context: RolloutContext, query: RowQuery) -> Markup | None:
    if len(context.attempts) < 2:
        return None
    items: list[Markup] = []
    for attempt, counts, sign in context.attempts:
        address = links.rollout(run, rollout.rollout_id, None if counts else attempt, query)
        words = f" attempt {attempt}{', counts' if counts else ''}"
        is_this = attempt == rollout.attempt
        items.append(tag("li", tag("a", sign, words, href=address, aria_current="page" if is_this else None)))
    return tag("section", tag("h2", "Attempts"), tag("ul", items, class_="attempts"))


def _outline(rollout: Rollout) -> Markup | None:
    """The turns, each with what it did."""
    if len(rollout.turns) < 2:
        return None
    seats = len({turn.agent for turn in rollout.turns}) > 1
    items: list[Markup] = []
    for turn in rollout.turns[:MOST_LISTED]:
        broke = any(call.is_error for call in turn.tool_calls)
        did = ", ".join(dict.fromkeys(plain_name(call.name)[:40] for call in turn.tool_calls[:6]))
        who = f"{plain_name(turn.agent)[:24]}: " if seats else ""
        said = f"{who}{did or plain_name(turn.response.text)[:60]}"
        words = (turn_number(turn.index), " ", tag("span", said, class_="soft"))
        sign = tag("span", " !", class_="t-red", title="a tool call failed") if broke else None
        items.append(tag("li", tag("a", *words, sign, href=f"#turn-{turn.index + 1}")))
    more = len(rollout.turns) - len(items)
    if more > 0:
        items.append(tag("li", f"and {more:,} more", class_="soft"))
    return tag("nav", tag("h2", "Turns"), tag("ol", items, class_="outline"), aria_label="Turns")


def _facts(rollout: Rollout, links: Links, run: str) -> Markup:
    """The score's parts, and on a click everything else of the record that is no conversation."""
    score = rollout.score
    parts: list[Markup | None] = []
    if score is not None:
        if score.suspect:
            parts.append(tag("p", f"Suspect: {plain(score.suspect, MOST_TEXT)}", class_="notice warn"))
        if score.components:  # the verdict below does not list them again
            rows = [
                [plain_name(name), number(part.value), f"× {part.weight:g}"]
                for name, part in islice(score.components.items(), MOST_LISTED)
            ]
            parts.append(table(["component", "value", "weight"], rows))
    if rollout.told:
        parts.append(tag("p", f"A person spoke to the agent {count(len(rollout.told), 'time')}.", class_="notice warn"))
    parts += [
        tag(
            "p",
            f"A fault of the {fault.boundary}, in stage {fault.phase}: {plain_name(fault.type)}: "
            f"{plain(fault.message, 2000)}",
            class_="notice bad",
        )
        for fault in rollout.faults[:8]
    ]
    more = tag("details", tag("summary", "Facts of the record"), _record(rollout, links, run), class_="facts")
    return tag("section", *parts, more, time_chart(rollout), class_="score")


def _record(rollout: Rollout, links: Links, run: str) -> Markup:
    timings = rollout.timings
    stages = ("queue", "setup", "agent", "model", "tool", "verify", "close")
    spent = ", ".join(f"{stage} {seconds(value)}" for stage in stages if (value := getattr(timings, stage)))
    costs = [turn.cost for turn in rollout.turns if turn.cost is not None]
    pairs: list[tuple[str, str | Markup]] = [
        ("rollout", tag("code", plain_name(rollout.rollout_id))),
        ("environment", f"{plain_name(rollout.environment.name)} {plain_name(rollout.environment.version)}"),
        ("task", f"{plain_name(rollout.task.split)} · {plain_name(rollout.task.id)}"),
        ("agent", f"{plain_name(rollout.agent.name)} {plain_name(rollout.agent.version)}"),
        ("model", plain_name(rollout.model or "none")),
        ("seed", str(rollout.seed)),
        ("outcome", f"{rollout.outcome.value.replace('_', ' ')}, {rollout.stop.value.replace('_', ' ')}"),
        ("began", moment(rollout.started_at)),
        ("time", f"{seconds(timings.total)}: {spent}" if spent else seconds(timings.total)),
        ("prompt tokens", f"{sum(turn.usage.prompt_tokens for turn in rollout.turns):,}"),
        ("output tokens", f"{sum(turn.usage.output_tokens for turn in rollout.turns):,}"),
        ("cost", dollars(sum(costs) if costs else None)),
        ("isolation", rollout.isolation),
        ("trainable", "yes" if rollout.trainable else plain_name(rollout.trainable_reason or "no")),
    ]
    if rollout.gaps:
        pairs.append(("not recorded", ", ".join(plain_name(gap) for gap in rollout.gaps[:MOST_LISTED])))
    if rollout.score is not None:
        figures = islice(rollout.score.metrics.items(), MOST_LISTED)
        pairs += [(plain_name(name), f"{value:g}") for name, value in figures]
        if rollout.score.verifier:
            pairs.append(("verifier", plain_name(f"{rollout.score.verifier.name} {rollout.score.verifier.version}")))
    for artifact in rollout.artifacts[:MOST_LISTED]:
        address = links.media(run, artifact.digest)
        name = plain_name(artifact.name)
        pairs.append(("artifact", tag("a", name, href=address) if address else name))
    if not links.is_static:
        address = links.rollout(run, rollout.rollout_id, rollout.attempt)
        pairs.append(("as JSON", tag("a", "the whole record", href=f"{address}&form=json")))
    return tag("dl", [join(tag("dt", term), tag("dd", value)) for term, value in pairs])


def rollout_json(rollout: Rollout) -> str:
    """The record as indented JSON."""
    return json.dumps(rollout.model_dump(mode="json"), indent=1, ensure_ascii=False)
