"""`hub export`: a run's rollouts for other programs, and data sets for trainers."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from rollouthub.cli import completion
from rollouthub.cli.find_run import RUNS, RootOption, find_run
from rollouthub.errors import ConfigError, UnknownNameError

RECORDS = ("jsonl", "parquet", "csv")
_FILTERS, _CHOICE = "Which rollouts (of training formats)", "How they are chosen (of training formats)"

_TO = (
    "jsonl (full records), parquet (columns) or csv (a row a rollout, for spreadsheets), by default what the file's "
    "name ends in, else jsonl; for trainers"
)


def _completing(*names: str) -> Callable[[str], list[str]]:
    """What a shell completes an option's value to."""

    def completed(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return completed


def _training_formats() -> list[str]:
    """The names that are registered, ours and installed distributions'."""
    from rollouthub.export.export_format import EXPORT_FORMATS
    from rollouthub.plugins.entry_points import plugins

    return list(plugins(EXPORT_FORMATS))


def _formats_completed(incomplete: str) -> list[str]:
    return _completing(*RECORDS, *_training_formats())(incomplete)


class ExportCommand(TyperCommand):
    """`hub export`, whose help names the formats that are registered; the context is of typer's own click."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        for option in self.params:
            if isinstance(option, TyperOption) and option.name == "to":
                option.help = f"{_TO} {', '.join(_training_formats())}."
        super().format_help(ctx, formatter)


RunsArgument = Annotated[
    list[str],
    typer.Argument(
        autocompletion=completion.runs, metavar="RUN…", help="Runs: a directory, a name under runs/, or 'last'."
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--to",
        help=f"{_TO} a registered export format.",
        autocompletion=_formats_completed,
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help="The file; lines go to stdout by default, or for -. Its ending, if any, must fit the format (.jsonl, "
        ".ndjson, .parquet, .csv). An existing file is replaced only after the new one is complete.",
    ),
]
FileFormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="jsonl|parquet",
        help="For training formats: the file format; by default what the file's name ends in, else jsonl.",
        autocompletion=_completing("jsonl", "parquet"),
    ),
]
TokensOption = Annotated[
    bool | None,
    typer.Option(
        "--tokens/--no-tokens",
        help="With the engine's token ids. Records, groups and atif have them by default; sft, dpo and kto hold text "
        "by default, and with --tokens leave out rollouts that have no ids.",
    ),
]
EnvironmentOption = Annotated[
    list[str] | None,
    typer.Option(
        "-e",
        "--env",
        autocompletion=completion.environments,
        metavar="ENV",
        help="Only rollouts of this environment.",
        rich_help_panel=_FILTERS,
    ),
]
TaskOption = Annotated[
    list[str] | None,
    typer.Option(
        "--task", metavar="ID", help="Only rollouts of this task; * matches anything.", rich_help_panel=_FILTERS
    ),
]
PassedOption = Annotated[
    bool | None,
    typer.Option(
        "--passed/--failed", help="Only rollouts that passed, or only those that failed.", rich_help_panel=_FILTERS
    ),
]
MinRewardOption = Annotated[
    float | None, typer.Option(help="Only rollouts with at least this reward.", rich_help_panel=_FILTERS)
]
MaxRewardOption = Annotated[
    float | None, typer.Option(help="Only rollouts with at most this reward.", rich_help_panel=_FILTERS)
]
SpreadOption = Annotated[
    float | None,
    typer.Option(
        help="Only groups whose best and worst reward differ by at least this much.", rich_help_panel=_FILTERS
    ),
]
DeviationOption = Annotated[
    float | None,
    typer.Option(help="Only groups whose rewards have at least this standard deviation.", rich_help_panel=_FILTERS),
]
StopOption = Annotated[
    list[str] | None,
    typer.Option(
        "--stop",
        metavar="STOP",
        help="Only rollouts that stopped for this reason: finished, submitted …",
        rich_help_panel=_FILTERS,
    ),
]
MinTurnsOption = Annotated[
    int | None, typer.Option(min=0, help="Only rollouts with at least this many turns.", rich_help_panel=_FILTERS)
]
MaxTurnsOption = Annotated[
    int | None, typer.Option(min=0, help="Only rollouts with at most this many turns.", rich_help_panel=_FILTERS)
]
MaxTokensOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="Only rollouts without a turn longer than this (prompt and answer).", rich_help_panel=_FILTERS
    ),
]
TrainableOption = Annotated[
    bool, typer.Option("--trainable", help="Only rollouts that are marked as trainable.", rich_help_panel=_FILTERS)
]
BestOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="sft, kto, groups: the best N of each group.", rich_help_panel=_CHOICE),
]
PairsOption = Annotated[
    str | None,
    typer.Option(
        metavar="best_worst|all",
        help="dpo: how pairs of a group are chosen; by default its best with its worst.",
        rich_help_panel=_CHOICE,
        autocompletion=_completing("best_worst", "all"),
    ),
]
MostPairsOption = Annotated[
    int | None,
    typer.Option(
        "--max-pairs", min=1, metavar="N", help="dpo: at most this many pairs of a group.", rich_help_panel=_CHOICE
    ),
]
MarginOption = Annotated[
    float | None,
    typer.Option(min=0.0, help="dpo: only pairs whose rewards differ by at least this much.", rich_help_panel=_CHOICE),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        help="kto: the least reward of a good example; by default those that passed are good.", rich_help_panel=_CHOICE
    ),
]
AdvantageOption = Annotated[
    str | None,
    typer.Option(
        metavar="mean|mean_std|leave_one_out",
        help="groups: how rewards are centred; mean_std by default.",
        rich_help_panel=_CHOICE,
        autocompletion=_completing("mean", "mean_std", "leave_one_out"),
    ),
]
IncompleteOption = Annotated[
    bool,
    typer.Option("--incomplete", help="groups: also groups with missing members.", rich_help_panel=_CHOICE),
]
SeatOption = Annotated[
    str | None,
    typer.Option(help="Export only this agent's conversation (default: the first agent).", rich_help_panel=_CHOICE),
]
MixedOption = Annotated[
    bool,
    typer.Option("--mixed-models", help="Allow responses of several models in one data set.", rich_help_panel=_CHOICE),
]
SuspectOption = Annotated[
    bool,
    typer.Option(
        "--suspect", help="Also rollouts whose score their verifier marked as suspect.", rich_help_panel=_CHOICE
    ),
]
UntrainableOption = Annotated[
    bool,
    typer.Option(
        "--untrainable",
        help="atif: also rollouts that must not be learnt from, marked as such.",
        rich_help_panel=_CHOICE,
    ),
]


_FLAGS = {
    "environments": "--env",
    "tasks": "--task",
    "passed": "--passed/--failed",
    "min_spread": "--spread",
    "most_pairs": "--max-pairs",
    "min_deviation": "--deviation",
    "stops": "--stop",
}
"""What options are called here, where that is not their own name."""


def export(
    runs: RunsArgument,
    to: FormatOption = None,
    output: OutputOption = None,
    file_format: FileFormatOption = None,
    turns: Annotated[bool, typer.Option("--turns", help="Parquet: one row per turn, with its token ids.")] = False,
    segments: Annotated[bool, typer.Option("--segments", help="Parquet: one row per training sequence.")] = False,
    all_attempts: Annotated[
        bool,
        typer.Option("--all-attempts", help="Records and atif: also attempts that were replaced by later ones."),
    ] = False,
    tokens: TokensOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="For training formats: print what was written and left out as JSON.")
    ] = False,
    env: EnvironmentOption = None,
    task: TaskOption = None,
    passed: PassedOption = None,
    min_reward: MinRewardOption = None,
    max_reward: MaxRewardOption = None,
    spread: SpreadOption = None,
    deviation: DeviationOption = None,
    stop: StopOption = None,
    min_turns: MinTurnsOption = None,
    max_turns: MaxTurnsOption = None,
    max_tokens: MaxTokensOption = None,
    trainable: TrainableOption = False,
    best: BestOption = None,
    pairs: PairsOption = None,
    most_pairs: MostPairsOption = None,
    margin: MarginOption = None,
    threshold: ThresholdOption = None,
    advantage: AdvantageOption = None,
    incomplete: IncompleteOption = False,
    seat: SeatOption = None,
    mixed_models: MixedOption = False,
    untrainable: UntrainableOption = False,
    suspect: SuspectOption = False,
    root: RootOption = RUNS,
) -> None:
    """Write rollouts to a file: full records, or a data set for a trainer.

    Training formats leave out what must not be learnt from (unscored, helped, privileged, damaged …) and what filters
    leave out, and say of how many and why. Exit code: 0 written; 1 nothing was, or a record was damaged; 2 usage.
    """
    from rollouthub.cli.export.record_files import export_records, record_format

    training = _training_formats()
    if to not in (None, *RECORDS, *training):
        raise UnknownNameError("export format", to, (*RECORDS, *training))
    output = None if output == Path("-") else output
    form = None if to in training else record_format(output, to)
    if (turns or segments) and form != "parquet":
        raise ConfigError("--turns and --segments choose a table of Parquet: --to parquet -o turns.parquet")
    if turns and segments:
        raise ConfigError("--turns and --segments are two tables; export one after the other")
    filters: dict[str, Any] = {
        "environments": tuple(env or ()),
        "tasks": tuple(task or ()),
        "passed": passed,
        "min_reward": min_reward,
        "max_reward": max_reward,
        "min_spread": spread,
        "min_deviation": deviation,
        "stops": tuple(stop or ()),
        "min_turns": min_turns,
        "max_turns": max_turns,
        "max_tokens": max_tokens,
        "trainable": trainable,
    }
    choice: dict[str, Any] = {
        "best": best,
        "pairs": pairs,
        "most_pairs": most_pairs,
        "margin": margin,
        "threshold": threshold,
        "advantage": advantage,
        "incomplete": incomplete,
        "seat": seat,
        "mixed_models": mixed_models,
        "untrainable": untrainable,
        "suspect": suspect,
    }
    directories = [find_run(run, root) for run in runs]
    if form is None:
        from rollouthub.cli.export.training_files import export_data_set

        recipe = {"format": to, "tokens": tokens, "all_attempts": all_attempts, **choice}
        raise typer.Exit(export_data_set(directories, recipe, filters, output, file_format, as_json=as_json))
    given = {**filters, **choice, "json": as_json, "format": file_format}
    if asked := [name for name, value in given.items() if value not in (None, False, ())]:
        flag = _FLAGS.get(asked[0], "--" + asked[0].replace("_", "-"))
        raise ConfigError(f"{flag} means nothing to {form}, which has every record; it is for {', '.join(training)}")
    if len(directories) > 1:
        raise ConfigError(f"{form} is of one run; export them one after the other")
    if tokens is not None and form != "jsonl":
        raise ConfigError(f"--tokens and --no-tokens mean nothing to {form}, whose columns are always the same")
    table = "turns" if turns else "segments" if segments else "rollouts"
    export_records(directories[0], form, output, table, effective=not all_attempts, tokens=tokens is not False)
