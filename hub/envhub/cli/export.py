"""`hub export`: a run's rollouts for other programs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from envhub.cli.runs import RUNS, RootOption, RunArgument, find_run
from envhub.errors import ConfigError, UnknownNameError

FORMATS = ("jsonl", "parquet")


def export(
    run: RunArgument,
    to: Annotated[str, typer.Option("--to", help="The format: jsonl (full records) or parquet (columns).")] = "jsonl",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file; jsonl goes to stdout by default.")
    ] = None,
    turns: Annotated[bool, typer.Option("--turns", help="Parquet: a row a turn, with its token ids.")] = False,
    segments: Annotated[bool, typer.Option("--segments", help="Parquet: a row a training sequence.")] = False,
    all_attempts: Annotated[
        bool, typer.Option("--all-attempts", help="Also the attempts that others took the place of.")
    ] = False,
    tokens: Annotated[bool, typer.Option(help="With token ids and logprobs (base64 of int32 and float32).")] = True,
    root: RootOption = RUNS,
) -> None:
    """Write a run's rollouts to a file: full records, a line each, or columns of Parquet."""
    from envhub.store import open_run

    if to not in FORMATS:
        raise UnknownNameError("export format", to, FORMATS)
    if (turns or segments) and to != "parquet":
        raise ConfigError("--turns and --segments choose a table of Parquet; add --to parquet")
    if turns and segments:
        raise ConfigError("--turns and --segments are two tables; export one after the other")
    with open_run(find_run(run, root)) as reader:
        if to == "parquet":
            from envhub.store.parquet import export_parquet

            if output is None:
                raise ConfigError("Parquet goes to a file: name it with -o, for example -o rollouts.parquet")
            table = "turns" if turns else "segments" if segments else "rollouts"
            count, things = export_parquet(reader, output, table, effective=not all_attempts), table
        else:
            from envhub.store.export import export_jsonl

            target = sys.stdout if output is None else output
            count, things = export_jsonl(reader, target, effective=not all_attempts, with_tokens=tokens), "rollouts"
    if output is not None:
        typer.echo(f"{count} {things} written to {output}", err=True)
