"""The screen of a run, with its progress and results in five panes."""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import ClassVar, Literal, get_args

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import ContentSwitcher, Static

from rollouthub.analysis.breakdowns import Kind
from rollouthub.errors import HubError, said
from rollouthub.live.follow.filter import quoted_text
from rollouthub.live.follow.run_figures import figures_in
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.availability import Action
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.text import plain
from rollouthub.views.terminal.text_fit import apart, cut
from rollouthub_tui.actions.note_taking import NoteKind
from rollouthub_tui.screens.key_hints import list_hints, pane_hints
from rollouthub_tui.screens.steering_screen import SteeringScreen
from rollouthub_tui.widgets.breakdown.breakdown_pane import BreakdownPane
from rollouthub_tui.widgets.breakdown.breakdown_table import TITLES
from rollouthub_tui.widgets.key_line import KeyHint, KeyLine
from rollouthub_tui.widgets.machines import MachinesPane
from rollouthub_tui.widgets.overview.pane import OverviewPane
from rollouthub_tui.widgets.overview.panels import FiguresPanel
from rollouthub_tui.widgets.overview.run_heading import Heading, ProgressPanel
from rollouthub_tui.widgets.overview.tab_line import TabLine
from rollouthub_tui.widgets.plain_ground import ground_lines
from rollouthub_tui.widgets.rollouts.pane import RolloutsPane
from rollouthub_tui.widgets.rollouts.tasks_table import TasksPane

PaneName = Literal["overview", "rollouts", "tasks", "machines", "breakdown"]
PANES: tuple[PaneName, ...] = get_args(PaneName)
_TICK_SECONDS, _LOOK_SECONDS = 0.25, 2.0
"""Seconds between ticks, at one of which the store is read, and at the next one the pane drawn, so that neither takes
long (a run that plays writes of its rollouts in flight as seldom); and between questions to its hub.
"""
_ENDED_TICKS = 4
"""For an ended run, only one tick in this many checks for changes: the run may be resumed."""
_LONGEST_PROBLEM = 1000
_FIGURES = ("counts", "timeline", "histogram", "environments", "stages", "groups")
"""The feed's sets of figures for the panes, in the order in which they are computed."""
_NEEDED: dict[PaneName, str] = {"rollouts": "timeline", "tasks": "groups", "machines": "counts", "breakdown": "groups"}
"""The sets of figures a pane needs before it is shown; the overview shows those that exist."""
_GOING = ("1", "2", "3", "4", "5", "tab", "shift+tab")


class _Panes(ContentSwitcher):
    """The panes, of which one is shown."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The background, to paint."""
        return ground_lines(self, crop)


class RunScreen(SteeringScreen):
    """Shows a run, live or ended; the run is closed with the screen."""

    DEFAULT_CSS = """
    RunScreen {
        #problem { display: none; height: auto; max-height: 3; padding: 0 1; color: $text-error; }
        #problem.-shown { display: block; }
        #trouble { display: none; height: 1fr; padding: 1 2; }
        ContentSwitcher { height: 1fr; }
        &.-trouble ContentSwitcher, &.-trouble TabLine, &.-trouble ProgressPanel { display: none; }
        &.-trouble #trouble { display: block; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "pane('overview')", "Overview", show=False),
        Binding("2", "pane('rollouts')", "Rollouts", show=False),
        Binding("3", "pane('tasks')", "Tasks, groups of samples", show=False),
        Binding("4", "pane('machines')", "Machines", show=False),
        Binding("5", "pane('breakdown')", "Breakdown by tool, finish reason, stop, tag, fault", show=False),
        Binding("tab", "next_pane(1)", "Pane", tooltip="The next pane"),
        Binding("shift+tab", "next_pane(-1)", "Previous pane", show=False),
    ]

    def __init__(self, run: WatchedRun, *, reviews: bool = False) -> None:
        """`reviews` begins with the rollouts that need a review."""
        super().__init__()
        self._watched, self._reviews = run, reviews
        self._ticks = 0
        self._is_turning = False
        self._made: set[str] = set()
        """The figures computed so far: for a large run, each set takes a tenth of a second at first."""

    @property
    def watched(self) -> WatchedRun:
        """The run on this screen."""
        return self._watched

    @property
    def target(self) -> Target | None:
        """The rollout at the cursor of the current pane."""
        pane = self._panes.get(self.pane)
        return pane.target if isinstance(pane, RolloutsPane | TasksPane) and self._has_pane() else None

    @property
    def targets(self) -> Sequence[Target]:
        """The rollouts that are marked in the list."""
        pane = self._panes.get(self.pane)
        return pane.targets if isinstance(pane, RolloutsPane) and self._has_pane() else ()

    @property
    def marked_count(self) -> int:
        """The number of rollouts that are marked in the list."""
        pane = self._panes.get(self.pane)
        return len(pane.table.marked) if isinstance(pane, RolloutsPane) else 0

    @property
    def _is_ready(self) -> bool:
        """Whether all figures are computed; until then only the computing thread may use the feed."""
        return len(self._made) == len(_FIGURES)

    def _has_pane(self) -> bool:
        """Whether the figures that a pane needs are computed."""
        return bool(self._made) and (self._pane == "overview" or _NEEDED[self._pane] in self._made)

    def is_early(self, key: str) -> bool:
        """Whether the pane does not show yet what the key acts on."""
        is_reading = self._is_turning or not self._has_pane() or self._reads_review()
        return key not in _GOING and not self.has_class("-trouble") and is_reading

    def _reads_review(self) -> bool:
        pane = self._panes[self._pane]
        return isinstance(pane, RolloutsPane) and pane.is_reading

    @property
    def pane(self) -> PaneName:
        """Name of the current pane."""
        return self._pane

    def compose(self) -> ComposeResult:
        """Heading, progress, problem line, panes."""
        self._pane: PaneName = "overview"
        self._heading, self._progress = Heading("", id="heading"), ProgressPanel("", id="progress")
        self._tabs = TabLine(PANES)
        self._problem = Static(id="problem", markup=False)
        self._panes: dict[PaneName, OverviewPane | RolloutsPane | TasksPane | MachinesPane | BreakdownPane] = {
            "overview": OverviewPane(id="overview"),
            "rollouts": RolloutsPane(id="rollouts"),
            "tasks": TasksPane(id="tasks"),
            "machines": MachinesPane(id="machines"),
            "breakdown": BreakdownPane(id="breakdown"),
        }
        yield self._heading
        yield self._progress
        yield self._problem
        yield self._tabs
        yield Static(id="trouble", markup=False)
        with _Panes(initial=self._pane):
            yield from self._panes.values()
        yield KeyLine()

    def on_mount(self) -> None:
        """Read the run in a thread, then refresh at every tick."""
        self._heading.wait(self.watched)
        self._show_tabs()
        self._panes[self._pane].focus()
        self.run_worker(self._open, group="open")
        self.set_interval(_TICK_SECONDS, self._tick)
        self.set_interval(_LOOK_SECONDS, self._look)

    def on_unmount(self) -> None:
        """Close the run."""
        self.watched.close()

    def on_screen_resume(self) -> None:
        """Show changes that came while another screen was on top."""
        if self._is_ready and self.is_seen:
            self._read()
            self._show()

    async def _open(self) -> None:
        run = self.watched
        try:
            # The sums are there long before everything is read.
            figures = await run.beside(lambda: figures_in(run.feed.reader))
            if self.is_attached:
                self.query_one(FiguresPanel).head(figures)
            await run.open()
        except (HubError, OSError, sqlite3.Error) as error:
            if self.is_attached:
                self._tell_trouble(said(error))
            return
        # Beside the screen, where no key waits.
        for name in _FIGURES:
            await run.beside(partial(getattr, run.feed, name))
            self._made.add(name)
            self._show()
        if self._reviews and self.is_attached:
            self._go("rollouts")
            self.query_one(RolloutsPane).read_review(run)
        if self.is_attached:
            self.look_for_actions()
        self._look()

    def _tell_trouble(self, problem: str) -> None:
        self.add_class("-trouble")
        words = Text.assemble(
            ("This run cannot be shown.\n\n", "bold"), apart(plain(problem, _LONGEST_PROBLEM)), "\n\nq goes back."
        )
        self._heading.replace(Text(cut(self.watched.directory.name, 120), "bold"))
        self.query_one("#trouble", Static).update(words)

    def _tick(self) -> None:
        if not self._is_ready or not self.is_seen:
            return
        self._ticks += 1
        is_reading = self._ticks % 2 == 1
        if is_reading:
            self._read()
            self._show_head()
        if not is_reading or self._pane == "overview":  # whose panels are drawn in turn
            self._show_pane()

    def _read(self) -> None:
        if self.watched.feed.info.status == "running" or self._ticks % _ENDED_TICKS == 1:
            self.watched.refresh()

    def _show(self) -> None:
        """Update what is visible."""
        if self.is_attached:
            self._show_head()
            self._show_pane()

    def _show_head(self) -> None:
        run, pane = self.watched, self._panes[self._pane]
        self._heading.crumb = pane.task_words if isinstance(pane, RolloutsPane) and self._has_pane() else ""
        self._heading.show(run)
        if "timeline" in self._made:
            self._progress.show(run)
        self._show_problem()
        self._show_tabs()

    def _show_pane(self) -> None:
        self._is_turning = False
        if not self._has_pane():
            return
        pane = self._panes[self._pane]
        if isinstance(pane, OverviewPane):
            pane.show_made(self.watched, self._made)
        else:
            pane.show(self.watched)
        self.show_keys()

    def key_hints(self, possible: Collection[Action]) -> Iterable[KeyHint]:
        """The keys of the current pane that do something now."""
        view, pane = self.watched.view, self._panes[self._pane]
        is_paused = view is not None and view.status == "paused"
        if isinstance(pane, RolloutsPane):
            return list_hints(pane, possible, is_paused=is_paused)
        return pane_hints(self._pane, possible, is_paused=is_paused)

    def _show_problem(self) -> None:
        problem = self.watched.problem
        if self._problem.has_class("-shown") != (problem is not None):
            self._problem.set_class(problem is not None, "-shown")
        words = Text() if problem is None else Text(f"! {apart(plain(problem, _LONGEST_PROBLEM))}")
        if words != self._problem.content:
            self._problem.update(words)

    def _show_tabs(self) -> None:
        feed, made = self.watched.feed, self._made
        rollouts = f"{feed.counts.effective:,}" if "counts" in made else ""
        remarks = ["", rollouts, f"{len(feed.groups):,}" if "groups" in made else "", "", ""]
        self._tabs.show_tabs(self._pane, remarks)

    def _look(self) -> None:
        if self._is_ready and self.is_seen:
            self.run_worker(self._look_in, group="look", exclusive=True)

    async def _look_in(self) -> None:
        try:
            await self.watched.look_in()
        except (HubError, OSError):
            return  # nobody to ask; what the store says is shown all the same
        if self._pane == "machines" and self.is_seen:
            self._show()

    def on_tab_line_chosen(self, event: TabLine.Chosen) -> None:
        """Show the pane that was clicked."""
        self._go(next(pane for pane in PANES if pane == event.name))

    def action_pane(self, name: PaneName) -> None:
        """Show a pane."""
        self._go(name)

    def action_next_pane(self, by: int) -> None:
        """Show the next pane."""
        self._go(PANES[(PANES.index(self._pane) + by) % len(PANES)])

    def noted(self, kind: NoteKind) -> None:
        """Show the note in the list; of a review that is not listed any more, the next one is under the cursor."""
        pane = self._panes[self.pane]
        if isinstance(pane, RolloutsPane):
            pane.show(self._watched)

    def on_rollouts_pane_by_task(self, event: RolloutsPane.ByTask) -> None:
        """Show the tasks, with the cursor on the task of the selected rollout."""
        self._go("tasks")
        if event.group_id is not None:
            self.query_one(TasksPane).go_to(event.group_id)

    def on_tasks_pane_chosen(self, event: TasksPane.Chosen) -> None:
        """Show the rollouts of the chosen task."""
        self._go("rollouts")
        self.query_one(RolloutsPane).only_group(event.group_id)

    def on_breakdown_pane_chosen(self, event: BreakdownPane.Chosen) -> None:
        """List the rollouts of the chosen line: by a filter where one can say it."""
        self._go("rollouts")
        pane, line = self.query_one(RolloutsPane), event.line
        kind: Kind = event.kind
        if kind in ("tags", "stops"):
            pane.only_filter(f"{kind.removesuffix('s')} == {quoted_text(line.name)}")
        else:
            pane.only_rows(f"{TITLES[kind]} {line.name}", line.places, attempts=kind == "faults")

    def _go(self, name: PaneName) -> None:
        self._pane = name
        self.query_one(ContentSwitcher).current = name
        self._show_tabs()
        # At once: the next key is meant for this pane, and in another one it may pause a run.
        pane = self._panes[name]
        self.set_focus(pane.table if isinstance(pane, RolloutsPane | TasksPane | BreakdownPane) else pane)
        self._is_turning = True
        self.call_after_refresh(self._show_pane)
