"""`hub estimate`: what a run will use, from a small sample of it."""

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from rollouthub.cli.run.command import run, settings_of

SampleOption = Annotated[
    int, typer.Option("--sample", min=1, help="Tasks of each environment to play, spread over all that are planned.")
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Play nothing: take a run's rollouts as the sample, and its settings.",
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help="Keep the sample as a run there, for `hub run --resume -o DIR` to go on with; else it is thrown away.",
        rich_help_panel="Output",
    ),
]


def estimate(
    *, sample: SampleOption = 8, source: FromOption = None, output: OutputOption = None, **options: Any
) -> None:
    """Estimate the tokens, cost, time and disk of a run, which is described as for `hub run`.

    A few of its tasks are played for real, with the same settings, and projected with 95 % intervals.

    Exit codes: 0 estimated, 1 some of the sample was not scored, 2 usage, 130 interrupted.
    """
    from rollouthub.cli.estimate.action import estimate_command

    order = settings_of({**options, "sample": None}), options["config"], output, options["as_json"], options["quiet"]
    raise typer.Exit(estimate_command(*order, sample=sample, source=source))


def _signature() -> inspect.Signature:
    """Everything that `hub run` takes, but for what only a run does; and what says how to estimate."""
    own = [entry for entry in inspect.signature(estimate).parameters.values() if entry.kind is entry.KEYWORD_ONLY]
    others = [
        entry.replace(kind=entry.KEYWORD_ONLY)
        for entry in inspect.signature(run).parameters.values()
        if entry.name not in ("output", "resume", "sample")
    ]
    return inspect.Signature([*others, *own])


# Typer reads the options here: those of `hub run` are written down once.
estimate.__signature__ = _signature()  # pyright: ignore[reportFunctionMemberAccess]
