"""Gathers the facts of a report from the run store."""

import sqlite3
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from typing import Any, cast

from rollouthub.analysis.compare.comparison import Comparison
from rollouthub.errors import RunDirectoryError
from rollouthub.gateway.sessions.external_agent import EXTERNAL_AGENT
from rollouthub.plugins.lock import lock_in
from rollouthub.statistics.spacing import evenly_spaced
from rollouthub.store import RunInfo, RunReader
from rollouthub.store.notes import RunNotes
from rollouthub.store.trainer_steps import read_steps
from rollouthub.views.cards.embedded_pictures import EmbeddedPictures
from rollouthub.views.report.compared_facts import comparison_facts
from rollouthub.views.report.noted_rollouts import noted_rollouts
from rollouthub.views.report.phrases import KINDS
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.report.report_facts import (
    FaultClass,
    LoggedFigures,
    Quantiles,
    Report,
    ReportedUsage,
    Resumed,
    RunReport,
)
from rollouthub.views.report.report_figures import Tables, distribution, quantiles, tabulate
from rollouthub.views.report.rollout_choice import choose
from rollouthub.views.report.run_identity import identify
from rollouthub.views.report.run_moment import one_moment

STAGES = {"seconds": "total"} | {
    f"{name}_seconds": name for name in ("queue", "setup", "agent", "model", "tool", "verify", "close")
}
SIZES = {
    "turns": "turns",
    "tool_calls": "tool calls",
    "prompt_tokens": "prompt tokens",
    "output_tokens": "output tokens",
}
_REWARDS = "SELECT reward FROM rollouts WHERE effective AND reward IS NOT NULL"
MOST_FAULTS = 40
MOST_TRAINER_STEPS = 200
TRANSCRIPTS = 3
"""By default a report has this many of the worst rollouts, of the best, and of the unscored."""


@dataclass(frozen=True)
class ReportedRun:
    """A run to report on."""

    directory: Path
    name: str
    """The run's name in the report."""


def gather(
    runs: Sequence[ReportedRun],
    plainness: Plainness,
    *,
    transcripts: int = TRANSCRIPTS,
    comparison: Comparison | None = None,
) -> Report:
    """Gather all facts of a report; one of a comparison has the transcripts of tasks that got worse, and no others.

    Raises:
        RunDirectoryError: a run does not exist, or cannot be read by this version.
        StoreError: a run cannot be read just now.
    """
    return Report(
        made_at=time.time(),
        hub_version=version("rollouthub"),
        runs=tuple(_read(run, plainness, transcripts) for run in runs),
        comparison=None if comparison is None else comparison_facts(comparison, plainness, TRANSCRIPTS),
    )


def _read(run: ReportedRun, plainness: Plainness, transcripts: int) -> RunReport:
    try:
        return _gather_run(run, plainness, transcripts)
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # rows that no version of ours has written
        raise RunDirectoryError(
            f"the run in {run.directory} cannot be reported: it is damaged, or not what this version of rollouthub "
            f"writes ({plainness.name(str(error))})"
        ) from error


def _gather_run(run: ReportedRun, plainness: Plainness, transcripts: int) -> RunReport:
    with one_moment(run.directory) as (info, reader, connection):
        request = info.resolved.get("request")
        repeats = request.get("repeats") if isinstance(request, dict) else None
        tables = tabulate(connection, repeats if isinstance(repeats, int) else 1, info.planned, plainness)
        columns = quantiles(connection, [*STAGES, *SIZES])
        settings = plainness.settings(request) if isinstance(request, dict) else {}
        totals = reader.totals()
        notes = RunNotes.read(run.directory)
        noted, noted_left_out = noted_rollouts(notes, connection, plainness)
        missing = [] if notes.problem is None else [f"Notes may be missing: {plainness.ours(notes.problem)}."]
        return RunReport(
            name=plainness.name(run.name),
            run_id=plainness.name(info.run_id),
            status=info.status,
            notices=(*_notices(info, tables, plainness), *_helped(connection), *missing),
            created_at=info.created_at,
            finished_at=info.finished_at,
            hub_version=plainness.name(info.hub_version),
            is_locked=lock_in(run.directory) is not None,
            commands=tuple(_commands(run, info, plainness)),
            identity=identify(info, connection, plainness),
            settings=settings if isinstance(settings, dict) else {},
            figures=tables.overall,
            environments=tables.environments,
            at_k=tables.at_k,
            rewards=distribution(reward for (reward,) in connection.execute(_REWARDS)),
            outcomes=tables.outcomes,
            stops=tables.stops,
            stages=_renamed(columns, STAGES),
            sizes=_renamed(columns, SIZES),
            attempts=totals.attempts,
            usage=tuple(_usage(reader, connection, plainness)),
            groups=tables.groups,
            groups_left_out=tables.groups_left_out,
            transcripts=tuple(choose(connection, transcripts, EmbeddedPictures(run.directory), plainness))
            if transcripts
            else (),
            faults=_faults(reader, plainness),
            bad_rows=info.bad_rows,
            resumptions=tuple(
                Resumed(
                    at=each.at,
                    hub_version=plainness.name(each.hub_version),
                    changes=tuple(plainness.ours(change) for change in each.changes),
                )
                for each in info.resumptions
            ),
            trainer=tuple(
                LoggedFigures(step=each.step, at=each.time, figures=each.metrics)
                for each in evenly_spaced(read_steps(run.directory), MOST_TRAINER_STEPS)
            ),
            noted=noted,
            noted_left_out=noted_left_out,
        )


def _commands(run: ReportedRun, info: RunInfo, plainness: Plainness) -> list[str]:
    """The commands that play the run again; none if `hub serve` or `hub score` made it."""
    request: Any = info.resolved.get("request")
    if not isinstance(request, dict) or "rescored" in info.resolved or info.read_from is not None:
        return []
    asked = cast(dict[str, Any], request)
    if not asked.get("environments") or asked.get("agent") == EXTERNAL_AGENT:
        return []
    folder = plainness.name(run.name)
    locked = lock_in(run.directory)
    lock = "" if locked is None else f" --lock {quote(f'{folder}/{locked.name}')}"
    return [f"hub run --config {quote(f'{folder}/resolved.json')}{lock} -o runs/again"]


def _renamed(columns: dict[str, Quantiles], names: dict[str, str]) -> dict[str, Quantiles]:
    return {title: columns[column] for column, title in names.items() if column in columns}


def _notices(info: RunInfo, tables: Tables, plainness: Plainness) -> list[str]:
    """Warnings about the figures: an unfinished run, unscored rollouts, rows left out, and the like."""
    found = [plainness.ours(line) for line in info.origin_lines]
    played = tables.overall.played
    missing = max(0, (info.planned or 0) - played)
    of = f"{played:,} of {info.planned:,} rollouts are" if info.planned else f"{played:,} rollouts are"
    match info.status:
        case "running" | "dead" | "interrupted" | "failed" if info.read_from is not None:
            found.append(f"Its files are not read to their end: {of} there so far, and the figures will change.")
        case "running":
            found.append(f"This run is on: {of} there so far, and the figures will change.")
        case "dead":
            found.append(
                f"The process that played this run ended before the run did: {of} there. "
                "`hub run --resume` plays the rest."
            )
        case "interrupted":
            found.append(f"This run was interrupted: {of} there. `hub run --resume` plays the rest.")
        case "failed":
            found.append(f"This run failed before its end: {of} there.")
        case "finished":
            if missing:
                found.append(f"{missing:,} planned rollouts were not played.")
    if "rescored" in info.resolved:
        found.append("Another run was played, and its rollouts got new rewards here (`hub score`).")
    if info.stopped:
        found.append(f"It stopped by itself: {plainness.ours(info.stopped)}")
    if not played:
        found.append("No rollout has ended yet, so there is nothing to report but what was asked for.")
    elif 0 < tables.overall.scored < played:
        kinds = [f"{count:,} {KINDS[kind]}" for kind, count in tables.overall.kinds.items() if kind != "scored"]
        found.append(f"{played - tables.overall.scored:,} of {played:,} rollouts have no score ({', '.join(kinds)}).")
    elif not tables.overall.scored:
        found.append("No rollout was scored, so there is no mean: unscored is not zero.")
    if info.bad_rows:
        found.append(f"{info.bad_rows:,} rows of the data make no task, and were left out.")
    return found


def _helped(connection: sqlite3.Connection) -> list[str]:
    """Warnings about scores that a person helped with, or that their verifier marked as suspect."""
    (helped,) = connection.execute(
        "SELECT count(*) FROM rollouts WHERE effective AND json_array_length(body, '$.told') > 0"
    ).fetchone()
    (suspect,) = connection.execute("SELECT count(*) FROM rollouts WHERE effective AND suspect").fetchone()
    found = [f"In {helped:,} of these rollouts a person spoke to the agent while it played."] if helped else []
    if suspect:
        found.append(f"{suspect:,} of the scores are suspect: their verifier gave a reason not to trust them.")
    return found


def _usage(reader: RunReader, connection: sqlite3.Connection, plainness: Plainness) -> list[ReportedUsage]:
    """Token use and cost of the agent's model, then of each role that environments call themselves."""
    totals = reader.totals()
    roles = reader.role_usage()
    (calls,) = connection.execute("SELECT count(*) FROM turns").fetchone()
    spent = [usage.cost for usage in roles.values() if usage.cost is not None]
    # Columns hold the cost of all calls, the roles' included.
    own = None if totals.cost is None else max(0.0, totals.cost - sum(spent))
    return [
        ReportedUsage(
            role="", calls=calls, prompt_tokens=totals.prompt_tokens, output_tokens=totals.output_tokens, cost=own
        ),
        *(
            ReportedUsage(
                role=plainness.name(role),
                calls=usage.calls,
                prompt_tokens=usage.prompt_tokens,
                output_tokens=usage.output_tokens,
                cost=usage.cost,
            )
            for role, usage in sorted(roles.items())
        ),
    ]


def _faults(reader: RunReader, plainness: Plainness) -> tuple[FaultClass, ...]:
    examples = reader.fault_examples()
    return tuple(
        FaultClass(name=plainness.name(name), attempts=count, example=plainness.ours(examples.get(name) or ""))
        for name, count in list(reader.attempt_faults().items())[:MOST_FAULTS]
    )
