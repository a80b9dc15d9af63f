"""`hub view`: shows runs in a browser, live or ended, or writes the same pages as files."""

import os
from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.errors import UsageError


def view(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=completion.runs,
            metavar="[RUN…]",
            help="Runs to begin with: directories, names under runs/, 'last', a folder of runs; the list by default.",
        ),
    ] = None,
    root: Annotated[
        list[Path] | None,
        typer.Option(help="Where runs are kept; repeatable; runs/ and the user's own store by default."),
    ] = None,
    filter_: Annotated[
        str, typer.Option("--filter", metavar="EXPR", help="Begin with the rollouts that fit, or write only these.")
    ] = "",
    port: Annotated[
        int, typer.Option(min=0, max=65535, show_default=False, help="The port; a free one by default.")
    ] = 0,
    board: Annotated[
        bool, typer.Option("--board", help="Begin with a leaderboard over RUNs, or all runs; in a bundle, have one.")
    ] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address, open no browser.")] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the pages as files into this folder, which need no server."),
    ] = None,
) -> None:
    """Show runs in a browser on this machine, live or ended.

    Every page has an address of its own; press ? on a page for its keys. A run that plays can be steered there.

    With --bundle the pages are files: for a static host, or to be opened from the folder. Read them before you share
    them: transcripts are in them as they are.

    Exit codes: 0 left, or written; 1 something broke; 2 usage.
    """
    import anyio

    from rollouthub.cli.report.command import plainness_here
    from rollouthub.cli.run_lookup import find_watched, usual_roots
    from rollouthub.event_loop import run_async
    from rollouthub.live.follow import parse_filter

    parse_filter(filter_)
    environ = dict(os.environ)
    roots = [folder.absolute() for folder in root] if root else usual_roots(environ)
    directories: list[Path] = []
    for name in runs or ():
        if _is_folder_of_runs(Path(name)):
            roots.append(Path(name).absolute())
        else:
            directories.append(anyio.run(find_watched, name, roots, environ))
    directories = list(dict.fromkeys(directories))
    if bundle is not None:
        if port or no_browser:
            raise UsageError("--bundle writes files and serves nothing: leave out --port and --no-browser")
        from rollouthub.views.web.bundle import write_bundle

        written = write_bundle(directories, bundle, filter_, plainness_here(), has_board=board)
        typer.echo(f"{written} written to {bundle}; open {bundle / 'index.html'}", err=True)
        return
    if filter_ and (len(directories) != 1 or board):
        raise UsageError("--filter goes with one RUN, or with --bundle")
    from rollouthub.views.web.view_server import ViewOptions, serve_view

    options = ViewOptions(
        tuple(directories), tuple(roots), environ, plainness_here(), port, filter_, board, opens=not no_browser
    )
    raise typer.Exit(run_async(serve_view, options))


def _is_folder_of_runs(path: Path) -> bool:
    """Whether a path is a folder with runs below it, and no run itself."""
    from rollouthub.store.run_directories import DATABASE, run_directories

    return path.is_dir() and not (path / DATABASE).exists() and next(run_directories(path), None) is not None
