"""`hub live`: lists and controls runs in progress."""

from typing import Annotated

import typer

from rollouthub.errors import UsageError

live = typer.Typer(help="List and control the runs in progress, from a script or a shell.", no_args_is_help=False)

Run = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="RUN",
        help="A run's directory, its id, or the id's beginning; not needed where one run is in progress.",
    ),
]
Rollout = Annotated[str | None, typer.Argument(metavar="ROLLOUT", help="A rollout in flight, or its id's beginning.")]
Whole = Annotated[bool, typer.Option("--all", help="Apply to the whole run.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@live.callback(invoke_without_command=True)
def list_running(
    context: typer.Context,
    run: Run = None,
    as_json: AsJson = False,
    limit: Annotated[int, typer.Option(min=0, max=10_000, help="Number of rollouts to show of each run.")] = 20,
) -> None:
    """List and control the runs in progress, from a script or a shell.

    Without a command it lists the runs and their rollouts in flight. `hub watch` shows runs on a screen.
    """
    if context.invoked_subcommand is not None:
        return
    from rollouthub.cli.live.action import show_running
    from rollouthub.event_loop import run_async

    run_async(show_running, run, limit, as_json)


@live.command()
def events(
    run: Run = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Follow a run's events, without message texts, until it ends or Ctrl-C."""
    from rollouthub.cli.live.action import follow
    from rollouthub.event_loop import run_async

    try:
        run_async(follow, run, as_json)
    except KeyboardInterrupt:
        raise typer.Exit from None


@live.command()
def show(
    rollout: Annotated[str, typer.Argument(metavar="ROLLOUT", help="A rollout in flight, or its id's beginning.")],
    content: Annotated[bool, typer.Option("--content", help="Also show messages and tool results.")] = False,
    run: Run = None,
    as_json: AsJson = False,
) -> None:
    """Show one rollout in flight."""
    from rollouthub.cli.live.action import show_rollout
    from rollouthub.event_loop import run_async

    run_async(show_rollout, rollout, run, content, as_json)


@live.command()
def cancel(
    rollout: Rollout = None, run: Run = None, whole: Whole = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """End a rollout unscored, recorded as cancelled; or, with --all, the run at once, as a second Ctrl-C does."""
    from rollouthub.cli.live.action import end
    from rollouthub.event_loop import run_async

    _check_target(rollout, whole)
    _confirm(whole and not yes, "End the run at once? What is in flight stays unscored.")
    run_async(end, "cancel", rollout, run, as_json)


@live.command()
def interrupt(
    rollout: Rollout = None, run: Run = None, whole: Whole = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Stop an agent now, and score what it did; or, with --all, start no new episodes, as one Ctrl-C does."""
    from rollouthub.cli.live.action import end
    from rollouthub.event_loop import run_async

    _check_target(rollout, whole)
    _confirm(whole and not yes, "Start nothing new? What is in flight finishes.")
    run_async(end, "interrupt", rollout, run, as_json)


@live.command()
def pause(run: Run = None, as_json: AsJson = False) -> None:
    """Pause a run: it starts no new episodes until it is resumed; those in flight go on."""
    from rollouthub.cli.live.action import hold
    from rollouthub.event_loop import run_async

    run_async(hold, "pause", run, as_json)


@live.command()
def resume(run: Run = None, as_json: AsJson = False) -> None:
    """Resume a paused run."""
    from rollouthub.cli.live.action import hold
    from rollouthub.event_loop import run_async

    run_async(hold, "resume", run, as_json)


@live.command()
def tell(
    rollout: Annotated[str, typer.Argument(metavar="ROLLOUT", help="A rollout in flight, or its id's beginning.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text of the message.")],
    run: Run = None,
    as_json: AsJson = False,
) -> None:
    """Send an agent a user message: its model's unfinished response is cut short, and the record notes both."""
    from rollouthub.cli.live.action import say
    from rollouthub.event_loop import run_async

    run_async(say, rollout, text, run, as_json)


@live.command()
def retry(
    rollout: Annotated[
        str, typer.Argument(metavar="ROLLOUT", help="A rollout that ended unscored, or its id's beginning.")
    ],
    run: Run = None,
    as_json: AsJson = False,
) -> None:
    """Play a sample that ended unscored again; a scored one is refused."""
    from rollouthub.cli.live.action import play_again
    from rollouthub.event_loop import run_async

    run_async(play_again, rollout, run, as_json)


@live.command()
def retune(
    rollout: Rollout = None,
    run: Run = None,
    concurrency: Annotated[
        int | None,
        typer.Option("-c", "--concurrency", min=1, max=10_000, help="For the run: the number of episodes in flight."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=4096, help="For a run on a Ray cluster: the number of worker processes.")
    ] = None,
    max_turns: Annotated[int | None, typer.Option(min=1, help="For a rollout: its limit of responses.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="For a rollout: its limit of output tokens.")] = None,
    max_seconds: Annotated[
        str | None, typer.Option(metavar="TIME", help="For a rollout: the most time its agent may take.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0.0, help="For a rollout: its limit of cost, in US dollars.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change how many episodes a run plays at a time, or the limits of one rollout; its record notes that."""
    from rollouthub.cli.live.action import change
    from rollouthub.event_loop import run_async
    from rollouthub.settings import seconds_of

    seconds = None if max_seconds is None else seconds_of("--max-seconds", max_seconds)
    given = {"max_turns": max_turns, "max_tokens": max_tokens, "max_seconds": seconds, "max_cost": max_cost}
    limits: dict[str, float | None] = {name: value for name, value in given.items() if value is not None}
    if rollout is None and limits:
        raise UsageError(f"{_option(limits)} is a limit of one rollout: name it (`hub live` lists those in flight)")
    size = concurrency or workers
    if rollout is None and size is None:
        raise UsageError(
            "say what to change: --concurrency N, --workers N, or a rollout and --max-turns N (or another limit)"
        )
    if rollout is not None and not limits:
        raise UsageError(f"say which limit of {rollout}: --max-turns, --max-tokens, --max-seconds or --max-cost")
    if rollout is not None and size is not None:
        option = "--concurrency" if concurrency else "--workers"
        raise UsageError(f"{option} is the run's, and not a rollout's: change one at a time")
    if concurrency is not None and workers is not None:
        raise UsageError("--concurrency and --workers: change one at a time")
    run_async(change, rollout, run, concurrency, workers, limits, as_json)


def _option(limits: dict[str, float | None]) -> str:
    return "--" + next(iter(limits)).replace("_", "-")


def _check_target(rollout: str | None, whole: bool) -> None:
    if (rollout is None) != whole:
        raise UsageError(
            "name a rollout (`hub live` lists those in flight), or say --all for the whole run"
            if rollout is None
            else f"{rollout} or --all: which of the two?"
        )


def _confirm(is_needed: bool, question: str) -> None:
    """Ask for confirmation if stdin is a terminal."""
    import sys

    if is_needed and sys.stdin.isatty() and not typer.confirm(question):
        raise typer.Exit
