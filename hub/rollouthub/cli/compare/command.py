"""`hub compare`: one set of tasks played by several models, or runs that are there, side by side."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rollouthub.cli.deadline_options import DEADLINES, deadlines_of, takes_deadlines
from rollouthub.cli.options import (
    ConfigOption,
    InProcessOption,
    LaneOption,
    LimitOption,
    MaxCostOption,
    MaxTokensOption,
    MaxTurnsOption,
    NoTrackOption,
    QuietOption,
    SampleOption,
    SeedOption,
    ServedOption,
    SetOption,
    ShuffleOption,
    SkipOption,
    TaskOption,
    TemperatureOption,
    TopPOption,
    run_settings,
    some,
    trackers_of,
)
from rollouthub.errors import ConfigError


@takes_deadlines(*DEADLINES)
def compare(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ENV…] | RUN RUN…", help="With -m the environments to play, else runs that are there."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("-m", "--model", metavar="MODEL", help="Who plays; repeat it. The first is compared with."),
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(metavar="[MODEL=]URL", help="A model's server; without MODEL= that of all that need one."),
    ] = None,
    agent: Annotated[str | None, typer.Option("-a", "--agent", help="Who acts; tool_loop by default.")] = None,
    split: Annotated[str | None, typer.Option(help="Which tasks; the environment's first split by default.")] = None,
    task: TaskOption = None,
    shuffle: ShuffleOption = False,
    skip: SkipOption = None,
    sample: SampleOption = None,
    limit: LimitOption = None,
    repeats: Annotated[int | None, typer.Option(min=1, help="Samples of each task.")] = None,
    concurrency: Annotated[int | None, typer.Option("-c", "--concurrency", min=1, help="Episodes in flight.")] = None,
    seed: SeedOption = None,
    settings: SetOption = None,
    config: ConfigOption = None,
    lane: LaneOption = None,
    temperature: TemperatureOption = None,
    top_p: TopPOption = None,
    max_tokens: MaxTokensOption = None,
    max_turns: MaxTurnsOption = None,
    max_cost: MaxCostOption = None,
    budget: Annotated[
        float | None, typer.Option(min=0.0, help="US dollars each model may cost.", rich_help_panel="Models")
    ] = None,
    in_process: InProcessOption = False,
    served: ServedOption = False,
    no_track: NoTrackOption = False,
    project: Annotated[
        int | None, typer.Option(min=1, help="Project cost and time to N tasks; the full split where it is played.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Where the models' runs go; runs/compare-ENV-TIME by default. Or FILE.html or FILE.md: a report.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the comparison in -o.")] = False,
    root: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: QuietOption = False,
    **timeouts: Any,
) -> None:
    """Compare models on the same tasks and seeds before money is spent, or runs on the tasks they have in common.

    Differences are paired by task, with their 95 % interval. Ctrl-C keeps and compares what is there.

    Exit codes: 0 every rollout scored, 1 some unscored, 2 usage, 130 interrupted.
    """
    from rollouthub.cli.compare.action import play_models, read_runs
    from rollouthub.cli.compare.compare_tables import print_comparison
    from rollouthub.cli.console import results, warn
    from rollouthub.store.atomic_files import check_output
    from rollouthub.views.report.write import is_report

    deadlines = deadlines_of(timeouts)
    code, file = 0, output if is_report(output) else None
    if file is not None:
        check_output(file)  # before models are paid for
    elif output is not None and not (model or resume):
        raise ConfigError(
            f"{output} is no report; name one that ends in .html, .md or .json, or models with -m to play"
        )
    if model or resume:
        given = run_settings(
            environments=what,
            agent=agent,
            split=split,
            tasks=task,
            shuffle=shuffle,
            skip=skip,
            sample=sample,
            limit=limit,
            repeats=repeats,
            concurrency=concurrency,
            seed=seed,
            set=settings,
            lane=lane,
            budget=budget,
            sampling=some(temperature=temperature, top_p=top_p, max_tokens=max_tokens),
            limits=some(max_turns=max_turns, max_cost=max_cost),
            deadlines=deadlines,
            in_process=in_process,
            served=served,
            track=trackers_of(None, no_track),
        )
        comparison, code = play_models(
            given, model or [], base_url or [], config, None if file else output, resume, project, is_quiet=quiet
        )
    else:
        comparison = read_runs(what or [], root, project)
    if comparison is None:
        raise typer.Exit(code)
    if file is not None:
        from rollouthub.cli.report.command import write_comparison

        write_comparison(comparison, file, is_quiet=quiet)
    if as_json:
        sys.stdout.write(json.dumps(comparison.as_json()) + "\n")
    elif not quiet:
        print_comparison(results(), comparison)
    else:
        for standing in comparison.standings:
            if standing.scored < standing.rollouts:
                unscored = standing.rollouts - standing.scored
                warn(f"{standing.label}: {unscored:,} of {standing.rollouts:,} rollouts have no score")
    raise typer.Exit(code)
