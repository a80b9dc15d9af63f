"""The open rollout: its outcome, conversation, score and times."""

import re
from collections.abc import Iterator, Sequence

from rollouthub.errors import UnknownNameError, UsageError
from rollouthub.live.control.live_views import RolloutDetails
from rollouthub.live.steering.action_target import Target
from rollouthub.plugins.extras import pip_install
from rollouthub.store.notes import RolloutNotes
from rollouthub.views.note_words import note_facts, note_lines
from rollouthub_tui.text.documents import head_of, score_lines, section_lines, timing_lines, title_of
from rollouthub_tui.text.pages import in_pages
from rollouthub_tui.text.position import Position
from rollouthub_tui.text.speakable_text import sentence
from rollouthub_tui.widgets.rollout.document import Section
from rollouthub_tui.widgets.rollout.live_transcript import LiveTranscript
from rollouthub_tui.widgets.rollout.outcome_facts import Mates
from rollouthub_tui.widgets.rollout.rollout_heading import crumb_line, live_line, lost_line, record_line
from rollouthub_tui.widgets.rollout.transcript import transcript

PARTS = ("conversation", "score", "timings", "notes")
_BEFORE, _AFTER = 60, 140
"""Characters shown before and after a match."""


async def open_rollout(session: Position, target: Target) -> None:
    """Describe the rollout: its task and sample, and its result or current stage."""
    session.target = target
    run = session.here
    if target.place is None:
        state = next((each for each in run.feed.live if each.rollout_id == target.rollout_id), None)
        named = (state.environment, state.task_id, state.sample) if state else ("", "", 0)
        how = await _live_words(session, target)
    else:
        rollout = (await session.record()).rollout
        named = (rollout.environment.name, rollout.task.id, rollout.sample)
        how = sentence(record_line(rollout).plain)
    environment, task, sample = named
    where = crumb_line(environment, "", task, sample, target.attempt, target.rollout_id, "", None)
    session.output.say(sentence(where.plain.replace("›", "·")))
    session.output.say(how)
    if noted := note_facts(_notes(session, target)):
        session.output.say(f"noted: {', '.join(noted)}; show notes reads them")
    session.output.say("show reads what was said and done; show score and show timings tell the rest.")


def _notes(session: Position, target: Target) -> RolloutNotes:
    return session.here.feed.notes.of(target.rollout_id, target.attempt)


async def _live_words(session: Position, target: Target) -> str:
    run = session.here
    if run.is_steered:
        try:
            return sentence(live_line(await _ask(session, target, content=False)).plain)
        except UnknownNameError:
            pass  # it ended a moment ago: what the store says comes next
    state = next((each for each in run.feed.live if each.rollout_id == target.rollout_id), None)
    return sentence(lost_line(state, run.feed.info.status == "running").plain)


async def _ask(session: Position, target: Target, *, content: bool) -> RolloutDetails:
    return await session.here.ask(lambda hub: hub.show(target.rollout_id, content=content))


async def show(session: Position, rest: str) -> None:
    """Show the conversation, score, times or notes of the open rollout, or of another one."""
    words = rest.split()
    part = _part(words.pop()) if words and _part(words[-1]) else PARTS[0]
    if words:
        if len(words) > 1:
            raise UsageError(f"show what? Say a number or an id, and one of {', '.join(PARTS)}")
        session.target = session.meant(words[0])
    target = session.this
    if part == "conversation":
        session.read(section_lines(await _sections(session, target)))
        return
    if part == "notes":
        lines = [sentence(line) for line in note_lines(_notes(session, target))]
        session.read(in_pages(lines or ["nothing is noted"]))
        return
    if target.place is None:
        raise UsageError(f"its {part} is known once it has ended")
    rollout = (await session.record()).rollout
    if part == "score":
        session.read(in_pages(_flat(score_lines(rollout, Mates.of(session.here.feed.columns, target.place)))))
    else:
        session.read(in_pages(_flat(timing_lines(rollout))))


def _part(word: str) -> str | None:
    return next((part for part in PARTS if part.startswith(word)), None)


def _flat(stretches: Iterator[Sequence[str]]) -> Iterator[str]:
    for stretch in stretches:
        yield from stretch


async def _sections(session: Position, target: Target) -> Sequence[Section]:
    """The sections of the conversation, from the record or, in flight, from the hub."""
    if target.place is None:
        return LiveTranscript().sections(await _ask(session, target, content=True))
    return transcript((await session.record()).rollout)


async def find_within(session: Position, pattern: str) -> None:
    """List matches of a pattern in the conversation of the open rollout.

    Raises:
        UsageError: the package for searches with a time limit is not installed.
    """
    try:
        from rollouthub_tui.widgets.rollout.text_search import Matches, pattern_of
    except ModuleNotFoundError as error:
        raise UsageError(
            f"to find something in one rollout, {error.name} is needed: run `{pip_install('tui')}`; "
            "back goes to the run, whose transcripts can be searched"
        ) from error
    sections = await _sections(session, session.this)
    matches = Matches.of(pattern_of(pattern), sections)
    said = f"{len(matches.found):,}{'' if matches.is_all else ' or more'} found"
    session.output.say(f"{said}." if matches.found else f"{pattern!r} is not in it.")
    session.read(in_pages(_around(sections, match.section, match.piece, match.start) for match in matches.found))


def _around(sections: Sequence[Section], section: int, piece: int, start: int) -> str:
    found = sections[section].pieces[piece]
    words = found.text[max(0, start - _BEFORE) : start + _AFTER]
    where = title_of(sections[section]).partition(",")[0]
    head = head_of(found).partition(",")[0]
    return ", ".join(part for part in (where, head) if part) + ": " + re.sub(r"\s+", " ", words).strip()
