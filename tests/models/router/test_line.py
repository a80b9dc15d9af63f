"""The waiting line: in order, without polling, and nobody is lost when one gives up."""

import math

import anyio
import pytest

from rollouthub.models.router.waiting_line import WaitingLine
from tests.models.router.virtual_time import VIRTUAL


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


async def test_waiters_go_in_order_of_arrival_though_a_later_one_could_go_first() -> None:
    line, free, went = WaitingLine(), 0, list[int]()

    async def take(size: int) -> None:
        nonlocal free
        await line.wait(lambda: 0.0 if free >= size else math.inf)
        free -= size
        went.append(size)

    async with anyio.create_task_group() as takers:
        for size in (3, 1, 2):
            takers.start_soon(take, size)
        await anyio.wait_all_tasks_blocked()
        free = 2
        line.changed()
        await anyio.wait_all_tasks_blocked()
        assert went == []
        free = 6
        line.changed()
    assert went == [3, 1, 2]


async def test_the_first_asks_again_after_as_long_as_it_was_told() -> None:
    line, asked = WaitingLine(), list[float]()

    def seconds_left() -> float:
        asked.append(anyio.current_time())
        return 10.0 - asked[-1]

    await line.wait(seconds_left)
    assert asked == [0.0, 10.0]


async def test_one_that_gives_up_lets_the_next_look() -> None:
    line, went = WaitingLine(), list[str]()

    async def patient() -> None:
        await line.wait(lambda: 0.0)
        went.append("patient")

    async with anyio.create_task_group() as tasks:

        async def impatient() -> None:
            with anyio.move_on_after(5):
                await line.wait(lambda: math.inf)

        tasks.start_soon(impatient)
        tasks.start_soon(patient)
        await anyio.wait_all_tasks_blocked()
        assert (len(line), went) == (2, [])
    assert (len(line), went, anyio.current_time()) == (0, ["patient"], 5.0)


async def test_an_error_of_the_first_ends_its_wait_alone() -> None:
    line = WaitingLine()

    def refuse() -> float:
        raise ValueError

    with pytest.raises(ValueError):
        await line.wait(refuse)
    await line.wait(lambda: 0.0)
    assert len(line) == 0
