"""The order in which tasks are played: shuffled for each epoch, and repeatable by the seed."""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing

from rollouthub.engine.mixture import Turns
from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.sample import SampleContext
from rollouthub.protocols import TaskCard
from rollouthub.task import BadRow
from rollouthub.trainers.stream.pending_group import TaskPass

WINDOW = 1024
"""How many tasks are buffered for shuffling: a split may have millions of tasks."""


async def tickets(
    opened: OpenPlan, contexts: Mapping[str, tuple[OpenEnvironment, SampleContext]], epoch: int, *, shuffle: bool
) -> AsyncGenerator[TaskPass]:
    """One pass over every task, in the epoch's order.

    Raises:
        DataError: a row makes no task, and bad rows are not skipped.
    """
    streams = {name: _of_one(opened, environment, context, epoch) for name, (environment, context) in contexts.items()}
    if not shuffle and not opened.weights:
        for stream in streams.values():
            async with aclosing(stream):
                async for ticket in stream:
                    yield ticket
        return
    draw = random.Random(f"{opened.plan.seed}\0{epoch}")
    window: list[TaskPass] = []
    async with aclosing(_in_turn(streams, opened.weights or dict.fromkeys(streams, 1.0))) as mixed:
        async for ticket in mixed:
            window.append(ticket)
            if len(window) >= WINDOW or not shuffle:
                yield _drawn(window, draw)
    while window:
        yield _drawn(window, draw)


def _drawn(window: list[TaskPass], draw: random.Random) -> TaskPass:
    place = draw.randrange(len(window))
    window[place], window[-1] = window[-1], window[place]
    return window.pop()


async def _in_turn(
    streams: dict[str, AsyncGenerator[TaskPass]], weights: Mapping[str, float]
) -> AsyncGenerator[TaskPass]:
    """Tasks of all environments, interleaved by their weights, until all are exhausted."""
    turns, left = Turns(weights), set(streams)
    try:
        while left:
            name = turns.next()
            ticket = await anext(streams[name], None)
            if ticket is None:
                turns.leave(name)
                left.remove(name)
            else:
                yield ticket
    finally:
        for stream in streams.values():
            await stream.aclose()


async def _of_one(
    opened: OpenPlan, environment: OpenEnvironment, context: SampleContext, epoch: int
) -> AsyncGenerator[TaskPass]:
    cards: AsyncIterator[TaskCard | BadRow] = opened.tasks(environment, epoch=epoch)
    async for card in cards:
        if not isinstance(card, BadRow):
            yield TaskPass(context, card, epoch)
