"""The screen with two rollouts of one run side by side, usually two samples of one task."""

import sqlite3
from functools import partial
from typing import ClassVar

import anyio.to_thread
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static
from textual.worker import Worker

from rollouthub.errors import HubError
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub_tui.navigation import navigator
from rollouthub_tui.screens.key_hints import PAIR_HINTS
from rollouthub_tui.widgets.key_line import KeyLine
from rollouthub_tui.widgets.pair.diff_view import WIDE, PairView
from rollouthub_tui.widgets.pair.rollout_pair import Name, RolloutPair, heading, read_pair
from rollouthub_tui.widgets.safe_words import named, quoted

_FAILURES = (HubError, OSError, ValueError, TypeError, sqlite3.Error)


class PairScreen(Screen[None]):
    """Compares the transcripts of two rollouts."""

    DEFAULT_CSS = """
    PairScreen > .title { height: 1; padding: 0 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
    PairScreen > .heading { height: auto; max-height: 6; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    PairScreen > .message { display: none; height: 1fr; padding: 1 2; }
    PairScreen.-message > .message { display: block; }
    PairScreen.-message > .heading { display: none; }
    PairScreen.-message > PairView { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "step(1)", "Next difference"),
        Binding("N", "step(-1)", "Difference before", show=False),
        Binding("tab", "choose", "Other side", priority=True),
        Binding("left_square_bracket", "sample(-1)", "Sample before", key_display="[", show=False),
        Binding("right_square_bracket", "sample(1)", "Next sample", key_display="]"),
        Binding("space", "unfold", "Unfold", show=False),
        Binding("z", "fold", "Fold"),
        Binding("enter,l", "open", "Open", show=False),
    ]

    def __init__(self, run: WatchedRun, first_place: int, second_place: int) -> None:
        super().__init__()
        self._run = run
        columns = run.feed.columns
        self._group = columns.words["group_id"][first_place] or ""
        self._task_id = columns.words["task_id"][first_place] or self._group
        self._names = [self._name_at(place) for place in (first_place, second_place)]
        self._chosen = 1
        self._reading: Worker[None] | None = None
        self.pair: RolloutPair | None = None
        """The two rollouts; None until they are read, or if they cannot be."""

    def _name_at(self, place: int) -> Name:
        columns = self._run.feed.columns
        return columns.texts["rollout_id"][place], columns.wholes["attempt"][place]

    def compose(self) -> ComposeResult:
        """Title, facts about both, and their transcripts."""
        yield Static(classes="title", markup=False)
        yield Static(classes="heading", markup=False)
        yield Static(classes="message", markup=False)
        yield PairView()
        yield KeyLine()

    def on_mount(self) -> None:
        """Read both rollouts."""
        self.query_one(KeyLine).show_hints(PAIR_HINTS)
        self._read_again()

    @property
    def view(self) -> PairView:
        """The view of both transcripts."""
        return self.query_one(PairView)

    def is_early(self, key: str) -> bool:
        """Whether the rollouts are still being read."""
        return self._reading is not None and not self._reading.is_finished

    def _read_again(self) -> None:
        work = partial(self._read, self._names[0], self._names[1])
        self._reading = self.run_worker(work, group="pair", exclusive=True)

    async def _read(self, first: Name, second: Name) -> None:
        self._title()
        if self.pair is None:
            self._say(f"Reading {named(first[0])} and {named(second[0])} …")
        try:
            self.pair = await anyio.to_thread.run_sync(read_pair, self._run.directory, first, second)
        except _FAILURES as error:
            if self._is_gone:
                return
            self.pair = None
            self._say(f"These rollouts cannot be shown:\n\n{quoted(str(error), 2000)}")
            return
        if self._is_gone:
            return
        self.remove_class("-message")
        self.view.show_difference(self.pair.difference)
        self._title()
        self._heading()
        self.view.focus()

    @property
    def _is_gone(self) -> bool:
        """Whether the screen was closed while something was read; its widgets may be gone."""
        return not self.is_attached or not self.query(PairView)

    def _say(self, words: str) -> None:
        self.add_class("-message")
        self.query_one(".message", Static).update(Text(words))

    def _title(self) -> None:
        words = f"{named(self._run.directory.resolve().name)} › {named(self._task_id)} › two samples"
        view = self.view
        if self.pair is not None and view.changes:
            at = "" if view.change is None else f"{view.change + 1} of "
            words += f"   difference {at}{len(view.changes):,}" if at else f"   {len(view.changes):,} differences"
        elif self.pair is not None:
            words += "   equal in every line"
        self.query_one(".title", Static).update(Text(words))

    def _heading(self) -> None:
        if self.pair is not None:
            width = self.size.width
            words = heading(self.pair, self._chosen, width - 2, is_double=width >= WIDE)
            self.query_one(".heading", Static).update(words)

    def on_resize(self, event: Resize) -> None:
        """Lay out for the new width."""
        self._heading()

    def on_pair_view_stepped(self, event: PairView.Stepped) -> None:
        """Show which difference is selected."""
        self._title()

    def action_step(self, by: int) -> None:
        """Go to another difference."""
        self.view.step(by)

    def action_choose(self) -> None:
        """Choose the other rollout, for opening it or replacing it by another sample."""
        self._chosen = 1 - self._chosen
        self._heading()

    def action_sample(self, by: int) -> None:
        """Replace the chosen rollout by another sample of its group."""
        self._run.refresh()
        if self._run.problem is not None:
            self.notify(quoted(self._run.problem, 1000), severity="warning", markup=False)
        columns = self._run.feed.columns
        code = columns.words["group_id"].code(self._group)
        codes = columns.words["group_id"].codes
        here, there = self._names[self._chosen], self._names[1 - self._chosen]
        names = [self._name_at(at) for at in columns.effective_places(0, len(columns)) if codes[at] == code]
        left = sorted(name for name in {*names, here} if name != there)
        if len(left) < 2:
            self.notify("The group has no other sample yet.", severity="warning", markup=False)
            return
        self._names[self._chosen] = left[(left.index(here) + by) % len(left)]
        self._read_again()

    def action_unfold(self) -> None:
        """Open the next fold."""
        self.view.unfold_next()

    def action_fold(self) -> None:
        """Fold equal lines, or unfold all."""
        self.view.toggle_all()

    def action_open(self) -> None:
        """Open the chosen rollout alone."""
        navigator(self).open_rollout(self._run, *self._names[self._chosen])
