"""`hub show`: shows a run's figures and rollouts, or one rollout in full."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.find_run import RUNS, RootOption, find_run
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.text import escaped

if TYPE_CHECKING:
    from rollouthub.rollout import Rollout
    from rollouthub.store import RunReader

RunArgument = Annotated[
    str,
    typer.Argument(
        autocompletion=completion.runs, metavar="RUN", help="A run's directory, its name under runs/, or 'last'."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

RolloutArgument = Annotated[
    str | None,
    typer.Argument(metavar="ROLLOUT", help="A rollout's id or the start of it; or the id of a task played once."),
]
AttemptOption = Annotated[
    int | None, typer.Option(min=0, help="Show this attempt of ROLLOUT; by default the one whose score counts.")
]
WhereOption = Annotated[
    str,
    typer.Option(metavar="FILTER", help="List only rollouts that match: 'reward < 1 and outcome == \"scored\"'."),
]
SortOption = Annotated[
    str | None, typer.Option(metavar="[-]COLUMN", help="Sort the list by this column; with - in descending order.")
]
ByOption = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="List a line for each value of this column: task, environment, outcome …"),
]
LimitOption = Annotated[
    int | None, typer.Option(min=0, help="List at most this many (20 by default, all with --json); 0 lists all.")
]
FailedOption = Annotated[
    bool, typer.Option("--failed", help="List only rollouts that were not scored or did not pass.")
]
NeedsReviewOption = Annotated[
    bool,
    typer.Option(
        "--needs-review",
        help="List only what a person should look at, and why: suspect scores, verifier faults, judges that contradict "
        "rules, samples that contradict the others of their task. `hub note --reviewed` takes it off the list.",
    ),
]
TrainerLogsOption = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="Show the loss and KL of a trainer's logs beside the run's rewards."),
]
ArtifactsOption = Annotated[
    bool, typer.Option("--artifacts", help="List the files that were collected when ROLLOUT ended.")
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="Write the artifacts of ROLLOUT to this folder.")
]

_USUAL = 20
_FAILED = 'outcome != "scored" or passed == false'
"""The filter expression that --failed adds to other filters."""


def show(
    run: RunArgument,
    rollout: RolloutArgument = None,
    attempt: AttemptOption = None,
    where: WhereOption = "",
    sort: SortOption = None,
    by: ByOption = None,
    limit: LimitOption = None,
    failed: FailedOption = False,
    needs_review: NeedsReviewOption = False,
    trainer_logs: TrainerLogsOption = None,
    artifacts: ArtifactsOption = False,
    output: OutputOption = None,
    root: RootOption = RUNS,
    as_json: JsonOption = False,
) -> None:
    """Show a run's figures and rollouts, or one rollout in full.

    --where, --sort and --by choose what is listed, in the filter language of `hub watch`; with --json the list is
    printed as JSON. Without them --json prints the run's figures.
    """
    if rollout is None and (artifacts or output is not None):
        raise ConfigError("artifacts are of one rollout: hub show RUN ROLLOUT --artifacts")
    if rollout is None and trainer_logs is None and (where or sort or by or needs_review):
        from rollouthub.cli.show.chosen_rollouts import print_chosen

        wanted = _FAILED if failed and not where else f"({where}) and ({_FAILED})" if failed else where
        print_chosen(
            find_run(run, root),
            where=wanted,
            sort=sort,
            by=by,
            limit=limit,
            needs_review=needs_review,
            as_json=as_json,
        )
        return
    shown, directory = _USUAL if limit is None else limit, find_run(run, root)
    from rollouthub.cli.console import results
    from rollouthub.store import open_run

    if trainer_logs is not None:
        from rollouthub.cli.show.trainer_view import show_beside

        show_beside(results(), directory, trainer_logs, limit=shown, as_json=as_json)
        return
    with open_run(directory) as reader:
        if rollout is None:
            _show_run(reader, shown, only_failed=failed, as_json=as_json)
            return
        record = find_rollout(reader, rollout, attempt)
        if artifacts or output is not None:
            from rollouthub.cli.show.artifact_files import show_artifacts

            show_artifacts(results(), reader, record, output, as_json=as_json)
        else:
            from rollouthub.cli.show.transcript_view import print_rollout
            from rollouthub.export.records import record_line
            from rollouthub.store.notes import RunNotes

            notes = RunNotes.read(directory).of(record.rollout_id, record.attempt)
            if as_json:
                sys.stdout.write(escaped(record_line(record, notes)) + "\n")
            else:
                print_rollout(results(), record, notes)


def _show_run(reader: "RunReader", limit: int, *, only_failed: bool, as_json: bool) -> None:
    from rollouthub.cli.console import results
    from rollouthub.cli.run.final_tables import print_summary
    from rollouthub.cli.run_tables import rollouts_table
    from rollouthub.engine.run_summary import summarise

    summary = summarise(reader)
    if as_json:
        sys.stdout.write(json.dumps(summary.as_json()) + "\n")
        return
    console = results()
    table, left_out = rollouts_table(reader, limit=limit, only_failed=only_failed, width=console.width)
    console.print(table)
    if left_out:
        console.print(f"… and {left_out} more (--limit 0 lists all)", style="dim", highlight=False)
    console.print()
    print_summary(console, summary, is_served=_is_served(reader))


def _is_served(reader: "RunReader") -> bool:
    """Whether `hub serve` made the run, so that `hub run` cannot resume it."""
    from rollouthub.gateway.sessions.external_agent import EXTERNAL_AGENT

    request = reader.info.resolved.get("request")
    return isinstance(request, dict) and request.get("agent") == EXTERNAL_AGENT


def find_rollout(reader: "RunReader", name: str, attempt: int | None) -> "Rollout":
    """The rollout that a ROLLOUT argument names, by its id or its task's id.

    Raises:
        UsageError: no rollout matches, or several do.
    """
    try:
        return reader.rollout(name, attempt)
    except UnknownNameError:
        played = [row.rollout_id for row in reader.summaries() if row.task_id == name]
        if not played:
            raise
        if len(played) > 1:
            listing = ", ".join(played[:8]) + (" …" if len(played) > 8 else "")
            raise ConfigError(f"task {name!r} has {len(played)} rollouts, name one of them: {listing}") from None
        return reader.rollout(played[0], attempt)
