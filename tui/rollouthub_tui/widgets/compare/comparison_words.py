"""The result of a comparison of two runs in words."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from rollouthub.analysis.compare.comparison import RunStanding
from rollouthub.analysis.compare.task_pairs import LEVEL, Side, TaskDifference
from rollouthub.statistics import Estimate
from rollouthub.statistics.amounts import NONE, count, estimate, number, p_value, share, signed
from rollouthub.views.terminal.outcome_styles import ENDINGS
from rollouthub.views.terminal.task_verdicts import VERDICTS
from rollouthub_tui.widgets.compare.run_pair import Pairing
from rollouthub_tui.widgets.safe_words import named, quoted

SIDES = ("A", "B")


def span(found: Estimate | None, *, is_share: bool = False) -> str:
    """An estimate with its confidence interval."""
    return NONE if found is None else estimate(found.value, found, share if is_share else number)


def headline(pairing: Pairing, width: int) -> Text:
    """Lines for each run, their difference, and its significance."""
    said = Text(no_wrap=False)
    sides = zip(SIDES, pairing.labels, pairing.comparison.standings, pairing.passing, strict=True)
    for side, label, standing, passing in sides:
        said.append_text(_standing(side, label, standing, passing, width))
        said.append("\n")
    said.append_text(_difference(pairing.comparison.standings[1].difference))
    said.append("\n")
    said.append(_common(pairing))
    return said


def _standing(side: str, label: str, standing: RunStanding, passing: Estimate | None, width: int) -> Text:
    label, run = named(label), named(Path(standing.run).name)
    who = f"{run}  " + (f"{label}  " if run != label else "")
    figures = f"reward {span(standing.mean_reward)}  pass {span(passing, is_share=True)}"
    scored = f"{standing.scored:,}/{standing.rollouts:,} scored"
    broken = {kind: many for kind, many in standing.outcomes.items() if kind != "scored"}
    words = f"{scored} ({_kinds(broken)})" if broken else scored
    whole = f"{who}{words}   {figures}"
    if len(whole) + 2 <= width:
        return Text.assemble((f"{side} ", "bold"), whole)
    marks = " ".join(f"{ending.mark}{broken[kind]:,}" for kind, ending in ENDINGS.items() if kind in broken)
    return Text.assemble((f"{side} ", "bold"), f"{who}{scored}" + (f" {marks}" if marks else ""), f"\n  {figures}")


def _kinds(kinds: Mapping[Any, int]) -> str:
    endings = [(ending, kinds.get(kind, 0)) for kind, ending in ENDINGS.items()]
    return ", ".join(f"{many:,} {ending.word if many == 1 else ending.plural}" for ending, many in endings if many)


def _difference(found: Estimate | None) -> Text:
    if found is None or found.value is None:
        return Text("B − A: no task was scored in both")
    over = f", {count(found.tasks, 'task')} paired: "
    if found.low is None or found.high is None:
        return Text(f"B − A {signed(found.value)}{over}too few to say whether it is chance")
    words = f"B − A {estimate(found.value, found, signed)}{over}"
    if found.low > 0:
        return Text.assemble(words, ("▲ B is better beyond chance", "bold green"))
    if found.high < 0:
        return Text.assemble(words, ("▼ B is worse beyond chance", "bold red"))
    return Text(f"{words}this may be chance")


def _common(pairing: Pairing) -> str:
    comparison = pairing.comparison
    said = [f"{count(comparison.common, 'task')} in common"]
    said += [f"{count(many, 'task')} of {label} left out" for label, many in comparison.left_out.items()]
    said += [quoted(remark, 300) for remark in comparison.remarks]
    return "; ".join(said)


def tally(tasks: Sequence[TaskDifference], done: int | None) -> Text:
    """How many tasks have which verdict; `done` is how many are tested so far, None for all."""
    found = [task.verdict for task in tasks]
    said = Text("")
    for name, (words, style) in VERDICTS.items():
        many = found.count(name)
        if many:
            said.append(f"{words} {many:,}   ", style=style if name in ("worse", "better") else "")
    if done is not None:
        said.append(f"testing for chance: {done:,} of {len(tasks):,} tasks …")
    return said


def samples(task: TaskDifference) -> str:
    """How many samples each side has; and how many are scored, if not all are."""
    return f"{_samples(task.first)} {_samples(task.second)}"


def _samples(side: Side) -> str:
    return str(side.samples) if len(side.rewards) == side.samples else f"{len(side.rewards)}/{side.samples}"


def unscored(task: TaskDifference) -> str:
    """The outcomes of samples that were not scored."""
    sides = [(name, _kinds(side.unscored)) for name, side in zip(SIDES, (task.first, task.second), strict=True)]
    return "; ".join(f"{name}: {words}" for name, words in sides if words)


def detail(task: TaskDifference) -> Text:
    """A compared task's mean rewards, passes and unscored samples on each side, and the p value of the difference."""
    key = task.key
    said = Text(f"{named(key.environment)} / {named(key.split)} / {named(key.task_id)}\n")
    for name, side in zip(SIDES, (task.first, task.second), strict=True):
        said.append(f"{name} {number(side.mean_reward)} over {len(side.rewards)} of {side.samples}")
        said.append("" if side.passed is None else f", {side.passed} passed")
        broken = _kinds(side.unscored)
        said.append(f" ({broken})   " if broken else "   ")
    if task.chance is not None and task.adjusted is not None:
        drawn = "" if task.chance.is_exact else ", by drawing"
        said.append(f"p {p_value(task.chance.p)}{drawn}, adjusted {p_value(task.adjusted)}")
    elif task.difference:
        said.append(f"so few samples cannot show a difference at {LEVEL:g}")
    return said
