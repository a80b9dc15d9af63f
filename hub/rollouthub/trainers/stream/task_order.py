"""In which order tasks are played: mixed anew each epoch, and the same for the same seed."""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing

from rollouthub.engine.open_plan import OpenEnvironment, OpenPlan
from rollouthub.engine.sample import SampleContext
from rollouthub.protocols import TaskCard
from rollouthub.task import BadRow
from rollouthub.trainers.stream.pending_group import TaskPass

WINDOW = 1024
"""Tasks held at a time to draw the next from: a split may have millions."""


async def tickets(
    opened: OpenPlan, casts: Mapping[str, tuple[OpenEnvironment, SampleContext]], epoch: int, *, shuffle: bool
) -> AsyncGenerator[TaskPass]:
    """One visit to every task.

    Raises:
        DataError: a row makes no task, and bad rows are not skipped.
    """
    streams = [_of_one(opened, environment, cast, epoch) for environment, cast in casts.values()]
    if not shuffle:
        for stream in streams:
            async with aclosing(stream):
                async for ticket in stream:
                    yield ticket
        return
    draw = random.Random(f"{opened.plan.seed}\0{epoch}")
    window: list[TaskPass] = []
    async with aclosing(_in_turn(streams)) as mixed:
        async for ticket in mixed:
            window.append(ticket)
            if len(window) >= WINDOW:
                yield _drawn(window, draw)
    while window:
        yield _drawn(window, draw)


def _drawn(window: list[TaskPass], draw: random.Random) -> TaskPass:
    place = draw.randrange(len(window))
    window[place], window[-1] = window[-1], window[place]
    return window.pop()


async def _in_turn(streams: list[AsyncGenerator[TaskPass]]) -> AsyncGenerator[TaskPass]:
    """One of each, until none has any left."""
    left = list(streams)
    try:
        while left:
            for stream in tuple(left):
                ticket = await anext(stream, None)
                if ticket is None:
                    left.remove(stream)
                else:
                    yield ticket
    finally:
        for stream in streams:
            await stream.aclose()


async def _of_one(
    opened: OpenPlan, environment: OpenEnvironment, cast: SampleContext, epoch: int
) -> AsyncGenerator[TaskPass]:
    cards: AsyncIterator[TaskCard | BadRow] = opened.tasks(environment)
    async for card in cards:
        if not isinstance(card, BadRow):
            yield TaskPass(cast, card, epoch)
