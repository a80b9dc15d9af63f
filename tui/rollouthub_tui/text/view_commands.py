"""Text commands that list and open runs and rollouts."""

import anyio.to_thread

from rollouthub.cli.live.machine_lines import machine_lines
from rollouthub.cli.run_lookup import find_watched
from rollouthub.errors import UsageError
from rollouthub.live.follow import parse_filter
from rollouthub.live.follow.transcript_search import compile_pattern
from rollouthub.statistics.amounts import count
from rollouthub_tui.text.last_listing import ShownRollouts, ShownRuns, ShownTasks
from rollouthub_tui.text.opened_rollout import open_rollout
from rollouthub_tui.text.pages import in_pages
from rollouthub_tui.text.position import Position, check_number
from rollouthub_tui.text.run_words import flight_words, run_lines, seen_run_words, standing_line
from rollouthub_tui.text.speakable_text import sentence
from rollouthub_tui.widgets.machine_words import why_none
from rollouthub_tui.widgets.rollouts.rollout_query import RolloutQuery
from rollouthub_tui.widgets.rollouts.search_hits import Hits


async def runs(session: Position, rest: str) -> None:
    """List the runs, and close the open one."""
    session.leave_run()
    await session.runs.refresh()
    found = session.runs.runs
    await anyio.to_thread.run_sync(session.tallies.read, found)
    session.shown = ShownRuns(found)
    live = sum(run.is_live for run in found)
    session.output.say(f"{count(len(found), 'run')}, {live:,} of them live." if found else "There are no runs yet.")
    now = session.clock()
    said = (f"{at}: {seen_run_words(run, session.tallies.of(run), now)}" for at, run in enumerate(found, 1))
    session.read(in_pages(said))
    for problem in session.runs.problems:
        session.output.warn(problem)
    if not found:
        session.output.say(f"Looked in {', '.join(map(str, session.roots))}. Make one with: hub run arithmetic")


async def open_(session: Position, rest: str) -> None:
    """Open a run, a task's rollouts, or a rollout."""
    if not rest:
        raise UsageError("open what? Say a number of the list, or a name")
    number = int(rest) if rest.isascii() and rest.isdigit() else None
    shown = session.shown
    if session.run is not None:
        if isinstance(shown, ShownTasks) and number is not None:
            check_number(number, len(shown.groups), "task")
            await _list(session, RolloutQuery(group=shown.groups[number - 1], latest=["task"]))
        else:
            await open_rollout(session, session.meant(rest))
    elif isinstance(shown, ShownRuns) and number is not None:
        check_number(number, len(shown.runs), "run")
        session.output.say_all(run_lines(await session.open_run(shown.runs[number - 1].directory)))
    else:
        directory = await find_watched(rest, session.roots, session.environ)
        session.output.say_all(run_lines(await session.open_run(directory)))


async def back(session: Position, rest: str) -> None:
    """Go from a rollout to its run, or from a run to the list of runs."""
    if session.target is not None:
        session.target = None
        session.output.say(standing_line(session.here))
    elif session.run is not None:
        await runs(session, "")
    else:
        session.output.say("These are the runs; quit leaves.")


async def summary(session: Position, rest: str) -> None:
    """Show a run's figures."""
    session.read(in_pages(run_lines(session.here)))


async def rollouts(session: Position, rest: str) -> None:
    """List rollouts, all or those that match a filter."""
    query = RolloutQuery(where=parse_filter(rest))
    query.note("filter", bool(rest))
    await _list(session, query)


async def errors(session: Position, rest: str) -> None:
    """List rollouts that did not end scored, all or those that match a filter."""
    query = RolloutQuery(where=parse_filter(rest), errors=True)
    query.note("filter", bool(rest))
    query.note("errors only", True)
    await _list(session, query)


async def _list(session: Position, query: RolloutQuery, hits: Hits | None = None) -> None:
    run = session.here
    session.rollout_query, session.target = query, None
    shown = session.shown = ShownRollouts.of(run, query, hits)
    said = count(len(shown), "rollout")
    if query.narrows:
        said += f" of {run.feed.counts.effective + len(run.feed.live):,}"
    if shown.flights:
        word = "in flight" if run.feed.info.status == "running" else "left unfinished"
        said += f", {len(shown.flights):,} of them {word}"
    session.output.say(", ".join([said, *query.words(lambda group: _task_of(session, group))]) + ".")
    session.read(in_pages(shown.lines()))


def _task_of(session: Position, group: str) -> str:
    line = session.here.feed.groups.find(group)
    return line.task_id or group if line else group


async def search(session: Position, pattern: str) -> None:
    """List the rollouts whose transcripts match a pattern."""
    run, hits = session.here, Hits(compile_pattern(pattern))
    await hits.look_through(run.directory)
    hits.settle(run.feed.columns)
    if hits.problem is not None:
        raise UsageError(hits.problem)
    query = RolloutQuery(pattern=pattern, matching=hits.by_place)
    query.note("transcripts", True)
    await _list(session, query, hits)


async def next_error(session: Position, rest: str) -> None:
    """Open the next rollout in the list that did not end scored."""
    await _beside(session, backwards=False)


async def previous_error(session: Position, rest: str) -> None:
    """Open the previous rollout in the list that did not end scored."""
    await _beside(session, backwards=True)


async def _beside(session: Position, *, backwards: bool) -> None:
    shown = _listed(session)
    place = session.this.place if session.target is not None else None
    at = shown.found.position(place) if place is not None else None
    start = at if at is not None else 0 if backwards else -1
    position = shown.found.next_error(start, backwards=backwards)
    await _open_at(session, shown, position, "there is no error among what is listed")


async def best(session: Position, rest: str) -> None:
    """Open the rollout with the highest reward in the list."""
    shown = _listed(session)
    await _open_at(session, shown, shown.found.best(), "nothing that is listed has a reward")


async def worst(session: Position, rest: str) -> None:
    """Open the rollout with the lowest reward in the list."""
    shown = _listed(session)
    await _open_at(session, shown, shown.found.worst(), "nothing that is listed has a reward")


def _listed(session: Position) -> ShownRollouts:
    """The last list of rollouts; if there is none, or the run was read anew, a new list."""
    shown = session.shown
    if not isinstance(shown, ShownRollouts) or not shown.is_current:
        shown = session.shown = ShownRollouts.of(session.here, session.rollout_query)
    return shown


async def _open_at(session: Position, shown: ShownRollouts, position: int | None, otherwise: str) -> None:
    if position is None:
        raise UsageError(otherwise)
    await open_rollout(session, shown.target_at(shown.found[position]))


async def tasks(session: Position, rest: str) -> None:
    """List the tasks, the hardest first."""
    shown = session.shown = ShownTasks.of(session.here)
    session.target = None
    session.output.say(f"{count(len(shown.groups), 'task')}, the hardest first; open lists one's rollouts.")
    session.read(in_pages(shown.lines()))


async def machines(session: Position, rest: str) -> None:
    """Show the workers, servers and sandboxes that a run plays on."""
    run, view = session.here, session.here.view
    if run.feed.info.status == "running":
        session.output.say(f"in flight: {flight_words(run)}")
    if view is None or run.feed.info.status != "running":
        session.output.say(f"machines: {why_none(run)}")
        return
    told = [sentence(line.plain) for line in machine_lines(view)]
    session.output.say_all(told or ["machines: none is told of; its agent needs no model, or none was called yet"])
    if not view.staff:
        concurrency = "" if view.concurrency is None else f", up to {view.concurrency:,} at a time"
        session.output.say(f"workers: all episodes are played in the hub's own process, {view.pid}{concurrency}")
