"""`hub export`: writes a run's rollouts for other programs, and data sets for trainers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field
from typer.core import TyperOption

from rollouthub.authoring.rewards import GroupMethod
from rollouthub.cli import completion
from rollouthub.cli.export.format_names import RECORDS, training_formats
from rollouthub.cli.find_run import RUNS, find_run
from rollouthub.cli.settings_command import OptionsCommand, given_options
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export.pairs import PairMethod
from rollouthub.export.recipe import TooLong
from rollouthub.settings import Option, settings_of
from rollouthub.values import Frozen

_FILTERS, _CHOICE = "Which rollouts (of training formats)", "How they are chosen (of training formats)"

_TO = (
    "The format: jsonl (full records), parquet (columns) or csv (one row per rollout), by default as the file's name "
    "ends, else jsonl; or for trainers"
)


class FilterOptions(Frozen):
    """Options that select rollouts; the fields are those of `Filters`."""

    environments: Annotated[tuple[str, ...], Option("--env", short="-e", metavar="ENV", names="environment")] = Field(
        default=(), description="Only rollouts of this environment."
    )
    tasks: Annotated[tuple[str, ...], Option("--task", metavar="ID")] = Field(
        default=(), description="Only rollouts of this task; * matches anything."
    )
    passed: Annotated[bool | None, Option("--passed/--failed")] = Field(
        default=None, description="Only rollouts that passed, or only those that failed."
    )
    min_reward: float | None = Field(default=None, description="Only rollouts with at least this reward.")
    max_reward: float | None = Field(default=None, description="Only rollouts with at most this reward.")
    min_range: Annotated[float | None, Option("--range")] = Field(
        default=None, description="Only groups whose best and worst reward differ by at least this much."
    )
    min_deviation: Annotated[float | None, Option("--deviation")] = Field(
        default=None, description="Only groups whose rewards have at least this standard deviation."
    )
    stops: Annotated[tuple[str, ...], Option("--stop", metavar="STOP")] = Field(
        default=(), description="Only rollouts that stopped for this reason: finished, submitted …"
    )
    min_turns: int | None = Field(default=None, ge=0, description="Only rollouts with at least this many turns.")
    max_turns: int | None = Field(default=None, ge=0, description="Only rollouts with at most this many turns.")
    max_tokens: int | None = Field(
        default=None,
        ge=1,
        description="Only rollouts whose turns have at most this many tokens each, prompt and answer together.",
    )
    trainable: bool = Field(default=False, description="Only rollouts that are marked as trainable.")


class ChoiceOptions(Frozen):
    """Options on how training rows are made of the selected rollouts; the fields are those of `Recipe`."""

    best: Annotated[int | None, Option(metavar="N")] = Field(
        default=None, ge=1, description="sft, kto, groups: the best N of each group."
    )
    pairs: PairMethod | None = Field(
        default=None, description="dpo: how pairs of a group are chosen; by default its best with its worst."
    )
    most_pairs: Annotated[int | None, Option("--max-pairs", metavar="N")] = Field(
        default=None, ge=1, description="dpo: at most this many pairs of a group."
    )
    margin: float | None = Field(
        default=None, ge=0, description="dpo: only pairs whose rewards differ by at least this much."
    )
    threshold: float | None = Field(
        default=None, description="kto: the least reward of a good example; by default those that passed are good."
    )
    advantage: GroupMethod | None = Field(
        default=None, description="groups: how rewards are centred; mean_std by default."
    )
    incomplete: bool = Field(default=False, description="groups: also groups with missing members.")
    pack: Annotated[int | None, Option(metavar="N")] = Field(
        default=None,
        ge=1,
        description="sft --tokens, groups: pack rows into sequences of at most N tokens, with lengths and positions.",
    )
    too_long: Annotated[TooLong | None, Option("--too-long")] = Field(
        default=None,
        description="With --pack, what becomes of rollouts with a longer row: an error by default, or left out.",
    )
    seat: str | None = Field(
        default=None, description="Export only this agent's conversation (default: the first agent)."
    )
    mixed_models: bool = Field(default=False, description="Allow responses of several models in one data set.")
    untrainable: bool = Field(
        default=False, description="atif: include rollouts that must not be trained on, marked as such."
    )
    suspect: bool = Field(default=False, description="Also rollouts whose score their verifier marked as suspect.")


class ExportOptions(Frozen):
    """Options of `hub export`: the format, the file, and what the records contain."""

    to: Annotated[str | None, Option(names="format")] = Field(
        default=None, description=f"{_TO} a registered export format."
    )
    output: Annotated[Path | None, Option(short="-o")] = Field(
        default=None,
        description="The file; lines go to stdout by default, or for -. Its ending, if any, must fit the format "
        "(.jsonl, .ndjson, .parquet, .csv). An existing file is replaced only after the new one is complete.",
    )
    file_format: Annotated[str | None, Option("--format", metavar="jsonl|parquet")] = Field(
        default=None,
        description="For training formats: the file format; by default what the file's name ends in, else jsonl.",
    )
    where: Annotated[str, Option(metavar="FILTER")] = Field(
        default="",
        description="Only rollouts that match, in the filter language of hub show: 'tag ~ \"hack\" or starred'.",
    )
    turns: bool = Field(default=False, description="Parquet: one row per turn, with its token ids.")
    segments: bool = Field(default=False, description="Parquet: one row per training sequence.")
    all_attempts: bool = Field(
        default=False, description="Records and atif: also attempts that were replaced by later ones."
    )
    tokens: Annotated[bool | None, Option("--tokens/--no-tokens")] = Field(
        default=None,
        description="Include the engine's token ids, as records, groups and atif do by default; sft, dpo and kto then "
        "leave out rollouts that have none.",
    )
    as_json: Annotated[bool, Option("--json")] = Field(
        default=False, description="For training formats: print what was written and left out as JSON."
    )
    filters: Annotated[FilterOptions, Option(panel=_FILTERS)] = FilterOptions()
    choice: Annotated[ChoiceOptions, Option(panel=_CHOICE)] = ChoiceOptions()
    root: Annotated[Path, Field(description="Where runs are kept; runs/ and the user's own store by default.")] = RUNS

    def asked_of_trainers(self) -> list[str]:
        """The flags given on the command line that apply only to training formats."""
        tables: dict[str, Frozen] = {"filters": self.filters, "choice": self.choice}
        return [
            setting.flag
            for setting in settings_of(ExportOptions)
            if (
                setting.path[-1] in tables[setting.path[0]].model_fields_set
                if setting.path[0] in tables
                else setting.path[0] in {"as_json", "file_format"} & self.model_fields_set
            )
        ]


class ExportCommand(OptionsCommand):
    """`hub export`, whose help lists the registered formats."""

    options = ExportOptions

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help text, with the registered formats in it."""
        for option in self.get_params(ctx):
            if isinstance(option, TyperOption) and option.name == "to":
                option.help = f"{_TO} {', '.join(training_formats())}."
        super().format_help(ctx, formatter)


@ExportCommand.of
def export(
    ctx: typer.Context,
    runs: Annotated[
        list[str],
        typer.Argument(
            autocompletion=completion.runs, metavar="RUN…", help="Runs: a directory, a name under runs/, or 'last'."
        ),
    ],
) -> None:
    """Write rollouts to a file: full records, or a data set for a trainer.

    Training formats leave out rollouts that must not be learnt from (unscored, helped, privileged, damaged …), and
    report how many and why.

    Exit codes: 0 written, 1 nothing was written or a record was damaged, 2 usage.
    """
    options, training = given_options(ctx, ExportOptions), training_formats()
    if options.to not in (None, *RECORDS, *training):
        raise UnknownNameError("export format", str(options.to), (*RECORDS, *training))
    directories = [find_run(run, options.root) for run in runs]
    output = None if options.output == Path("-") else options.output
    if options.to not in training:
        _export_records(directories, options, output, training)
        return
    from rollouthub.cli.export.training_files import export_data_set

    if options.turns or options.segments:
        raise ConfigError("--turns and --segments choose a table of Parquet: --to parquet -o turns.parquet")
    filters = options.filters.model_dump(exclude_unset=True)
    recipe = options.choice.model_dump(exclude_unset=True) | {
        "format": options.to,
        "tokens": options.tokens,
        "all_attempts": options.all_attempts,
    }
    raise typer.Exit(
        export_data_set(
            directories, recipe, filters, output, options.file_format, where=options.where, as_json=options.as_json
        )
    )


def _export_records(
    directories: Sequence[Path], options: ExportOptions, output: Path | None, training: Sequence[str]
) -> None:
    from rollouthub.cli.export.record_files import export_records, record_format

    form = record_format(output, options.to)
    if (options.turns or options.segments) and form != "parquet":
        raise ConfigError("--turns and --segments choose a table of Parquet: --to parquet -o turns.parquet")
    if options.turns and options.segments:
        raise ConfigError("--turns and --segments are two tables; export one after the other")
    if asked := options.asked_of_trainers():
        raise ConfigError(
            f"{asked[0]} means nothing to {form}, which has every record; it is for {', '.join(training)}"
        )
    if len(directories) > 1:
        raise ConfigError(f"{form} is of one run; export them one after the other")
    if options.tokens is not None and form != "jsonl":
        raise ConfigError(f"--tokens and --no-tokens mean nothing to {form}, whose columns are always the same")
    table = "turns" if options.turns else "segments" if options.segments else "rollouts"
    is_written = export_records(
        directories[0],
        form,
        output,
        table,
        where=options.where,
        effective=not options.all_attempts,
        tokens=options.tokens is not False,
    )
    if not is_written:
        raise typer.Exit(1)
