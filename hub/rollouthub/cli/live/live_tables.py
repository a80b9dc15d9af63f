"""Prints runs, rollouts in flight and events. The text that arrives is free of control characters and is not markup."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollouthub.cli.live.machine_lines import machine_lines, shell_line
from rollouthub.live.control.live_protocol import Event
from rollouthub.live.control.live_views import CallView, RolloutDetails, RolloutView, RunView, TurnView
from rollouthub.statistics.amounts import clock, dollars, number, seconds, share, turn_number

_STATUS = {"running": "cyan", "paused": "yellow", "finishing": "yellow", "stopping": "red"}
_ID_COLUMNS = 14
MARGIN = " " * 10


def run_lines(run: RunView) -> Iterator[Text]:
    """Format a run's status, progress, figures and machines in a few lines."""
    yield Text.assemble((run.directory, "bold"), f"  {run.run_id}  ", (run.status, _STATUS[run.status]))
    model = f" with {run.model}" if run.model else ""
    yield Text(f"  {'+'.join(run.environments)} played by {run.agent}{model}, process {run.pid}")
    facts = [f"{_count(run.done)}/{_count(run.planned)} done", f"{run.in_flight} in flight"]
    if run.concurrency is not None:
        facts.append(f"{run.concurrency} at a time")
    if run.workers is not None:
        facts.append(f"{run.workers} workers")
    facts.append(clock(run.seconds))
    yield Text("  " + " · ".join([*facts, *_means(run.means)]))
    yield from machine_lines(run)


def _means(means: Mapping[str, object] | None) -> Iterator[str]:
    if means is None:
        yield "the store could not be asked for means"
        return
    figures = (
        ("mean_reward", "mean reward", number),
        ("mean_reward_strict", "strict", number),
        ("pass_rate", "pass rate", share),
    )
    for name, label, write in figures:
        value = means.get(name)
        if isinstance(value, float):
            yield f"{label} {write(value)}"
    outcomes = means.get("outcomes")
    if isinstance(outcomes, dict):
        for outcome, count in sorted(cast(dict[str, int], outcomes).items()):
            yield f"{outcome.replace('_', ' ')} {count}"


def _count(value: int | None) -> str:
    return "?" if value is None else str(value)


def rollouts_table(rollouts: Sequence[RolloutView]) -> Table:
    """A table of rollouts in flight, one row each, in the given order."""
    table = Table(box=None, pad_edge=True, header_style="bold")
    table.add_column("rollout", no_wrap=True)
    table.add_column("environment", no_wrap=True)
    table.add_column("task", overflow="fold")
    for title in ("sample", "attempt"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for title in ("turn", "tokens", "time"):
        table.add_column(title, justify="right", no_wrap=True)
    for view in rollouts:
        table.add_row(
            view.rollout_id,
            Text(view.environment),
            Text(view.task_id),
            str(view.sample),
            str(view.attempt),
            view.state,
            str(view.turn),
            str(view.output_tokens),
            seconds(view.seconds),
        )
    return table


def event_line(event: Event) -> Text:
    """Format an event in one line."""
    match event.kind:
        case "dropped":
            return Text(f"{event.count} events are missing here: they came faster than they were read", "yellow")
        case "run_ended":
            return Text(f"the run has ended: {event.ending}", "bold")
        case "started":
            again = f", attempt {event.attempt}" if event.attempt else ""
            said = Text(f"started   {event.environment} {event.task_id}, sample {event.sample}{again}")
        case "state":
            said = Text(f"→ {event.state:<7} turn {event.turn}, {event.output_tokens} tokens", "dim")
        case "turn":
            calls = f", calls {', '.join(event.asked)}" if event.asked else ""
            spent = f"{event.output_tokens:,} tokens in {seconds(event.seconds)}"
            said = Text(f"{turn_number(event.turn):<9} {spent}{calls}", "green")
        case "tool":
            style = "red" if event.outcome == "error" else "magenta"
            said = Text(f"tool      {event.name}: {event.outcome}, {seconds(event.seconds)}", style)
        case "finished":
            reward = "" if event.reward is None else f", reward {number(event.reward)}"
            fault = f", {event.fault}" if event.fault else ""
            said = Text(f"finished  {event.outcome}{reward}, stopped: {event.stop}{fault}", "bold")
    return Text.assemble(f"{event.rollout_id:<{_ID_COLUMNS}} ", said)


def print_rollout(console: Console, shown: RolloutDetails) -> None:
    """Print a rollout's facts, then its turns."""
    console.print(Text(f"{shown.rollout_id}  attempt {shown.attempt}  {shown.state}", style="bold"))
    console.print(Text(f"{shown.environment}, task {shown.task_id}, sample {shown.sample}, seed {shown.seed}"))
    console.print(Text(f"agent {shown.agent}, model {shown.model or 'none'}"))
    limits = ", ".join(f"{name} {value:g}" for name, value in shown.limits if value is not None)
    console.print(Text(f"limits: {limits or 'none'}{', changed while it plays' if shown.retuned else ''}"))
    cost = f", {dollars(shown.cost)}" if shown.cost else ""
    console.print(
        Text(
            f"{seconds(shown.seconds)} (model {seconds(shown.model_seconds)}, tools {seconds(shown.tool_seconds)}), "
            f"{shown.output_tokens:,} tokens{cost}"
        )
    )
    console.print(shell_line(shown), soft_wrap=True)
    if shown.turns_left_out:
        console.print(Text(f"{shown.turns_left_out} turns before these are left out", style="dim"))
    for turn in shown.turns:
        _print_turn(console, turn)


def _print_turn(console: Console, turn: TurnView) -> None:
    parent = "" if turn.parent_turn is None else f", after {turn_number(turn.parent_turn)}"
    facts = f"{turn.output_tokens:,} tokens, {seconds(turn.seconds)}"
    console.print(Text(f"── {turn_number(turn.index)} ({turn.agent}{parent})  {facts}", style="dim"))
    for said in turn.messages or ():
        _print_block(console, said.role, said.text)
    answered = [call.name for call in turn.calls]
    for name in turn.asked:
        if name in answered:
            answered.remove(name)
        else:
            _print_block(console, "calls", f"{name}, not answered yet")
    for call in turn.calls:
        _print_call(console, call)


def _print_call(console: Console, call: CallView) -> None:
    arguments = f" {call.arguments}" if call.arguments is not None else ""
    _print_block(console, "called", f"{call.name}{arguments}: {call.outcome}, {seconds(call.seconds)}")
    if call.result is not None:
        _print_block(console, "gave", call.result)


def _print_block(console: Console, label: str, text: str) -> None:
    lines = text.splitlines() or [""]
    for index, line in enumerate(lines):
        beginning = Text(f"{label:>9} ", "bold") if index == 0 else Text(MARGIN)
        console.print(Text.assemble(beginning, line), soft_wrap=True)
