"""What `hub play` does: one sample is played by the person at the terminal, and its result printed."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from rich.text import Text

from rollouthub.cli.console import remarks, results
from rollouthub.cli.logs import log_to_run
from rollouthub.cli.run.action import INTERRUPTED, TerminalRun
from rollouthub.cli.run.run_progress import LiveView
from rollouthub.cli.show.transcript_view import verdict
from rollouthub.engine.directories import default_directory
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import as_toml, build_request
from rollouthub.event_loop import run_async
from rollouthub.models.credentials import load_credentials
from rollouthub.rollout import Outcome, Rollout
from rollouthub.store import open_run


def play_command(given: dict[str, Any], output: Path | None, as_json: bool) -> int:
    """Play one sample and print its result; returns the exit code."""
    request = build_request(given, "command line")
    plan = make_plan(request)
    directory = output or default_directory(plan)
    credentials = load_credentials(os.environ, Path.cwd())
    view = LiveView(remarks(), plan, is_quiet=True)
    run = TerminalRun(plan, directory, as_toml(request), False, credentials, view)
    with log_to_run(directory):
        run_async(run.play)
    rollout = _record(directory)
    if rollout is None:
        remarks().print(Text("nothing was played, and nothing is recorded", style="dim"))
        return INTERRUPTED
    if as_json:
        sys.stdout.write(json.dumps(facts(rollout, directory)) + os.linesep)
    else:
        _show(rollout, directory)
    if rollout.outcome is Outcome.CANCELLED:
        return INTERRUPTED
    return 0 if rollout.outcome is Outcome.SCORED else 1


def _record(directory: Path) -> Rollout | None:
    if not (directory / "run.db").exists():
        return None
    with open_run(directory) as reader:
        row = next(iter(reader.summaries()), None)
        return None if row is None else reader.rollout(row.rollout_id)


def facts(rollout: Rollout, directory: Path) -> dict[str, JsonValue]:
    """The result of an episode, as JSON."""
    score = rollout.score
    return {
        "run": str(directory),
        "rollout": rollout.rollout_id,
        "environment": rollout.environment.name,
        "version": rollout.environment.version,
        "split": rollout.task.split,
        "task": rollout.task.id,
        "outcome": rollout.outcome.value,
        "stop": rollout.stop.value,
        "reward": None if score is None else score.reward,
        "passed": None if score is None else score.passed,
        "suspect": None if score is None else score.suspect,
        "answer": rollout.answer,
        "turns": len(rollout.turns),
        "seconds": round(rollout.timings.agent, 3),
    }


def _show(rollout: Rollout, directory: Path) -> None:
    console = results()
    console.print()
    for line in verdict(rollout):
        console.print(line)
    console.print(Text(str(directory), style="bold"))
    console.print(Text(f"Look inside with: hub show {directory} {rollout.rollout_id}", style="dim"))
