"""`hub compare RUN… --task TASK`: one task in several runs, with two of its conversations side by side."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from rollouthub.analysis.compare.task_changes import TaskAcross
from rollouthub.analysis.compare.task_pairs import Side
from rollouthub.cli.console import results
from rollouthub.statistics.amounts import NONE, count, number
from rollouthub.text import plain_name
from rollouthub.views.cards.card import NoteCard
from rollouthub.views.report.rollout_text import Transcript
from rollouthub.views.terminal.card_lines import passages, verdict_lines

BESIDE = 100
"""Terminal columns from which the conversations stand beside each other; below, and in files, one under the other."""
_REWARDS = 12


@dataclass(frozen=True)
class TaskPage:
    """Some tasks in several runs."""

    runs: tuple[tuple[str, Path], ...]
    """Label and directory of each run."""
    tasks: tuple[TaskAcross, ...]
    """One entry for each content that the runs gave the task."""


def print_tasks(page: TaskPage, *, as_json: bool) -> None:
    """Print each task's samples in each run, then the first run's best rollout beside the worst of the others."""
    if as_json:
        sys.stdout.write(json.dumps(_json(page)) + "\n")
        return
    console = results()
    for task in page.tasks:
        _print(console, page, task)


def _json(page: TaskPage) -> list[dict[str, object]]:
    return [
        {
            **task.key._asdict(),
            "runs": [
                {"label": label, "run": str(run), **_side(side)}
                for (label, run), side in zip(page.runs, task.sides, strict=True)
            ],
        }
        for task in page.tasks
    ]


def _side(side: Side | None) -> Mapping[str, object]:
    return {"samples": 0} if side is None else asdict(side) | {"mean_reward": side.mean_reward}


def _print(console: Console, page: TaskPage, task: TaskAcross) -> None:
    key = task.key
    console.print(Text(plain_name(f"{key.environment} / {key.split} / {key.task_id}"), style="bold"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", overflow="ellipsis", no_wrap=True)
    for title in ("scored", "passed", "mean reward", "rewards"):
        table.add_column(title, justify="right", no_wrap=title != "rewards")
    for (label, _), side in zip(page.runs, task.sides, strict=True):
        table.add_row(Text(label), *map(Text, _cells(side)))
    console.print(table)
    shown = list(_conversations(page, task))
    if not shown:
        return
    console.print()
    if not console.is_terminal or console.width < BESIDE:
        for each in shown:
            console.print(each)
        return
    pair = Table(box=None, pad_edge=False, show_header=False, expand=True, padding=(0, 2, 0, 0))
    for _ in shown:
        pair.add_column(ratio=1, overflow="fold")
    pair.add_row(*shown)
    console.print(pair)


def _cells(side: Side | None) -> Iterator[str]:
    if side is None:
        yield from ("not played", "", "", "")
        return
    yield f"{len(side.rewards):,}/{side.samples:,}"
    yield NONE if side.passed is None else f"{side.passed:,}"
    yield number(side.mean_reward)
    more = " …" if len(side.rewards) > _REWARDS else ""
    yield " ".join(number(reward) for reward in side.rewards[:_REWARDS]) + more


def _conversations(page: TaskPage, task: TaskAcross) -> Iterator[RenderableType]:
    """The best of the first run that played the task, and the worst of the run that did worst."""
    from rollouthub.cli.report.command import plainness_here
    from rollouthub.views.report.compared_facts import task_transcript

    played = [place for place, side in enumerate(task.sides) if side is not None]
    others = played[1:]

    def mean(place: int) -> float:
        side = task.sides[place]
        value = None if side is None else side.mean_reward
        return float("-inf") if value is None else value

    chosen = [(played[0], "best"), *([(min(others, key=mean), "worst")] if others else [])]
    for place, which in chosen:
        label, run = page.runs[place]
        told = task_transcript(run, task.key, "best" if which == "best" else "worst", plainness_here())
        if told is not None:
            yield Group(Text(f"{label}, {which} sample", style="bold underline"), *_told(told))


def _told(told: Transcript) -> Iterator[Text]:
    for part in told.cards:
        for card in (part,) if isinstance(part, NoteCard) else part.cards:
            for label, text, style in passages(card):
                text.stylize_before(style)
                yield Text.assemble((f"{label}\n" if label else "", f"bold {style}"), text)
        yield Text()
    if told.verdict is not None:
        yield from verdict_lines(told.verdict)
    else:  # its record was too large to read
        worth = "no reward" if told.reward is None else f"reward {number(told.reward)}"
        yield Text(f"{worth} ({told.outcome}, stopped: {told.stop})", "bold")
    yield Text(count(told.turns, "turn"), "dim")
