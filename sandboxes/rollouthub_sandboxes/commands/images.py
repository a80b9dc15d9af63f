"""The command `hub images`. Imports what it needs when it runs, so that `--help` is instant."""

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rollouthub.sandbox import Build

images = typer.Typer(help="Build, list and prune the images that sandboxes start from.", no_args_is_help=True)

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_NAME = re.compile(rf"(?:[A-Za-z0-9.-]+(?::\d+)?/)?{_PART}(?:/{_PART})*(?::\w[\w.-]{{0,127}})?", re.ASCII)
"""An image name as engines accept it: lower case, optionally with a registry in front and a tag behind."""


@images.command("build")
def build_image(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="A folder with a Dockerfile, unless --base is given.")
    ] = None,
    base: Annotated[bool, typer.Option("--base", help="Build rollouthub's own base image.")] = False,
    dockerfile: Annotated[str, typer.Option("--file", help="The Dockerfile, relative to DIR.")] = "Dockerfile",
    arguments: Annotated[
        list[str] | None, typer.Option("--arg", metavar="NAME=VALUE", help="A build argument.")
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option(
            help="A name for the image; `hub images prune` then keeps it. The name of a base stands in for that base."
        ),
    ] = None,
    network: Annotated[
        str,
        typer.Option("--build-network", metavar="none|bridge", help="Network that the build's instructions can reach."),
    ] = "bridge",
    timeout: Annotated[str, typer.Option("--build-timeout", metavar="TIME", help="Maximum time of a build.")] = "30m",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Build an image from a folder, unless one of the same content exists.

    Bases that cannot be pulled are looked up in the table `from` of ~/.config/rollouthub/images.toml, or of the file
    that ROLLOUTHUB_IMAGES names.
    """
    from rollouthub.cli.options import assignments, build_network
    from rollouthub.errors import UsageError
    from rollouthub.event_loop import run_async
    from rollouthub.sandbox import Build
    from rollouthub.settings import seconds_of

    if base == (folder is not None):
        raise UsageError("give a folder to build an image from, or --base for rollouthub's own")
    if tag is not None and not _NAME.fullmatch(tag):
        raise UsageError(f"--tag {tag!r} is no name for an image, such as team/python or team/python:3.11")
    wanted: Build | None = None
    if folder is not None:
        given = assignments(arguments or [], "--arg")
        wanted = Build(
            context=folder.resolve(),
            dockerfile=dockerfile,
            arguments=given,
            network=build_network(network),
            timeout_seconds=seconds_of("--build-timeout", timeout),
        )
    run_async(_build, wanted, tag, as_json)


@images.command("list")
def list_images(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """List the images that hubs built on this engine."""
    from rollouthub.event_loop import run_async

    run_async(_list, as_json)


@images.command("prune")
def prune_images(
    days: Annotated[float, typer.Option(min=0, help="Remove images that were not used for this many days.")] = 7.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Remove unused images that hubs built; never other images, nor those built with --tag."""
    from rollouthub.event_loop import run_async

    run_async(_prune, days, dry_run, as_json)


async def _build(wanted: "Build | None", tag: str | None, as_json: bool) -> None:
    from dataclasses import asdict

    from rollouthub.cli.console import remarks
    from rollouthub.statistics.amounts import clock
    from rollouthub_sandboxes.engine.engine import connect_engine
    from rollouthub_sandboxes.images import ensure_image

    console = remarks()
    started = time.monotonic()

    def say(line: str) -> None:
        """Print each build step with the time since the start; the output of a step appears only where it fails."""
        if line.lower().startswith(("step ", "pull")):
            after = clock(time.monotonic() - started)
            console.print(f"{after}  {line}", style="dim", markup=False, highlight=False)

    async with connect_engine() as engine:
        image = await ensure_image(engine, wanted, say=say)
        if tag is not None:
            name, _, version = tag.partition(":") if ":" in tag.rpartition("/")[2] else (tag, "", "latest")
            await engine.call(engine.api.tag, image.reference, name, version, force=True)
    if as_json:
        typer.echo(json.dumps(asdict(image) | {"tag": tag}))
        return
    typer.echo(image.reference if tag is None else f"{image.reference} {tag}")
    for note in image.notes:
        console.print(note, style="dim", markup=False)


async def _list(as_json: bool) -> None:
    from rollouthub.cli.console import results
    from rollouthub_sandboxes.engine.engine import connect_engine
    from rollouthub_sandboxes.images.build_lock import cache_folder
    from rollouthub_sandboxes.images.image_tables import facts, images_table
    from rollouthub_sandboxes.images.inventory import own_images

    async with connect_engine() as engine:
        found = await own_images(engine, cache_folder())
    if as_json:
        typer.echo(json.dumps({"images": [facts(image) for image in found]}))
    elif found:
        results().print(images_table(found))
    else:
        typer.echo("no image was built by a hub here")


async def _prune(days: float, dry_run: bool, as_json: bool) -> None:
    from rollouthub.cli.console import remarks
    from rollouthub_sandboxes.engine.engine import connect_engine
    from rollouthub_sandboxes.images.build_lock import cache_folder
    from rollouthub_sandboxes.images.image_tables import facts, size
    from rollouthub_sandboxes.images.inventory import prune

    async with connect_engine() as engine:
        pruned = await prune(engine, cache_folder(), unused_seconds=days * 86400, dry_run=dry_run)
    if as_json:
        removed = [facts(image) for image in pruned.removed]
        typer.echo(json.dumps({"removed": removed, "kept": pruned.kept, "problems": pruned.problems}))
    else:
        verb = "would be removed" if dry_run else "removed"
        for image in pruned.removed:
            typer.echo(f"{image.name}  {size(image.bytes)}  {image.source}")
        typer.echo(f"{len(pruned.removed)} {verb}, {pruned.kept} kept")
        for problem in pruned.problems:
            remarks().print(problem, style="red", markup=False)
    if pruned.problems:
        raise typer.Exit(1)
