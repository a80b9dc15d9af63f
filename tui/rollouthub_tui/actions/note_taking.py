"""Notes that a person makes on the screens: tags, the star, comments and reviews of the selected rollout."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from textual.screen import Screen

from rollouthub.errors import HubError, UsageError, said
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.statistics.amounts import count
from rollouthub.store.notes import (
    COMMENT_CHARACTERS,
    NoteChange,
    RolloutNotes,
    TurnNotes,
    add,
    checked_tags,
    retagged,
    split_tags,
)
from rollouthub.text import plain, plain_name
from rollouthub.views.note_words import turn_note_lines
from rollouthub_tui.dialogs.questions import AskScreen, TextScreen
from rollouthub_tui.navigation import app_of

NoteKind = Literal["tag", "star", "comment", "reviewed"]
_LONGEST_SAID = 400
_EARLIER_LINES = 8
"""Lines of earlier comments that are shown above a new one."""
_KEEP = "keep it"


class NoteTaking:
    """Makes the same note on rollouts: the one that was selected when a person asked for it, or those marked."""

    def __init__(self, screen: Screen[None], run: WatchedRun, targets: Sequence[Target]) -> None:
        self._screen, self._run = screen, run
        self._on = [NoteChange(target.rollout_id, target.attempt) for target in targets if target.place is not None]
        self._places = {(target.rollout_id, target.attempt): target.place for target in targets}
        self._left_out = len(targets) - len(self._on)

    async def take(self, kind: NoteKind) -> bool:
        """Make a note, after asking once for all; returns whether it was written."""
        if not self._on:
            self._say("only a rollout that is done can be noted; select one", is_error=True)
            return False
        try:
            changes = await (self._change(kind) if len(self._on) == 1 else self._changes(kind))
            if not changes:
                return False
            await self._run.beside(partial(add, self._run.directory, *changes))
        except (HubError, OSError) as error:
            self._say(said(error), is_error=True)
            return False
        self._run.refresh()
        self._say(_words(kind, changes))
        return True

    def _held(self, on: NoteChange) -> RolloutNotes:
        return self._run.feed.notes.of(on.rollout_id, on.attempt)

    async def _changes(self, kind: NoteKind) -> list[NoteChange]:
        """What changes on several rollouts, those left out that are so already."""
        many = f"{len(self._on):,} rollouts"
        left_out = f" {self._left_out:,} more are in flight, and cannot be noted yet." if self._left_out else ""
        match kind:
            case "star" | "reviewed":
                held = {on: self._held(on) for on in self._on}
                has = {on: each.is_starred if kind == "star" else each.is_reviewed for on, each in held.items()}
                wanted = not all(has.values())
                word = {"star": "Star", "reviewed": "Mark as reviewed:"}[kind]
                question = f"{word} {many}?" if wanted else f"Take that back from {many}: {kind}?"
                changed = [on for on in self._on if has[on] != wanted]
                told = f"{len(self._on) - len(changed):,} of them are so already.{left_out}"
                if not await app_of(self._screen).push_screen_wait(AskScreen(question, told)):
                    return []
                is_star = kind == "star"
                return [replace(on, star=wanted) if is_star else replace(on, reviewed=wanted) for on in changed]
            case "comment":
                text = await self._ask(
                    TextScreen(f"Comment on {many}", left_out, longest=COMMENT_CHARACTERS, done=_KEEP)
                )
                return [] if text is None else [replace(on, comment=text) for on in self._on]
            case "tag":
                asked = TextScreen(
                    f"Tags to add to {many}, with commas between them",
                    f"A dash before a tag takes it away. {self._in_use}{left_out}",
                    wrong=partial(_problem, _tag_changes),
                    longest=4000,
                    done=_KEEP,
                )
                text = await self._ask(asked)
                return [] if text is None else [*self._retagged_all(*_tag_changes(text))]

    def _retagged_all(self, added: Sequence[str], removed: Sequence[str]) -> Iterator[NoteChange]:
        for on in self._on:
            tags = self._held(on).tags
            wanted = tuple(dict.fromkeys([*(tag for tag in tags if tag not in removed), *added]))
            if (change := retagged(on, tags, wanted)) is not None:
                yield change

    @property
    def _in_use(self) -> str:
        known = ", ".join(plain_name(tag) for tag, _ in self._run.feed.notes.tags().most_common(8))
        return f"In use: {known}. " if known else ""

    async def _change(self, kind: NoteKind) -> list[NoteChange]:
        on = self._on[0]
        held = self._held(on)
        match kind:
            case "star":
                return [replace(on, star=not held.is_starred)]
            case "reviewed":
                return [replace(on, reviewed=not held.is_reviewed)]
            case "comment":
                earlier = [plain(line, _LONGEST_SAID) for line in turn_note_lines(TurnNotes(comments=held.comments))]
                shown = earlier[-_EARLIER_LINES:]
                if left := len(earlier) - len(shown):
                    shown.insert(0, f"… {count(left, 'earlier line')}")
                question = f"Comment on {self._name(on)}"
                asked = TextScreen(question, "\n".join(shown), longest=COMMENT_CHARACTERS, done=_KEEP)
                text = await self._ask(asked)
                return [] if text is None else [replace(on, comment=text)]
            case "tag":
                asked = TextScreen(
                    f"Tags of {self._name(on)}, with commas between them",
                    f"{self._in_use}A dash alone removes all.",
                    value=", ".join(held.tags),
                    wrong=partial(_problem, split_tags),
                    longest=4000,
                    done=_KEEP,
                )
                text = await self._ask(asked)
                change = None if text is None else retagged(on, held.tags, split_tags(text))
                return [] if change is None else [change]

    def _name(self, on: NoteChange) -> str:
        """A rollout by its task and sample."""
        place, columns = self._places[(on.rollout_id, on.attempt)], self._run.feed.columns
        if place is None:
            return plain_name(on.rollout_id)
        task = columns.words["task_id"][place] or on.rollout_id
        attempt = f", attempt {on.attempt}" if on.attempt else ""
        return f"{plain_name(task)}, sample {columns.wholes['sample'][place]}{attempt}"

    async def _ask(self, asked: TextScreen) -> str | None:
        return await app_of(self._screen).push_screen_wait(asked)

    def _say(self, words: str, *, is_error: bool = False) -> None:
        severity = "error" if is_error else "information"
        self._screen.notify(plain(words, _LONGEST_SAID), severity=severity, markup=False)


def _tag_changes(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tags to add, and those to take away, which have a dash before them."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    removed = [part[1:].strip() for part in parts if part.startswith("-")]
    return checked_tags([part for part in parts if not part.startswith("-")]), checked_tags(removed)


def _problem(read: Callable[[str], object], text: str) -> str | None:
    """What `read` refuses a text for; None if it takes it."""
    try:
        read(text)
    except UsageError as error:
        return str(error)
    return None


def _words(kind: NoteKind, changes: Sequence[NoteChange]) -> str:
    change = changes[0]
    is_one = len(changes) == 1
    name = plain_name(change.rollout_id) if is_one else f"{len(changes):,} rollouts"
    match kind:
        case "star":
            return f"{'starred' if change.star else 'took the star from'} {name}"
        case "reviewed":
            return f"{name} {'is' if is_one else 'are'} {'reviewed' if change.reviewed else 'not reviewed any more'}"
        case "comment":
            return f"commented on {name}"
        case "tag":
            return f"tags of {name} changed"
