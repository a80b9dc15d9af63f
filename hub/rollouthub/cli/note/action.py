"""What `hub note` does: adds a note to a rollout or to all that match a filter, and prints what is noted."""

import json
import sys
from dataclasses import replace
from pathlib import Path

from rich.text import Text

from rollouthub.cli.console import remarks, results, warn
from rollouthub.cli.show.command import find_rollout
from rollouthub.errors import ConfigError
from rollouthub.live.follow.run_feed import RunFeed
from rollouthub.statistics.amounts import count
from rollouthub.store import open_run
from rollouthub.store.notes import NoteChange, RunNotes, add
from rollouthub.text import escaped, plain_name
from rollouthub.views.note_words import note_lines


def note_one(
    directory: Path,
    name: str,
    attempt: int | None,
    change: NoteChange | None,
    turn: int | None,
    by: str | None,
    *,
    as_json: bool,
) -> None:
    """Add a note to a rollout or a turn of it, if there is one to add, and print all notes on the rollout.

    Raises:
        UsageError: there is no such rollout or turn, the note is not valid, or the run cannot be written.
        StoreError: the note could not be written.
    """
    with open_run(directory) as reader:
        record = find_rollout(reader, name, attempt)
    if turn is not None and turn > len(record.turns):
        raise ConfigError(f"{record.rollout_id} has no turn {turn}; it has {count(len(record.turns), 'turn')}")
    if change is not None:
        add(directory, replace(change, rollout_id=record.rollout_id, attempt=record.attempt), by=by)
    kept = RunNotes.read(directory)
    notes = kept.of(record.rollout_id, record.attempt)
    if as_json:
        facts = {"rollout_id": record.rollout_id, "attempt": record.attempt, **notes.as_json()}
        sys.stdout.write(escaped(json.dumps(facts, ensure_ascii=False)) + "\n")
        return
    console = results()
    console.print(Text(f"{plain_name(record.rollout_id)}  attempt {record.attempt}", style="bold"))
    for line in note_lines(notes) if notes else ("nothing is noted",):
        console.print(Text(line))
    if kept.problem:
        remarks().print(Text(kept.problem, style="yellow"))


def note_matching(directory: Path, where: str, change: NoteChange, by: str | None, *, as_json: bool) -> bool:
    """Add a note to every rollout that matches a filter; returns whether any does.

    Raises:
        UsageError: the filter or the note is not valid, or the run cannot be written.
        StoreError: the notes could not be written.
    """
    with RunFeed(directory) as feed:
        feed.refresh()
        found = feed.rollouts(where=where)
        ids, attempts = feed.columns.texts["rollout_id"], feed.columns.wholes["attempt"]
        places, run = found.page(0, len(found)), feed.info.place
    if places:
        add(directory, *(replace(change, rollout_id=ids[place], attempt=attempts[place]) for place in places), by=by)
    if as_json:
        sys.stdout.write(json.dumps({"noted": len(places)}) + "\n")
    else:
        results().print(f"{count(len(places), 'rollout')} noted", highlight=False)
    if not places:
        warn(f"nothing is noted: no rollout of {run} matches {where!r}")
    return bool(places)
