"""The common tasks of two runs as a table, regressions first."""

from collections.abc import Callable, Sequence

from rollouthub.analysis.compare.task_pairs import TaskDifference
from rollouthub.statistics.amounts import number, p_value, signed
from rollouthub.views.terminal.task_verdicts import VERDICTS
from rollouthub_tui.widgets.cells import Cell, Column, widest
from rollouthub_tui.widgets.compare.comparison_words import samples, unscored
from rollouthub_tui.widgets.safe_words import named
from rollouthub_tui.widgets.virtual_table import Listing, shared_out

WIDE = 130

_ORDERS: dict[str, Callable[[TaskDifference], float | str | None]] = {
    "difference": lambda task: task.difference,
    "p": lambda task: task.adjusted,
    "task": lambda task: "\0".join(task.key[:3]),
    "A": lambda task: task.first.mean_reward,
    "B": lambda task: task.second.mean_reward,
    "not scored": lambda task: -sum(task.first.unscored.values()) - sum(task.second.unscored.values()),
}
ORDERS = tuple(_ORDERS)


class TasksTable(Listing):
    """A line for each task that both runs played."""

    def __init__(self) -> None:
        super().__init__()
        self.order = ORDERS[0]
        self.is_reversed = False
        self.tasks: list[TaskDifference] = []
        self._wanted: dict[str, int] = {}

    @property
    def count(self) -> int:
        """The number of common tasks."""
        return len(self.tasks)

    @property
    def current(self) -> TaskDifference | None:
        """The task at the cursor."""
        return self.tasks[self.cursor] if self.tasks else None

    def show_tasks(self, tasks: Sequence[TaskDifference]) -> None:
        """Replace the tasks; the cursor stays at its task."""
        current = self.current
        self._wanted = {
            "task": widest(named(task.key.task_id) for task in tasks),
            "environment": widest(named(task.key.environment) for task in tasks),
            "unscored": widest(map(unscored, tasks)),
        }
        key = _ORDERS[self.order]
        present = [(value, task) for task in tasks if (value := key(task)) is not None]
        # Sorting is stable: equal ones stay as the first run met them. What has no value comes last, either way.
        present.sort(key=lambda pair: pair[0], reverse=self.is_reversed)
        self.tasks = [*(task for _, task in present), *(task for task in tasks if key(task) is None)]
        if current is not None:
            found = (place for place, task in enumerate(self.tasks) if task.key == current.key)
            self.cursor = next(found, 0)
        self.update_rows()

    def sort(self, order: str, *, is_reversed: bool) -> None:
        """Sort the tasks by another order, and move the cursor to the first."""
        self.order, self.is_reversed = order, is_reversed
        tasks, self.tasks = self.tasks, []
        self.show_tasks(tasks)
        self.cursor = 0

    def columns(self, width: int) -> Sequence[Column]:
        """The columns for a width; environment and unscored samples only if there is room."""
        numbers = [
            Column("A", "A", 7, is_right=True),
            Column("B", "B", 7, is_right=True),
            Column("difference", "B − A", 8, is_right=True),
            Column("samples", "samples", 9, is_right=True),
            Column("p", "p adj.", 6, is_right=True),
            Column("verdict", "", 12),
        ]
        task = Column("task", "task", 10)
        if width < WIDE:
            return self._titled(shared_out(width, [task, *numbers], self._wanted))
        every = [task, Column("environment", "environment", 12), *numbers, Column("unscored", "not scored", 20)]
        return self._titled(shared_out(width, every, self._wanted))

    def _titled(self, columns: Sequence[Column]) -> list[Column]:
        """The column, with an arrow in its title if the table is sorted by it."""
        sorted_by = {"not scored": "unscored"}.get(self.order, self.order)
        arrow = "↓" if self.is_reversed else "↑"
        return [
            Column(column.name, f"{column.title}{arrow}", column.width, column.is_right)
            if column.name == sorted_by
            else column
            for column in columns
        ]

    def cells(self, row: int, columns: Sequence[Column]) -> Sequence[Cell]:
        """The cells for one task."""
        task = self.tasks[row]
        name = task.verdict
        words, style = VERDICTS[name]
        known = {
            "task": Cell(named(task.key.task_id)),
            "environment": Cell(named(task.key.environment)),
            "A": Cell(number(task.first.mean_reward)),
            "B": Cell(number(task.second.mean_reward)),
            "difference": Cell(signed(task.difference), style),
            "samples": Cell(samples(task)),
            "p": Cell(p_value(task.adjusted)),
            "verdict": Cell(words, style),
            "unscored": Cell(unscored(task)),
        }
        return [known[column.name] for column in columns]
