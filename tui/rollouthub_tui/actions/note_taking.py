"""Notes that a person makes on the screens: tags, the star, comments and reviews of the selected rollout."""

from functools import partial
from typing import Literal

from textual.screen import Screen

from rollouthub.errors import HubError, UsageError, said
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.store.notes import COMMENT_CHARACTERS, NoteChange, RolloutNotes, add, retagged, split_tags
from rollouthub.text import plain, plain_name
from rollouthub_tui.dialogs.questions import TextScreen
from rollouthub_tui.navigation import app_of

NoteKind = Literal["tag", "star", "comment", "reviewed"]
_LONGEST_SAID = 400


class NoteTaking:
    """Makes notes on one rollout, which was selected when a person asked for it."""

    def __init__(self, screen: Screen[None], run: WatchedRun, target: Target | None) -> None:
        self._screen, self._run, self._target = screen, run, target

    async def take(self, kind: NoteKind) -> bool:
        """Make a note, after asking for its text; returns whether it was written."""
        target = self._target
        if target is None or target.place is None:
            self._say("only a rollout that is done can be noted; select one", is_error=True)
            return False
        held = self._run.feed.notes.of(target.rollout_id, target.attempt)
        try:
            change = await self._change(kind, NoteChange(target.rollout_id, target.attempt), held)
            if change is None:
                return False
            await self._run.beside(partial(add, self._run.directory, change))
        except (HubError, OSError) as error:
            self._say(said(error), is_error=True)
            return False
        self._run.refresh()
        self._say(_words(kind, change))
        return True

    async def _change(self, kind: NoteKind, on: NoteChange, held: RolloutNotes) -> NoteChange | None:
        match kind:
            case "star":
                return _with(on, star=not held.is_starred)
            case "reviewed":
                return _with(on, reviewed=not held.is_reviewed)
            case "comment":
                question = f"Comment on {plain_name(on.rollout_id)}"
                text = await self._ask(TextScreen(question, longest=COMMENT_CHARACTERS))
                return None if text is None else _with(on, comment=text)
            case "tag":
                known = ", ".join(plain_name(tag) for tag, _ in self._run.feed.notes.tags().most_common(8))
                asked = TextScreen(
                    f"Tags of {plain_name(on.rollout_id)}, with commas between them",
                    f"In use: {known}. A dash alone removes all." if known else "A dash alone removes all.",
                    value=", ".join(held.tags),
                    wrong=_wrong_tags,
                    longest=4000,
                )
                text = await self._ask(asked)
                return None if text is None else retagged(on, held.tags, split_tags(text))

    async def _ask(self, asked: TextScreen) -> str | None:
        return await app_of(self._screen).push_screen_wait(asked)

    def _say(self, words: str, *, is_error: bool = False) -> None:
        severity = "error" if is_error else "information"
        self._screen.notify(plain(words, _LONGEST_SAID), severity=severity, markup=False)


def _with(
    on: NoteChange, *, star: bool | None = None, comment: str | None = None, reviewed: bool | None = None
) -> NoteChange:
    return NoteChange(on.rollout_id, on.attempt, star=star, comment=comment, reviewed=reviewed)


def _wrong_tags(text: str) -> str | None:
    try:
        split_tags(text)
    except UsageError as error:
        return str(error)
    return None


def _words(kind: NoteKind, change: NoteChange) -> str:
    name = plain_name(change.rollout_id)
    match kind:
        case "star":
            return f"{'starred' if change.star else 'took the star from'} {name}"
        case "reviewed":
            return f"{name} is {'reviewed' if change.reviewed else 'not reviewed any more'}"
        case "comment":
            return f"commented on {name}"
        case "tag":
            return f"tags of {name} changed"
