"""`hub watch`: shows the runs of this machine, live or ended."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from rollouthub.errors import UsageError

_STREAMS = ("stdin", "stdout", "stderr")


def _complete_run(incomplete: str) -> list[str]:
    """Names of runs for the shell's completion."""
    from rollouthub.cli.run_lookup import known_names, usual_roots

    names = ["last", *known_names(usual_roots(os.environ))]
    return [name for name in names if name.startswith(incomplete)]


def watch(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A run's directory, its name under runs/, 'last', or the id of one in progress; lists all by default.",
            autocompletion=_complete_run,
        ),
    ] = None,
    needs_review: Annotated[
        bool,
        typer.Option("--needs-review", help="Begin with the rollouts of RUN that a person should look at, and why."),
    ] = False,
    root: Annotated[
        list[Path] | None,
        typer.Option(help="Where runs are kept; repeatable; runs/ and the user's own store by default."),
    ] = None,
    text: Annotated[
        bool | None,
        typer.Option(
            "--text/--no-text",
            show_default=False,
            help="Print plain lines, for screen readers and braille; without a terminal, follow RUN to its end.",
        ),
    ] = None,
    do: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WORDS",
            help="With --text: run this command of `hub watch`, then leave; repeatable, - reads commands from stdin.",
        ),
    ] = None,
) -> None:
    """Show runs on a screen, live or finished.

    Press ? for the keys; with --text, say help. `hub view` shows runs in a browser; `hub live` lists and steers runs
    from a script.

    Any run of yours on this machine can be watched, even one started in another terminal; watching never slows it.

    Exit codes: 0 left, 1 something broke, or a --do command failed, 2 usage.
    """
    import anyio

    from rollouthub.cli.run_lookup import find_watched, usual_roots

    environ = dict(os.environ)
    if do and not text:
        raise UsageError("--do goes with --text")
    if needs_review and (run is None or text):
        raise UsageError(
            "--needs-review goes with a RUN on a terminal's screen; elsewhere: hub show RUN --needs-review"
        )
    roots = [folder.absolute() for folder in root] if root else usual_roots(environ)
    if text or (text is None and not needs_review and _is_always_text(environ)):
        from rollouthub_tui.text.command import run_text

        raise typer.Exit(run_text(run, roots, environ, do or None))
    directory = None if run is None else anyio.run(find_watched, run, roots, environ)
    check_terminal(environ)
    raise typer.Exit(_show(directory, roots, environ, needs_review))


def _is_always_text(environ: Mapping[str, str]) -> bool:
    """Whether the user has set text mode as the default for terminals; never true for a pipe."""
    from rollouthub_tui.crash_message import logging_beside
    from rollouthub_tui.settings import load_settings

    if not all(map(os.isatty, range(len(_STREAMS)))):
        return False
    with logging_beside(environ):
        return load_settings(environ).text


def check_terminal(environ: Mapping[str, str]) -> None:
    """Check that standard input and output are a terminal that screens can be drawn on.

    Raises:
        UsageError: they are not.
    """
    instead = "`hub watch --text` goes line by line, `hub runs`, `hub live` and `hub report` print"
    for number, name in enumerate(_STREAMS):
        if not os.isatty(number):
            raise UsageError(f"hub watch needs a terminal, and {name} is none; {instead}, `hub view` is for browsers")
    if environ.get("TERM", "") in ("", "dumb", "unknown"):
        raise UsageError(f"hub watch cannot draw on a terminal of type {environ.get('TERM', '')!r} ($TERM); {instead}")


def _show(directory: Path | None, roots: Sequence[Path], environ: Mapping[str, str], reviews: bool) -> int:
    from rollouthub_tui.app.app import WatchApp
    from rollouthub_tui.app.app_runner import run_app
    from rollouthub_tui.crash_message import last_words, logging_beside
    from rollouthub_tui.widgets.rollout.terminal_graphics import prepare_graphics

    with logging_beside(environ):
        prepare_graphics(environ)
        app = WatchApp(roots, environ, run=directory, reviews=reviews)
        code = run_app(app)
    if app.problem is not None:
        last_words(app.problem)
    return code
