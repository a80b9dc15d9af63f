"""What `hub doctor` checks, and how it prints its findings."""

import json
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollouthub.analysis.checkup.check_result import Finding
from rollouthub.analysis.run_doctor.examine import LISTED, Examination
from rollouthub.analysis.run_doctor.symptom import Symptom
from rollouthub.cli.console import results
from rollouthub.errors import ConfigError
from rollouthub.event_loop import run_async
from rollouthub.statistics.amounts import number
from rollouthub.text import one_line

_MARKS = {
    "ok": ("ok     ", "green"),
    "missing": ("missing", "yellow"),
    "poor": ("poor   ", "yellow"),
    "broken": ("broken ", "bold red"),
}
_WEIGHTS = {"problem": ("problem", "bold red"), "remark": ("remark ", "yellow"), "fact": ("fact   ", "dim")}


def examine_things(given: dict[str, Any], environments: Sequence[str], ray: str | None) -> list[Finding]:
    """Check the model, environments and Ray cluster that were named; if none was, check this machine.

    Raises:
        UsageError: a name or a setting does not hold.
    """
    from rollouthub.analysis.checkup.installation import examine
    from rollouthub.analysis.checkup.ray_check import ray_findings

    if "model" not in given and given.keys() & {"base_url", "lane"}:
        raise ConfigError("--base-url and --lane are a model's; name it: hub doctor -m hosted_vllm/NAME")
    if not environments and given.keys() & {"set", "split"}:
        raise ConfigError("--set and --split are an environment's; name it: hub doctor -e ENV")
    if not ("model" in given or environments or ray):
        return examine()
    found: list[Finding] = []
    if "model" in given or environments:
        found += run_async(_tried, {**given, "environments": environments})
    if ray:
        found += ray_findings(ray)
    return found


async def _tried(given: dict[str, Any]) -> list[Finding]:
    from rollouthub.analysis.checkup.model_check import model_findings
    from rollouthub.analysis.checkup.task_check import task_findings
    from rollouthub.engine.policy_model import policy_model
    from rollouthub.engine.run_request import build_request
    from rollouthub.models.credentials import load_credentials

    request = build_request(given, "command line")
    credentials = load_credentials(os.environ, Path.cwd())
    found: list[Finding] = []
    config = policy_model(request)
    looks: list[AsyncIterator[Finding]] = []
    if config is not None:
        looks.append(model_findings(config, credentials))
    if request.environments:
        looks.append(task_findings(request.model_copy(update={"base_url": (), "lane": None}), credentials))
    for look in looks:
        found += [finding async for finding in look]
    return found


def print_findings(findings: Sequence[Finding], as_json: bool) -> None:
    """Print the findings as JSON, or as one row each with its remedy below."""
    if as_json:
        typer.echo(json.dumps([finding.as_json() for finding in findings]))
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        mark, style = _MARKS[finding.state]
        says = Text(finding.says)
        if finding.mend and finding.state != "ok":
            says.append(f"\n→ {finding.mend}", style="dim")
        table.add_row(Text(mark, style=style), Text(finding.name, style="bold"), says)
    results().print(table)


def print_examination(console: Console, examination: Examination) -> None:
    """Print what is wrong with a run, the most serious first, then its outlier rollouts."""
    console.print(
        Text.assemble(
            (str(examination.directory), "bold"), f": {examination.scored:,} of {examination.rollouts:,} scored"
        )
    )
    console.print()
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for symptom in examination.symptoms:
        mark, style = _WEIGHTS[symptom.weight]
        table.add_row(Text(mark, style=style), _symptom_text(symptom))
    if not examination.symptoms:
        table.add_row(Text("ok", style="green"), "nothing strange was found")
    console.print(table)
    if examination.outliers:
        console.print()
        console.print(_outliers(examination, console.width))
        left = len(examination.outliers) - LISTED
        if left > 0:
            console.print(f"… and {left:,} more (--json lists all)", style="dim", highlight=False)


def _symptom_text(symptom: Symptom) -> Text:
    text = Text.assemble((symptom.name, "bold"), f": {one_line(symptom.says)}")
    if symptom.cause:
        text.append(f"\ncause: {symptom.cause}")
    if symptom.mend:
        text.append(f"\n→ {symptom.mend}", style="dim")
    if symptom.examples:
        text.append(f"\nrollouts: {' '.join(symptom.examples)}", style="dim")
    return text


def _outliers(examination: Examination, width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("outlier", no_wrap=True)
    if width >= 100:
        table.add_column("task", overflow="fold")
    table.add_column("reward", justify="right", no_wrap=True)
    table.add_column("far off by", justify="right", no_wrap=True)
    table.add_column("in", overflow="fold")
    for outlier in examination.outliers[:LISTED]:
        attempt = outlier.attempt
        cells = [attempt.rollout_id, *([Text(attempt.task_id)] if width >= 100 else [])]
        reward = number(attempt.reward)
        table.add_row(*cells, reward, f"{outlier.score:.0f} σ", "; ".join(outlier.why))
    return table
