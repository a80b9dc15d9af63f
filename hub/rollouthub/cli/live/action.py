"""What the `hub live` commands do."""

import json
import os
import sys
from collections.abc import Mapping
from contextlib import aclosing
from typing import Literal

from rich.text import Text

from rollouthub.cli.console import remarks, results
from rollouthub.cli.live.live_tables import event_line, print_rollout, rollouts_table, run_lines
from rollouthub.errors import UnknownNameError, UsageError
from rollouthub.live.control.live_client import RunningHub, choose_run, find_running, knock
from rollouthub.live.control.live_protocol import MOST_CONCURRENT, Done
from rollouthub.text import escaped

NOTHING = "No hub of yours plays here. Start one (hub run …) and look again while it plays."


async def show_running(run: str | None, limit: int, as_json: bool) -> None:
    """Print the runs in progress, or one of them, and their rollouts in flight."""
    running, problems = await find_running(os.environ, limit)
    if run is not None:
        running = [choose_run(running, run)]
    for problem in problems:
        remarks().print(Text(problem, style="yellow"))
    if as_json:
        _print_json([hub.listing.model_dump(mode="json") for hub in running])
        return
    console = results()
    if not running and not problems:
        console.print(NOTHING)
    for index, hub in enumerate(running):
        if index:
            console.print()
        for line in run_lines(hub.listing.run):
            console.print(line)
        if hub.listing.rollouts:
            console.print(rollouts_table(hub.listing.rollouts))
        if hub.listing.left_out:
            console.print(Text(f"and {hub.listing.left_out} more (--limit)", style="dim"))


async def follow(run: str | None, as_json: bool) -> None:
    """Print a run's events until it ends."""
    running, _ = await find_running(os.environ, 0)
    hub = choose_run(running, run)
    console = results()
    async with knock(hub.path) as client, aclosing(client.events()) as events:
        async for event in events:
            if as_json:
                sys.stdout.write(escaped(event.model_dump_json()) + "\n")
                sys.stdout.flush()
            else:
                console.print(event_line(event), soft_wrap=True)


async def show_rollout(rollout: str, run: str | None, content: bool, as_json: bool) -> None:
    """Print one rollout in flight in full."""
    hub, rollout_id = await _find(rollout, run)
    async with knock(hub.path) as client:
        shown = await client.show(rollout_id or rollout, content=content)
    if as_json:
        _print_json(shown.model_dump(mode="json"))
    else:
        print_rollout(results(), shown)


async def end(how: Literal["cancel", "interrupt"], rollout: str | None, run: str | None, as_json: bool) -> None:
    """Cancel or interrupt a rollout; without one, the whole run."""
    hub, rollout_id = await _find(rollout, run)
    async with knock(hub.path) as client:
        done = await (client.cancel(rollout_id) if how == "cancel" else client.interrupt(rollout_id))
    _report(done, as_json)


async def hold(how: Literal["pause", "resume"], run: str | None, as_json: bool) -> None:
    """Pause or resume a run; a paused run starts no new episodes."""
    hub, _ = await _find(None, run)
    async with knock(hub.path) as client:
        done = await (client.pause() if how == "pause" else client.resume())
    _report(done, as_json)


async def say(rollout: str, text: str, run: str | None, as_json: bool) -> None:
    """Send a user message to a rollout's agent."""
    hub, rollout_id = await _find(rollout, run)
    async with knock(hub.path) as client:
        done = await client.tell(rollout_id or rollout, text)
    _report(done, as_json)


async def play_again(rollout: str, run: str | None, as_json: bool) -> None:
    """Ask a run to play a sample again."""
    hub, _ = await _find(None, run)
    async with knock(hub.path) as client:
        done = await client.retry(rollout)
    _report(done, as_json)


async def change(
    rollout: str | None,
    run: str | None,
    concurrency: int | None,
    workers: int | None,
    limits: Mapping[str, float | None],
    as_json: bool,
) -> None:
    """Change the limits of a rollout; without one, the run's concurrency or number of workers."""
    hub, rollout_id = await _find(rollout, run)
    async with knock(hub.path) as client:
        if rollout_id:
            done = await client.retune(rollout_id, limits)
        elif workers is not None:
            done = await client.resize_workers(workers)
        else:
            assert concurrency is not None
            done = await client.resize(concurrency)
    _report(done, as_json)


async def _find(rollout: str | None, run: str | None) -> tuple[RunningHub, str | None]:
    """The hub that plays the run or rollout, and the rollout's full id, which may be given by its beginning.

    Raises:
        UsageError: no run or rollout matches, or several do.
    """
    running, _ = await find_running(os.environ, MOST_CONCURRENT if rollout else 0)
    if rollout is None or run is not None or len(running) < 2:
        running = [choose_run(running, run)]
    if rollout is None:
        return running[0], None
    names = [(hub, view.rollout_id) for hub in running for view in hub.listing.rollouts]
    found = [(hub, name) for hub, name in names if name == rollout]
    found = found or [(hub, name) for hub, name in names if name.startswith(rollout)]
    if not found:
        known = sorted({name for _, name in names})
        where = running[0].listing.run.directory if len(running) == 1 else "RUN"
        raise UnknownNameError(
            "rollout in flight", rollout, known, f"What has ended is shown by: hub show {where} ROLLOUT"
        )
    if len(found) > 1:
        listing = ", ".join(f"{name} of {hub.listing.run.run_id}" for hub, name in found[:8])
        raise UsageError(f"{rollout!r} could be several rollouts in flight: {listing}; write more of it, or --run RUN")
    return found[0]


def _report(done: Done, as_json: bool) -> None:
    if as_json:
        _print_json(done.model_dump())
    else:
        results().print(Text(done.message), soft_wrap=True)


def _print_json(value: object) -> None:
    sys.stdout.write(json.dumps(value) + os.linesep)
