"""The commands `hub attest` and `hub verify`. They import what they need when they run, so that `--help` is instant."""

from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.find_run import RUNS, RootOption
from rollouthub.cli.options import QuietOption

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def attest(
    run: Annotated[
        str,
        typer.Argument(autocompletion=completion.runs, metavar="RUN", help="The run: its directory, name, or 'last'."),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="The receipt; RUN.receipt.json beside the run by default."),
    ] = None,
    key: Annotated[
        str,
        typer.Option(
            "--key-name", metavar="NAME", help="The name of your key that signs; made when you first need it."
        ),
    ] = "default",
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights", metavar="DIR", help="The folder of the model's files, to name them by digest in the receipt."
        ),
    ] = None,
    incomplete: Annotated[
        bool,
        typer.Option("--incomplete", help="Attest a run although planned rollouts are missing; the receipt says so."),
    ] = False,
    root: RootOption = RUNS,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a receipt of a finished run: a signed statement over all of its rollouts, failures included.

    Exit codes: 0 written, 2 the run is not complete or cannot be read.
    """
    from rollouthub.cli.find_run import find_run
    from rollouthub_registry.receipt.attest_action import AttestOrder, attest_run

    order = AttestOrder(find_run(run, root), output, key, weights, incomplete)
    raise typer.Exit(attest_run(order, as_json=as_json, quiet=quiet))


def verify(
    receipt: Annotated[Path, typer.Argument(metavar="RECEIPT", help="The receipt, as `hub attest` wrote it.")],
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            autocompletion=completion.runs,
            metavar="RUN",
            help="The run's directory, or its name; the one beside the receipt by default.",
        ),
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Also run verifiers and tool calls again, where the environment is here.")
    ] = False,
    environment: Annotated[
        str | None,
        typer.Option(
            "-e",
            "--env",
            autocompletion=completion.environments,
            metavar="ENV",
            help="The environment that replays, if the run's was a file, a folder or a server.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Replay only N rollouts, drawn at random each time.")
    ] = None,
    signer: Annotated[
        str | None, typer.Option("--signer", metavar="KEYID", help="The id of the only key that may have signed.")
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="DIR", help="The model's files, to compare them and its tokens with."),
    ] = None,
    rollout: Annotated[
        str | None,
        typer.Option(
            "--rollout", metavar="ID", help="Prove one rollout; --json prints what shows it without the others."
        ),
    ] = None,
    root: RootOption = RUNS,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Verify a receipt against its run: what is proven, what is only consistent, what is refuted, what nobody can show.

    Nothing is asked over the network, and without --replay no code of the run's is executed.

    Exit codes: 0 nothing is refuted, 1 something is, 2 usage, 130 interrupted.
    """
    from rollouthub.cli.find_run import find_run
    from rollouthub.errors import ConfigError
    from rollouthub_registry.receipt.verify_action import VerifyOrder, verify_command
    from rollouthub_registry.receipt.worlds import ReplayOptions

    for option, value in (("--env", environment), ("--limit", limit)):
        if value is not None and not replay:
            raise ConfigError(f"{option} says what is replayed; add --replay, or leave it out")
    directory = None if run is None else find_run(run, root)
    options = ReplayOptions(environment, limit) if replay else None
    order = VerifyOrder(receipt, directory, options, signer, weights, rollout)
    raise typer.Exit(verify_command(order, as_json=as_json, quiet=quiet))
