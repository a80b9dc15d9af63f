"""The pane with a run's rollouts: those in flight first; sorted, filtered and searched as they come in."""

from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer
from textual.worker import Worker

from rollouthub.errors import HubError, said
from rollouthub.live.follow import parse_filter
from rollouthub.live.follow.attempt_columns import ALL_KINDS
from rollouthub.live.follow.filter import FilterError
from rollouthub.live.follow.transcript_search import compile_pattern
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.text import plain_name
from rollouthub_tui.dialogs.questions import TextScreen
from rollouthub_tui.dialogs.quick_filters import LONGEST_NAME, MOST_SAVED, FilterOrder, QuickFilterScreen, wrong_name
from rollouthub_tui.navigation import app_of, navigator
from rollouthub_tui.widgets.rollouts.fields import FIELDS, next_sort
from rollouthub_tui.widgets.rollouts.filter_input import Entry
from rollouthub_tui.widgets.rollouts.pair_choice import other_sample
from rollouthub_tui.widgets.rollouts.preview import LEAST_WIDTH
from rollouthub_tui.widgets.rollouts.rollout_list import ListedRollouts
from rollouthub_tui.widgets.virtual_table import Listing

_QUICK_SECONDS, _TYPING_SECONDS = 0.03, 0.15
"""A list that takes fewer seconds than the first is updated at every letter typed; else once none came for the
second.
"""


class RolloutsPane(ListedRollouts):
    """The rollouts of a run; the screen calls `show` at each tick while the pane is visible, `only_group` to list one
    task.

    `ByTask` asks the screen to show the tasks instead (key `t`), at the group of the selected rollout.
    """

    DEFAULT_CSS = """
    RolloutsPane { height: 1fr; layout: vertical; }
    RolloutsPane Horizontal { height: 1fr; }
    RolloutsPane RolloutTable { width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "ask('search')", "Search", tooltip="Letters of a task, id or fault, in order"),
        Binding("f", "ask('filter')", "Filter", tooltip="By an expression: reward < 0.5 and turns > 3"),
        Binding("Q", "quick", "Quick and saved filters", show=False),
        Binding("F", "ask('pattern')", "Search transcripts by a regular expression", show=False),
        Binding("e", "errors", "Errors", tooltip="Only what did not end scored"),
        Binding("V", "review", "Only what needs a review", show=False),
        Binding("a", "attempts", "All attempts, replaced ones too", show=False),
        Binding("s,greater_than_sign", "sort(1)", "Sort", tooltip="By the next column"),
        Binding("less_than_sign", "sort(-1)", "Sort by the previous column", show=False),
        Binding("S", "reverse", "Reverse the order", show=False),
        Binding("n", "next_error(1)", "Next error, or match", show=False),
        Binding("N", "next_error(-1)", "Previous error, or match", show=False),
        Binding("L", "next_live", "Next in flight", show=False),
        Binding("b", "best", "Best reward", show=False),
        Binding("w", "worst", "Worst reward", show=False),
        Binding("t", "by_task", "Tasks, at this rollout's", show=False),
        Binding("d", "pair", "Diff with another sample of its task", show=False),
        Binding("space", "mark", "Mark", tooltip="Mark it, or not: x, r and notes are then for all marked"),
        Binding("A", "mark_all", "Mark all that are listed, or none of them", show=False),
        Binding("U", "unmark", "Unmark all", show=False),
        Binding("P", "preview", "Preview of the rollout beside the list, or not", show=False),
        Binding("J", "scroll_preview(1)", "Scroll the preview down", show=False),
        Binding("K", "scroll_preview(-1)", "Scroll the preview up", show=False),
        Binding("escape", "take_back", "Take back the latest filter or search", show=False),
    ]

    class ByTask(Message):
        """Posted to show the tasks instead."""

        def __init__(self, group_id: str | None) -> None:
            super().__init__()
            self.group_id = group_id

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._typing: Timer | None = None
        self._before_search = ""
        self._reviewing: Worker[None] | None = None

    def on_mount(self) -> None:
        """Restore whether there is a preview."""
        self.wants_preview = navigator(self).settings.preview
        self.fit_preview()

    def on_listing_opened(self, event: Listing.Opened) -> None:
        """Open the selected rollout."""
        event.stop()
        target = self.target
        if target is not None and self._run is not None:
            navigator(self).open_rollout(self._run, target.rollout_id, target.attempt, self.table.found)

    def on_listing_sorted(self, event: Listing.Sorted) -> None:
        """Sort by the clicked column; if it is sorted by already, reverse the order."""
        event.stop()
        by = FIELDS[event.name].sort
        if by is None:
            self._tell(f"there is no order by {FIELDS[event.name].title}")
        elif by == self.rollout_query.sort:
            self.action_reverse()
        else:
            self._sort(by, ALL_KINDS[by] in ("real", "whole"))

    def action_sort(self, step: int) -> None:
        """Sort by the next or the previous column."""
        shown = [column.name for column in self.table.shown_columns]
        by = next_sort(self.rollout_query.sort, shown, step)
        # Of numbers, the largest come first; of names, the first.
        self._sort(by, ALL_KINDS[by] in ("real", "whole"))

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._sort(self.rollout_query.sort, not self.rollout_query.descending)

    def _sort(self, by: str, descending: bool) -> None:
        self.rollout_query.sort, self.rollout_query.descending = by, descending
        self._list()

    def action_preview(self) -> None:
        """Show the rollout at the cursor beside the list; or not any more."""
        settings = navigator(self).settings
        settings.preview = self.wants_preview = not self.wants_preview
        self.fit_preview()
        if self.wants_preview and not self.preview.display:
            self._tell(f"there is room for a preview from {LEAST_WIDTH} columns on; here are {self.size.width}")

    def action_mark(self) -> None:
        """Mark the rollout at the cursor, or not any more."""
        self.table.toggle_mark()
        self._tell("")

    def action_mark_all(self) -> None:
        """Mark all that are listed; if all are marked, none of them."""
        self.table.mark_all()
        self._tell("")

    def action_unmark(self) -> None:
        """Remove all marks."""
        self.table.unmark_all()
        self._tell("")

    def action_scroll_preview(self, by: int) -> None:
        """Scroll the preview."""
        self.preview.turn_page(by)

    def action_errors(self) -> None:
        """Show only rollouts that did not end scored; or all again."""
        self.rollout_query.errors = not self.rollout_query.errors
        self.rollout_query.note("errors only", self.rollout_query.errors)
        self._list()

    def action_review(self) -> None:
        """Show only what needs a review; or all again."""
        if self.rollout_query.review:
            self._show_review(False)
        elif self._run is not None and not self.is_reading:
            self.read_review(self._run)

    def read_review(self, run: WatchedRun) -> None:
        """Read what needs a review, and then show only that."""
        self._tell("reading what needs a review …")
        self._reviewing = self.run_worker(partial(self._read_review, run), group="review", exclusive=True)

    @property
    def is_reading(self) -> bool:
        """Whether what needs a review is still being read."""
        return self._reviewing is not None and not self._reviewing.is_finished

    async def _read_review(self, run: WatchedRun) -> None:
        try:
            await run.feed.read_review()
            _ = run.feed.review
        except HubError as error:
            self._tell(plain_name(said(error)))
        else:
            self._show_review(True)

    def _show_review(self, is_wanted: bool) -> None:
        self._note = ""
        self.rollout_query.review = is_wanted
        self.rollout_query.note("needs review", is_wanted)
        self._list()

    def action_quick(self) -> None:
        """Choose a quick or a saved filter, or save the present one."""
        asked = QuickFilterScreen(navigator(self).settings.filters, self.rollout_query.where.text)
        app_of(self).push_screen(asked, self._take_order)

    def _take_order(self, order: FilterOrder | None) -> None:
        settings = navigator(self).settings
        match order:
            case FilterOrder("filter", text):
                self._filter_by(text)
            case FilterOrder("review") if not self.rollout_query.review:
                self.action_review()
            case FilterOrder("task"):
                self._only_this_task()
            case FilterOrder("save", text):
                question = TextScreen("Save the filter as", text, wrong=wrong_name, longest=LONGEST_NAME)
                app_of(self).push_screen(question, partial(self._save_filter, text))
            case FilterOrder("delete", name):
                settings.filters = {other: text for other, text in settings.filters.items() if other != name}
                self._tell(f"filter {plain_name(name)} is deleted")
            case _:
                pass

    def _save_filter(self, text: str, name: str | None) -> None:
        settings = navigator(self).settings
        if name is None:
            return
        if len(settings.filters) >= MOST_SAVED and name not in settings.filters:
            self._tell(f"{MOST_SAVED} filters are saved, which is all there may be: Q and d delete one")
            return
        settings.filters = {**settings.filters, name: text}
        self._tell(f"saved as {plain_name(name)}: Q lists it")

    def _filter_by(self, text: str) -> None:
        try:
            self.only_filter(text)
        except FilterError as error:  # saved by another version, or written by hand
            self._tell(f"this filter is not understood: {plain_name(error.problem)}")

    def _only_this_task(self) -> None:
        target = self.target
        if self._run is None or target is None or target.place is None:
            self._tell("only a rollout that is done has samples of its task to list")
            return
        self.only_group(self._run.feed.columns.words["group_id"][target.place] or "")

    def action_attempts(self) -> None:
        """Show replaced attempts, too; or hide them again."""
        self.rollout_query.attempts = not self.rollout_query.attempts
        self.rollout_query.note("all attempts", self.rollout_query.attempts)
        self._list()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let Escape go back if there is nothing to undo; disable actions while a text is being entered."""
        if action == "take_back":
            return bool(self.rollout_query.latest)
        return not (action == "ask" and self._entry.display)

    def action_take_back(self) -> None:
        """Remove the restriction (filter, search and so on) that was set last."""
        if self.rollout_query.take_back() == "transcripts":
            self._end_search()
        self._list()

    def _go(self, row: int | None, otherwise: str) -> None:
        if not self.table.go(row):
            self._tell(otherwise)

    def action_next_error(self, step: int) -> None:
        """Go to the next rollout that did not end scored; with a search of transcripts, to the next match."""
        table = self.table
        found, flights = table.found, len(table.flights)
        if found is None:
            return
        if self.rollout_query.pattern is not None:
            self._go((table.cursor + step) % table.count if table.count else None, "nothing matches")
            return
        at = table.cursor - flights
        position = found.next_error(at if at >= 0 else -1 if step > 0 else 0, backwards=step < 0)
        self._go(None if position is None else flights + position, "there is no error among what is listed")

    def action_next_live(self) -> None:
        """Go to the next attempt in flight."""
        state = self.table.next_live()
        row = self.table.flights.row((state.rollout_id, state.attempt)) if state else None
        are_hidden = self._run is not None and bool(self._run.feed.live)
        self._go(row, "what is in flight is not listed now" if are_hidden else "nothing is in flight")

    def action_best(self) -> None:
        """Go to the highest reward."""
        self._go_to(self.table.found.best() if self.table.found is not None else None)

    def action_worst(self) -> None:
        """Go to the lowest reward."""
        self._go_to(self.table.found.worst() if self.table.found is not None else None)

    def _go_to(self, position: int | None) -> None:
        row = None if position is None else len(self.table.flights) + position
        self._go(row, "nothing that is listed has a reward")

    def action_by_task(self) -> None:
        """Ask the screen to show the tasks."""
        target = self.target
        group = None
        if self._run is not None and target is not None and target.place is not None:
            group = self._run.feed.columns.words["group_id"][target.place]
        self.post_message(self.ByTask(group))

    def action_pair(self) -> None:
        """Compare the rollout with another sample of its task: the best one, or for the best one, the worst."""
        target = self.target
        if self._run is None or target is None or target.place is None:
            self._tell("only a rollout that is done can be compared")
            return
        other = other_sample(self._run.feed.columns, target.place)
        if other is None:
            self._tell("its task has no other sample yet")
        else:
            navigator(self).open_pair(self._run, target.place, other)

    # What a person types.

    def action_ask(self, asked: str) -> None:
        """Ask for a search text, a filter or a pattern."""
        entry, query = self._entry, self.rollout_query
        match asked:
            case "search":
                self._before_search = query.search
                entry.ask(asked, "search", query.search, "letters of a task, an id or a fault")
            case "filter":
                hint = 'reward < 0.5 and outcome == "scored"'
                entry.ask(asked, "filter", query.where.text, hint, parse_filter)
            case _:
                entry.ask(asked, "transcripts", query.pattern or "", "a regular expression", compile_pattern)

    def on_entry_changed(self, event: Entry.Changed) -> None:
        """Search while a person types; if a search takes long, once typing stops."""
        event.stop()
        if event.asked != "search":
            return
        if self._typing is not None:
            self._typing.stop()
        if self._listing_seconds < _QUICK_SECONDS:
            self._search_letters(event.text)
        else:
            self._typing = self.set_timer(_TYPING_SECONDS, lambda: self._search_letters(event.text))

    def on_entry_entered(self, event: Entry.Entered) -> None:
        """Apply the entered text."""
        event.stop()
        text, query = event.text.strip(), self.rollout_query
        match event.asked:
            case "search":
                self._search_letters(text)
            case "filter":
                query.where = parse_filter(text)
                query.note("filter", bool(text))
                self._list()
            case _:
                if text:
                    self._search(text)
                else:
                    self._end_search()
                self._list()
        self.screen.set_focus(self.table)

    def on_entry_left(self, event: Entry.Left) -> None:
        """Restore the list as it was before."""
        event.stop()
        if event.asked == "search":
            self._search_letters(self._before_search)
        self.screen.set_focus(self.table)

    def _search_letters(self, text: str) -> None:
        if self._typing is not None:
            self._typing.stop()
        if text.strip() != self.rollout_query.search:
            self.rollout_query.search = text.strip()
            self.rollout_query.note("search", bool(self.rollout_query.search))
            self._list()
