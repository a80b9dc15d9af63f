"""`hub score`: scores for completions that are there already, and new scores for a run."""

from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.find_run import RUNS
from rollouthub.cli.options import QuietOption
from rollouthub.cli.settings_command import SettingsCommand, given_settings


class ScoreCommand(SettingsCommand):
    """`hub score`: the settings that concern a verifier."""

    taken = ("roles", "set", "deadlines.verify", "in_process")


def score(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.runs,
            metavar="FILE|RUN",
            help="JSON lines with task_id and completion or messages (.gz too, - for stdin); or a run to score again.",
        ),
    ],
    environment: Annotated[
        str | None,
        typer.Option(
            "-e",
            "--env",
            autocompletion=completion.environments,
            metavar="ENV",
            help="The environment whose verifier scores; for a run, its own by default.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", help="The output: FILE.scored.jsonl by default, - for stdout; for a run, RUN-rescored."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an existing output: lines already scored stay.")
    ] = False,
    split: Annotated[str | None, typer.Option(help="The split of tasks; the first by default.")] = None,
    seed: Annotated[int | None, typer.Option(help="The seed the tasks were made with.")] = None,
    answer_field: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="The field that holds the submitted answer; the last message by default."),
    ] = None,
    concurrency: Annotated[int, typer.Option("-c", "--concurrency", min=1, help="Lines scored at once.")] = 32,
    limit: Annotated[int | None, typer.Option(min=1, help="Score only the first N lines.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Write lines that cannot be scored back as bad_row, and go on.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
    quiet: QuietOption = False,
    root: Annotated[Path, typer.Option(help="Where runs are kept.")] = RUNS,
) -> None:
    """Score stored completions in batch, or a run's rollouts again. Only models that verifiers use are called.

    Exit codes: 0 every line scored, 1 some not, 2 usage, 130 interrupted.
    """
    from rollouthub.cli.score.action import ScoreOptions, score_file
    from rollouthub.cli.score.rescore_action import rescore_run

    given = given_settings(ctx)
    order = ScoreOptions(
        source=source,
        environment=environment,
        output=output,
        resume=resume,
        split=split,
        seed=seed,
        settings=given.get("set", {}),
        roles={role: {"name": model} for role, model in given.get("roles", {}).items()},
        answer_field=answer_field,
        concurrency=concurrency,
        limit=limit,
        skip_bad=skip_bad,
        in_process="in_process" in given,
        deadlines=given.get("deadlines", {}),
        as_json=as_json,
        quiet=quiet,
    )
    is_file = source == "-" or Path(source).is_file() or source.endswith((".jsonl", ".gz", ".json"))
    raise typer.Exit(score_file(order) if is_file else rescore_run(order, root))
