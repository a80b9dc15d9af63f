"""The tables of `hub compare` about many runs and single tasks: runs × environments, and what got worse or better."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollouthub.analysis.compare.run_matrix import MatrixCell, RunMatrix
from rollouthub.analysis.compare.task_changes import RunChanges
from rollouthub.analysis.compare.task_pairs import TaskDifference
from rollouthub.statistics.amounts import NONE, estimate, number, p_value, signed
from rollouthub.text import plain_name

MOST_SHOWN = 5
"""Most tasks listed as worse, and as better."""
_COLUMN = 27
"""Terminal columns of an environment's cell, the space before it included."""
_MARKS = {"better": ("▲ ", "green"), "worse": ("▼ ", "red")}


def print_matrix(console: Console, matrix: RunMatrix, names: Sequence[str]) -> None:
    """Print runs × environments, as many environments beside each other as fit; nothing where two runs of one
    environment say it all.
    """
    if len(matrix.environments) < 2 and len(matrix.rows) < 3:
        return
    columns = [
        (plain_name(name), [row.cells[at] for row in matrix.rows]) for at, name in enumerate(matrix.environments)
    ]
    if any(row.overall is not None for row in matrix.rows):
        columns.append(("all", [row.overall for row in matrix.rows]))
    room = max(1, (console.width - max(map(len, names))) // _COLUMN)
    for begin in range(0, len(columns), room):
        shown = columns[begin : begin + room]
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("", no_wrap=True)
        for title, _ in shown:
            table.add_column(Text(title), justify="right", no_wrap=True, max_width=_COLUMN - 2)
        for place, name in enumerate(names):
            table.add_row(Text(name), *(_cell(cells[place]) for _, cells in shown))
        console.print()
        console.print(table)
    tests = f"{matrix.tests} test" + ("" if matrix.tests == 1 else "s")
    said = [f"▲ ▼ significant after correction for {tests} (Holm); below a mean: difference to the first, corrected p"]
    said += [f"{plain_name(name)}: these runs played no common task of it" for name in matrix.left_out]
    console.print(Text("\n".join(said), style="dim"))


def _cell(cell: MatrixCell | None) -> Text:
    if cell is None or cell.mean_reward is None:
        return Text(NONE)
    mean = cell.mean_reward
    said = estimate(mean.value, mean)
    if cell.difference is None or cell.difference.value is None:
        return Text(said)
    mark, style = _MARKS.get(cell.verdict, ("", "dim"))
    p = "" if cell.adjusted is None else f" p {p_value(cell.adjusted)}"
    return Text.assemble(f"{said}\n", (f"{mark}{signed(cell.difference.value)}{p}", style))


def print_changes(console: Console, changes: RunChanges, name: str, first: str) -> None:
    """Print how many tasks of a run are worse or better than in the first, and which most."""
    tasks = [*changes.worse[:MOST_SHOWN], *changes.better[:MOST_SHOWN]]
    if not tasks:
        return
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in changes.counts.items())
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task", overflow="ellipsis", no_wrap=True)
    for title in ("first", "second", "difference", "p", ""):
        table.add_column(title, justify="right", no_wrap=True)
    several = len({task.key.environment for task in tasks}) > 1
    for task in tasks:
        table.add_row(*_task(task, several=several))
    console.print()
    console.print(Text(f"{name} against {first}: {counts}"))
    console.print(table)


def _task(task: TaskDifference, *, several: bool) -> list[Text]:
    key = task.key
    style = {"better": "green", "worse": "red"}.get(task.verdict, "")
    sides = (f"{number(side.mean_reward)} of {len(side.rewards)}" for side in (task.first, task.second))
    return [
        Text(plain_name(f"{key.environment} {key.task_id}" if several else key.task_id)),
        *map(Text, sides),
        Text(signed(task.difference)),
        Text(p_value(task.adjusted)),
        Text(task.verdict, style=style),
    ]
