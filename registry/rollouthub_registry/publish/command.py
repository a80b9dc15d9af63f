"""The command `hub publish`. Imports what it needs when it runs, so that `--help` is instant."""

from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli.options import QuietOption, RolesOption, TrustOption, WallOption

FolderArgument = Annotated[
    str,
    typer.Argument(
        metavar="DIR", help="The folder with an env.toml, or the name of an environment that ships with the hub."
    ),
]
RegistryOption = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="The registry: http(s):// or file://; by default the one that the namespace comes from.",
    ),
]
BaselinesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--baseline", metavar="RUN", help="A finished run of the environment, whose score is published; repeatable."
    ),
]
FailingOption = Annotated[
    bool,
    typer.Option("--allow-failing-checks", help="Publish although checks fail; the publication says that they did."),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the environment for the checks."),
]
SplitOption = Annotated[str | None, typer.Option("--split", help="The split of tasks to check; the first by default.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="How many tasks to check with.")]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="Write the bundle and its statement into this folder; publish nothing.",
    ),
]
RehearsalOption = Annotated[bool, typer.Option("--dry-run", help="Do everything but publish.")]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="Leave out the attacks and the audit; the publication says so.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def publish(
    directory: FolderArgument,
    to: RegistryOption = None,
    baselines: BaselinesOption = None,
    allow_failing_checks: FailingOption = False,
    settings: SettingsOption = None,
    split: SplitOption = None,
    limit: LimitOption = 8,
    roles: RolesOption = None,
    out: OutputOption = None,
    dry_run: RehearsalOption = False,
    as_json: JsonOption = False,
    is_quick: QuickOption = False,
    quiet: QuietOption = False,
    wall: WallOption = "auto",
    trust: TrustOption = False,
) -> None:
    """Publish an environment: bundle it, check and attack it as others will install it, sign it, and upload it.

    Exit codes: 0 published, 1 its checks fail or the registry cannot be reached, 2 invalid or refused, 130 interrupted.
    """
    from rollouthub.cli.options import assignments
    from rollouthub.errors import ConfigError
    from rollouthub_registry.check.check_request import CheckRequest
    from rollouthub_registry.publish.console import publish_command
    from rollouthub_registry.publish.folder import folder_of
    from rollouthub_registry.publish.publication import PublishRequest

    if to is not None and out is not None:
        raise ConfigError("--registry publishes and -o only writes files; give one of the two")
    asked = CheckRequest(
        split=split,
        limit=limit,
        settings=assignments(settings or [], "--set"),
        roles={role: str(model) for role, model in assignments(roles or [], "--role").items()},
        wall="none" if trust else wall,
    )
    order = PublishRequest(
        folder_of(directory), to, asked, tuple(baselines or ()), allow_failing_checks, out, dry_run, is_quick
    )
    raise typer.Exit(publish_command(order, as_json=as_json, quiet=quiet))
