"""The screen of one rollout, finished or in flight."""

from collections.abc import Collection, Iterable
from functools import partial
from typing import ClassVar

import anyio.to_thread
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import ContentSwitcher, Input, Static
from textual.worker import Worker

from rollouthub.errors import HubError, said
from rollouthub.live.follow import RolloutList
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.availability import Action
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.text import plain_name
from rollouthub_tui.actions.note_taking import NoteKind
from rollouthub_tui.navigation import app_of, navigator
from rollouthub_tui.screens.key_hints import rollout_hints
from rollouthub_tui.screens.steering_screen import SteeringScreen
from rollouthub_tui.widgets.key_line import KeyHint, KeyLine
from rollouthub_tui.widgets.rollout.clipboard import copied
from rollouthub_tui.widgets.rollout.document import Medium
from rollouthub_tui.widgets.rollout.document_view import DocumentView
from rollouthub_tui.widgets.rollout.live_rollout import Tail
from rollouthub_tui.widgets.rollout.notes_line import NotesLine
from rollouthub_tui.widgets.rollout.picture_screen import PictureScreen
from rollouthub_tui.widgets.rollout.pictures import load_picture
from rollouthub_tui.widgets.rollout.record_document import raw_record
from rollouthub_tui.widgets.rollout.record_reader import ReadRecord, other_sample, place_of, read_record
from rollouthub_tui.widgets.rollout.rollout_heading import TABS, crumb_line, heading_parts, tab_line
from rollouthub_tui.widgets.rollout.rows_view import RowsView
from rollouthub_tui.widgets.rollout.score_document import Mates, verdict
from rollouthub_tui.widgets.rollout.source_list import SourceList
from rollouthub_tui.widgets.rollout.token_tab import TokenTab
from rollouthub_tui.widgets.rollout.transcript import transcript
from rollouthub_tui.widgets.rollout.waterfall import Waterfall

_TICK_SECONDS, _TAIL_SECONDS, _LOOK_SECONDS = 0.25, 1.0, 2.0


class RolloutScreen(SteeringScreen):
    """Shows a rollout's conversation, score, tokens, timings and record; in flight, its conversation as it grows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(place), f"tab('{tab}')", tab.capitalize(), show=False) for place, tab in enumerate(TABS, 1)),
        Binding("tab", "next_tab(1)", "Next tab", show=False),
        Binding("shift+tab", "next_tab(-1)", "Previous tab", show=False),
        Binding("right_square_bracket", "beside(1)", "Next rollout of the list", key_display="]"),
        Binding("left_square_bracket", "beside(-1)", "Previous rollout of the list", key_display="["),
        Binding("slash", "find", "Find", key_display="/"),
        Binding("t", "note('tag')", "Tags of the rollout", show=False),
        Binding("n", "next(1)", "Next match, or error", show=False),
        Binding("N", "next(-1)", "Previous match, or error", show=False),
        Binding("escape", "forget", "Forget what was looked for", show=False),
        Binding("W", "wrap", "Wrap long lines, or not", show=False),
        Binding("s", "raw", "Arguments as JSON, or as code", show=False),
        Binding("d", "diff", "Diff", tooltip="Side by side with another sample of its task"),
    ]
    DEFAULT_CSS = """
    RolloutScreen #which, RolloutScreen #how, RolloutScreen #tabs, RolloutScreen #said {
        height: 1; width: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }
    RolloutScreen #which, RolloutScreen #how { background: $surface; padding: 0 1; }
    RolloutScreen #said { color: $text-muted; padding: 0 1; }
    RolloutScreen ContentSwitcher { height: 1fr; }
    RolloutScreen #find { height: 1; border: none; padding: 0 1; display: none; background: $surface; }
    RolloutScreen #find.-asked { display: block; }
    """

    def __init__(self, run: WatchedRun, rollout_id: str, attempt: int, among: RolloutList | None = None) -> None:
        super().__init__()
        self._run, self._list = run, SourceList(among)
        self._begin(rollout_id, attempt)
        self._tab = TABS[0]
        self._is_raw = False
        """Whether arguments of tool calls are shown as JSON."""
        self._opening: Worker[None] | None = None

    def is_early(self, key: str) -> bool:
        """Whether the record or a picture of it is still being read."""
        return self._is_reading or (self._opening is not None and not self._opening.is_finished)

    @property
    def _is_reading(self) -> bool:
        return self._reading is not None and not self._reading.is_finished

    def _begin(self, rollout_id: str, attempt: int) -> None:
        self._rollout_id, self._attempt = rollout_id, attempt
        self._record: ReadRecord | None = None
        self._tail = Tail(self._run, rollout_id, attempt)
        self._drawn: set[str] = set()
        self._trouble = ""
        self._said: str | None = None
        """The line at the bottom, as it was drawn."""
        self._reading: Worker[None] | None = None
        self._seeks = True
        self._named, self._crumb = ("", "", 0), tuple[object, ...]()

    @property
    def watched(self) -> WatchedRun:
        """The run that the rollout belongs to."""
        return self._run

    @property
    def target(self) -> Target | None:
        """The rollout that is shown."""
        return Target(self._rollout_id, self._attempt, self._place)

    @property
    def _place(self) -> int | None:
        if not self._run.is_open:
            return None
        return place_of(self._run.feed.columns, self._rollout_id, self._attempt)

    def compose(self) -> ComposeResult:
        """Heading, tabs, and a view for each tab."""
        yield from (Static(id="which"), Static(id="how"))
        yield NotesLine()
        yield Static(id="tabs")
        with ContentSwitcher(initial=TABS[0]):
            yield DocumentView(id="conversation")
            yield DocumentView(id="score")
            yield TokenTab(id="tokens")
            yield Waterfall(id="timings")
            yield DocumentView(id="record")
        yield from (Static(id="said"), Input(placeholder="a regular expression, or a text", id="find"), KeyLine())

    def on_mount(self) -> None:
        """Read the record, or ask the hub if it is in flight."""
        settings = navigator(self).settings
        for view in self.query(DocumentView):
            view.wraps = settings.wraps
            view.on_medium = self._open_medium
        self._conversation.is_folded = settings.is_folded
        self.action_tab(TABS[0])
        self.set_interval(_TICK_SECONDS, self._tick)
        self.set_interval(_TAIL_SECONDS, self._ask_again)
        self.set_interval(_LOOK_SECONDS, self._look_in)
        self._start()

    @property
    def _conversation(self) -> DocumentView:
        return self.query_one("#conversation", DocumentView)

    @property
    def _view(self) -> RowsView:
        return self.query_one("#heat" if self._tab == "tokens" else f"#{self._tab}", RowsView)

    def _start(self) -> None:
        self._tell_name()
        if self._place is None:
            self._ask_again()
        else:
            self._read()

    def _tick(self) -> None:
        if not self.is_seen:
            return
        run = self._run
        if self._record is None and run.is_open and run.refresh() and self._place is not None:
            self._read()
        if self._record is not None and run.is_open and run.feed.notes.refresh():
            self._tell_notes()
        self._say()

    def _look_in(self) -> None:
        if self.is_seen and self._run.is_open and self._run.feed.info.status == "running":
            self.run_worker(self._run.look_in, exclusive=True, group="look", exit_on_error=False)

    def _read(self) -> None:
        if self._record is None and not self._is_reading:
            work = partial(self._read_beside, self._rollout_id, self._attempt)
            self._reading = self.run_worker(work, exclusive=True, group="read")

    async def _read_beside(self, rollout_id: str, attempt: int) -> None:
        try:
            record = await anyio.to_thread.run_sync(read_record, self._run.directory, rollout_id, attempt)
        except (HubError, OSError, ValueError) as error:
            self._trouble = plain_name(said(error))
            self._say()
            return
        if (rollout_id, attempt) == (self._rollout_id, self._attempt):
            self._record, self._trouble = record, ""
            self._drawn.clear()
            self._draw()
            self._tell_name()

    def _ask_again(self) -> None:
        if self.is_seen and self._record is None and not self._is_reading:
            self.run_worker(partial(self._ask, self._tail), exclusive=True, group="tail")

    async def _ask(self, tail: Tail) -> None:
        await tail.ask(self._conversation, lambda: tail is self._tail and self._record is None)
        if tail is self._tail:
            self._tell_name()

    def _tell_name(self) -> None:
        run, shown = self._run, self._tail.shown
        state = next((each for each in run.feed.live if each.rollout_id == self._rollout_id), None)
        rollout = None if self._record is None else self._record.rollout
        is_running = run.is_open and run.feed.info.status == "running"
        self._named, how = heading_parts(rollout, shown, state, is_running, self._is_reading)
        self._tell_crumb()
        self.query_one("#how", Static).update(how)
        self._tell_notes()
        self._say()

    def _tell_crumb(self) -> None:
        """Show where this is: run, task, sample, and the turn at the cursor."""
        turn = self._view.turn_at_cursor if isinstance(self._view, DocumentView) else None
        where = (*self._named, self._attempt, self._rollout_id, self._list.words(self._place), turn)
        if where != self._crumb:
            self._crumb = where
            self.query_one("#which", Static).update(crumb_line(self._run.directory.resolve().name, *where))

    def _tell_notes(self) -> None:
        if self.query_one(NotesLine).show(self._run.feed.notes.of(self._rollout_id, self._attempt)):
            self._drawn.discard("conversation")
            self._draw()

    def noted(self, kind: NoteKind) -> None:
        """Show the note; after a review, go on to the next rollout of the list that nobody reviewed."""
        self._tell_notes()
        feed, place, rows = self._run.feed, self._place, self._list.rows
        if kind != "reviewed" or rows is None or place is None or not feed.columns.notes_at(place).is_reviewed:
            return
        wanted = self._list.next_unreviewed(feed, place)
        if wanted is None:
            self.notify("all rollouts of the list are reviewed", markup=False)
        else:
            self._go_to(wanted)

    def _go_to(self, place: int) -> None:
        columns = self._run.feed.columns
        self._begin(columns.texts["rollout_id"][place], columns.wholes["attempt"][place])
        self._start()

    def _draw(self) -> None:
        """Fill the current tab, once for each record."""
        tab, record = self._tab, self._record
        if record is None or tab in self._drawn:
            return
        self._drawn.add(tab)
        rollout, lengths = record.rollout, record.prompt_lengths
        match tab:
            case "conversation":
                self._conversation.show(transcript(rollout, self.query_one(NotesLine).notes, raw=self._is_raw))
                if self._run.pattern and self._seeks:
                    self._seeks = False
                    self._conversation.find(self._run.pattern)
            case "score":
                place = self._place
                mates = None if place is None else Mates.of(self._run.feed.columns, place)
                self.query_one("#score", DocumentView).show(verdict(rollout, mates))
            case "tokens":
                self.query_one(TokenTab).show(self._run.directory, record)
            case "timings":
                self.query_one(Waterfall).show(rollout)
            case _:
                self.query_one("#record", DocumentView).show(raw_record(rollout, lengths))

    def key_hints(self, possible: Collection[Action]) -> Iterable[KeyHint]:
        """The keys of the current tab that do something now."""
        view = self._view
        return rollout_hints(
            self._tab,
            possible,
            is_asking=self.query_one("#find", Input).has_class("-asked"),
            has_matches=isinstance(view, DocumentView) and view.matches is not None,
            has_record=self._record is not None,
            has_list=self._list.rows is not None,
        )

    def _say(self) -> None:
        """Show a line at the bottom: search results, news, errors."""
        view, parts = self._view, list[str]()
        if isinstance(view, DocumentView) and view.matches is not None:
            parts.append(f"{view.match_words} (n, N; escape forgets it)")
        if self._record is None:
            parts += self._tail.words(self._conversation)
            if self._tab != "conversation":
                parts.append("known once it has ended")
        parts += [each for each in (self._trouble, self._run.problem and plain_name(self._run.problem)) if each]
        text = " · ".join(parts)
        if text != self._said:
            self._said = text
            self.query_one("#said", Static).update(Text(text, no_wrap=True, overflow="ellipsis"))
        self._tell_crumb()
        self.show_keys()

    def action_tab(self, tab: str) -> None:
        """Show another tab of the rollout."""
        self._tab = tab
        self.query_one(ContentSwitcher).current = tab
        self.query_one("#tabs", Static).update(tab_line(tab))
        self._draw()
        self._view.focus()
        self._say()

    def action_next_tab(self, step: int) -> None:
        """Show the next tab."""
        self.action_tab(TABS[(TABS.index(self._tab) + step) % len(TABS)])

    def action_raw(self) -> None:
        """Show the arguments of tool calls as JSON, or as code and fields again."""
        self._is_raw = not self._is_raw
        self._drawn.discard("conversation")
        self._draw()
        self.notify(f"arguments as {'JSON' if self._is_raw else 'code and fields'}", markup=False)

    def action_beside(self, step: int) -> None:
        """Show the next or previous rollout of the list it was opened from."""
        wanted = self._list.beside(self._place, step)
        if self._list.rows is None:
            self.notify("it was not opened from a list", severity="warning", markup=False)
        elif wanted is None:
            self.notify("the list has no other in this direction", markup=False)
        else:
            self._go_to(wanted)

    def action_diff(self) -> None:
        """Compare side by side with another sample of its task."""
        place = self._place
        other = None if place is None else other_sample(self._run.feed.columns, place)
        if place is None or other is None:
            why = "it has no record yet" if place is None else "its task has no other sample yet"
            self.notify(f"nothing to compare it with: {why}", severity="warning", markup=False)
            return
        navigator(self).open_pair(self._run, place, other)

    def action_find(self) -> None:
        """Ask for a text to search for."""
        self.query_one("#find", Input).add_class("-asked").focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search for the entered text."""
        event.stop()
        self._end_asking()
        view = self._view
        if not isinstance(view, DocumentView):
            self.notify("look for text in the conversation, the score or the record", markup=False)
            return
        view.find(event.value or None)
        self._say()

    def _end_asking(self) -> None:
        self.query_one("#find", Input).remove_class("-asked")
        self._view.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let Escape go back unless a search is active."""
        if action == "forget":
            view = self._view
            return self.query_one("#find", Input).has_class("-asked") or (
                isinstance(view, DocumentView) and view.matches is not None
            )
        return super().check_action(action, parameters)

    def action_forget(self) -> None:
        """End the search and remove its marks."""
        asked, view = self.query_one("#find", Input), self._view
        if asked.has_class("-asked"):
            self._end_asking()
        elif isinstance(view, DocumentView):
            view.find(None)
        self._say()

    def action_next(self, step: int) -> None:
        """Go to the next match or, without a search, to the next error."""
        view = self._view
        if isinstance(view, DocumentView) and view.matches is not None:
            view.next_match(step)
        elif not (isinstance(view, DocumentView) and view.next_error(step)):
            self.notify("no tool call in it failed", markup=False)
        self._say()

    def action_wrap(self) -> None:
        """Switch the wrapping of long lines."""
        settings = navigator(self).settings
        settings.wraps = not settings.wraps
        for view in self.query(DocumentView):
            view.set_wraps(settings.wraps)

    def _open_medium(self, medium: Medium) -> None:
        self._opening = self.run_worker(partial(self._show_medium, medium), exclusive=True, group="medium")

    async def _show_medium(self, medium: Medium) -> None:
        picture = await anyio.to_thread.run_sync(load_picture, self._run.directory, medium)
        if isinstance(picture, str):
            self._trouble = picture
            self._say()
        else:
            app_of(self).push_screen(PictureScreen(medium, picture))

    def text_to_copy(self) -> str | None:
        """The content of the tab as plain text, folded parts included."""
        return copied(self._view, self._record)
