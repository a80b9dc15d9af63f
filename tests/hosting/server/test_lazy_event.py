"""An event that is made when somebody waits for it."""

import anyio
import anyio.lowlevel

from rollouthub.hosting.server.lazy_event import LazyEvent


async def test_all_who_wait_go_on_when_it_is_set() -> None:
    event, woken = LazyEvent(), list[int]()

    async def wait(number: int) -> None:
        await event.wait()
        woken.append(number)

    async with anyio.create_task_group() as waiters:
        for number in range(2):
            waiters.start_soon(wait, number)
        await anyio.lowlevel.checkpoint()
        assert not woken
        assert not event.is_set()
        event.set()
    assert sorted(woken) == [0, 1]


async def test_who_waits_for_one_that_is_set_goes_on() -> None:
    event = LazyEvent()
    event.set()
    with anyio.fail_after(5):
        await event.wait()
        await event.wait()
    assert event.is_set()
