"""`hub yank`: marks a version as no longer to be used."""

import json
from typing import Annotated

import typer


def yank(
    release: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME@VERSION", help="The version to withdraw.")],
    reason: Annotated[
        str, typer.Option(help="The reason shown to those who use it: what is wrong, what to use instead.")
    ],
    source: Annotated[
        str | None,
        typer.Option(
            "--registry", metavar="URL", help="The registry; by default the one that the namespace comes from."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Mark a published version as no longer to be used.

    Projects whose lock names the version still get it, with a warning; it is not installed otherwise. This cannot be
    undone: publish a higher version.
    """
    import os

    from rich.text import Text

    from rollouthub.cli.console import results
    from rollouthub.errors import ConfigError
    from rollouthub.event_loop import run_async
    from rollouthub_registry.client.address import registry_url
    from rollouthub_registry.client.registries import Registries
    from rollouthub_registry.client.source import open_source
    from rollouthub_registry.client.token_store import token_for
    from rollouthub_registry.names import Release
    from rollouthub_registry.server.registry import LONGEST_REASON
    from rollouthub_registry.trust.keys import config_folder

    asked, folder = Release.parse(release), config_folder(os.environ)
    if not reason.strip() or len(reason) > LONGEST_REASON:
        raise ConfigError(f"--reason says why, in at most {LONGEST_REASON} characters")
    url = (
        registry_url(source)
        if source is not None
        else Registries.load(folder, os.environ).source_of(asked.package.namespace)
    )

    async def mark() -> None:
        async with open_source(url, token_for(url, folder, os.environ)) as registry:
            await registry.yank(asked, reason.strip())

    run_async(mark)
    said = {"release": str(asked), "registry": url, "reason": reason.strip()}
    results().print(Text(f"{asked} is yanked at {url}")) if not as_json else typer.echo(json.dumps(said))
