"""Check: episodes that run concurrently observe the same as episodes that run alone."""

import inspect
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from pydantic_core import to_json

from rollouthub import Environment, Message, Submission, VerifierError
from rollouthub.protocols import Episode
from rollouthub_registry.check.argument_samples import well_formed
from rollouthub_registry.check.check_finding import Broken, NotApplicable
from rollouthub_registry.check.checked_environment import AnyTask, CheckedEnvironment
from rollouthub_registry.check.scripted_episode import SUBMIT, play

MOST_EPISODES = 4

Observed = list[str]
"""What one episode returned, in order."""


async def episodes_do_not_bleed(subject: CheckedEnvironment) -> str:
    """Check that interleaved episodes of different tasks give the same results, states and scores as one after the
    other.
    """
    tasks = subject.tasks()[:MOST_EPISODES]
    if len(tasks) == 1:
        tasks *= 2
    references = [await subject.reference(task) for task in tasks]
    shared = _shared_state(subject)
    places = range(len(tasks))
    alone, again = [
        [(await _observe(subject, [tasks[place]], [references[place]], [place]))[0] for place in places]
        for _ in range(2)
    ]
    together = await _observe(subject, tasks, references, places)
    if leaks := _foreign_marks(together):
        raise Broken("an episode shows what was said in another", _FIX, leaks)
    if alone != again:
        changed = sorted(name for name, value in _shared_state(subject).items() if shared.get(name) != value)
        if not changed:
            raise NotApplicable("results differ from run to run even alone (time, paths?), so bleeding cannot be told")
        details = [f"{name} is shared, and changed" for name in changed]
        raise Broken("an episode depends on those before it", _FIX, details + _differences(tasks, alone, again))
    if alone != together:
        raise Broken("an episode depends on those beside it", _FIX, _differences(tasks, alone, together))
    return f"{len(tasks)} interleaved episodes behave as they do alone"


_FIX = "keep state on `self`, made in `setup`; nothing an episode changes may live in the class or the module"


async def _observe(
    subject: CheckedEnvironment, tasks: Sequence[AnyTask], scripts: Sequence[Sequence[Message]], places: Sequence[int]
) -> list[Observed]:
    """Play episodes in turns: a call of the first, a call of the second, and so on."""
    observed: list[Observed] = [[] for _ in tasks]
    host = subject.host_of(list({task.id: task for task in tasks}.values()))
    async with AsyncExitStack() as stack:
        episodes = [await stack.enter_async_context(subject.episode(task, host)) for task in tasks]
        calls = [_calls(episode, place) for episode, place in zip(episodes, places, strict=True)]
        for step in range(max(map(len, calls))):
            for episode, mine, seen in zip(episodes, calls, observed, strict=True):
                if step < len(mine):
                    seat, name, arguments = mine[step]
                    seen.append((await episode.seats[seat].call_tool(name, arguments)).model_dump_json())
        played = [await play(episode, script) for episode, script in zip(episodes, scripts, strict=True)]
        for episode, submission, seen in zip(episodes, played, observed, strict=True):
            seen.append(to_json(await subject.snapshot(episode)).decode())
            seen.append(await _score(episode, submission))
    return observed


def _calls(episode: Episode, place: int) -> list[tuple[str, str, dict[str, Any]]]:
    """A call of every tool, with a text unique to the episode in its free strings."""
    return [
        (seat, tool.name, next(well_formed(tool, _mark(place))))
        for seat, plane in episode.seats.items()
        for tool in plane.tools
        if tool.name != SUBMIT
    ]


async def _score(episode: Episode, submission: Submission) -> str:
    try:
        score = await episode.verify(submission)
    except VerifierError as error:
        return str(error)
    return f"reward {score.reward:.9g}, passed {score.passed}"


def _mark(place: int) -> str:
    return f"mark-{place}-of-an-episode"


def _foreign_marks(observed: Sequence[Observed]) -> list[str]:
    return [
        f"what was said in episode {other} is in a result or the state of episode {place}"
        for place, seen in enumerate(observed)
        for other in range(len(observed))
        if other != place and any(_mark(other) in text for text in seen)
    ]


def _differences(tasks: Sequence[AnyTask], one: Sequence[Observed], other: Sequence[Observed]) -> list[str]:
    return [
        f"{task.id}: {_first_difference(mine, theirs)}"
        for task, mine, theirs in zip(tasks, one, other, strict=True)
        if mine != theirs
    ]


def _first_difference(one: Observed, other: Observed) -> str:
    pair = next(pair for pair in zip(one, other, strict=True) if pair[0] != pair[1])
    return f"{pair[0][:120]} became {pair[1][:120]}"


def _shared_state(subject: CheckedEnvironment) -> dict[str, str]:
    """Values of the class and its module that are no code, by name."""
    found: dict[str, str] = {}
    for kind in subject.environment.__mro__:
        if kind is Environment:
            break
        for name, value in vars(kind).items():
            if _is_state(name, value):
                found[f"{kind.__name__}.{name}"] = repr(value)[:10_000]
    module = inspect.getmodule(subject.environment)
    for name, value in vars(module).items() if module else ():
        if _is_state(name, value):
            found[name] = repr(value)[:10_000]
    return found


def _is_state(name: str, value: object) -> bool:
    return not name.startswith("__") and isinstance(value, list | dict | set | int | float | str | bytearray)
