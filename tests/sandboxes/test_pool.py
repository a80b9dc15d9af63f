"""The warm pool: what it hands out, what it keeps ready, and how it ends."""

import logging
from contextlib import AsyncExitStack

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from rollouthub.errors import SandboxError
from rollouthub_sandboxes.pool import WarmPool
from tests.sandboxes.lamps import Factory, Lamp


async def test_a_thing_is_handed_out_once_and_ended_after_its_use() -> None:
    factory = Factory()
    async with factory.pool() as pool:
        used: list[Lamp] = []
        for _ in range(5):
            async with pool.acquire("a") as lamp:
                assert lamp.is_alive
                lamp.users += 1
                used.append(lamp)
        await factory.until(lambda: all(lamp in factory.ended for lamp in used))
    assert [lamp.users for lamp in used] == [1] * 5
    assert len(set(map(id, used))) == 5


async def test_warm_things_are_handed_out_without_a_wait() -> None:
    factory = Factory()
    async with factory.pool() as pool:
        await pool.warm("a", 3)
        assert pool.statistics.warm == 3
        factory.gate = anyio.Event()  # nothing more can be made
        async with pool.acquire("a"), pool.acquire("a"), pool.acquire("a"):
            assert pool.statistics.from_warm == 3
            assert pool.statistics.live == 3
        factory.gate.set()


async def test_leaving_does_not_wait_for_the_end_of_the_thing() -> None:
    factory = Factory()
    factory.end_gate = anyio.Event()
    async with factory.pool() as pool:
        with anyio.fail_after(5):
            async with pool.acquire("a") as lamp:
                pass
        assert lamp not in factory.ended
        assert pool.statistics.ending == 1
        factory.end_gate.set()
        await factory.until(lambda: lamp in factory.ended)


async def test_what_was_taken_is_made_again_in_the_background() -> None:
    factory = Factory()
    async with factory.pool() as pool:
        await pool.warm("a", 2)
        async with pool.acquire("a"):
            await factory.until(lambda: pool.statistics.warm == 2)
        assert pool.statistics.made >= 3


async def test_a_key_taken_once_is_not_made_again() -> None:
    factory = Factory()
    async with factory.pool() as pool:
        async with pool.acquire("once") as lamp:
            pass
        await factory.until(lambda: lamp in factory.ended)
        assert (pool.statistics.made, pool.statistics.warm) == (1, 0)


async def test_as_many_are_ready_as_were_lately_taken() -> None:
    factory = Factory()
    async with factory.pool(most=20) as pool:
        for _ in range(6):
            async with pool.acquire("a"):
                pass
        await factory.until(lambda: pool.statistics.warm == 6)


async def test_only_so_many_are_started_at_once() -> None:
    factory = Factory()
    factory.gate = anyio.Event()
    async with factory.pool(most=20, parallel=3) as pool, anyio.create_task_group() as group:

        async def use() -> None:
            async with pool.acquire("a"):
                pass

        for _ in range(10):
            group.start_soon(use)
        await anyio.wait_all_tasks_blocked()
        assert factory.under_way == 3
        factory.gate.set()
    assert factory.most_under_way == 3
    assert pool.statistics.acquired == 10


async def test_no_more_exist_than_allowed_and_every_waiter_is_served_in_order() -> None:
    factory = Factory()
    served: list[int] = []
    async with factory.pool(most=3) as pool, anyio.create_task_group() as group:

        async def use(number: int) -> None:
            async with pool.acquire(f"kind {number % 5}"):
                served.append(number)
                await anyio.lowlevel.checkpoint()

        with anyio.fail_after(5):
            for number in range(40):
                group.start_soon(use, number)
                await anyio.lowlevel.checkpoint()
    assert sorted(served) == list(range(40))
    assert factory.most_existing <= 3


async def test_another_keys_warm_things_make_room_for_a_waiter() -> None:
    factory = Factory()
    async with factory.pool(most=3) as pool:
        await pool.warm("a", 3)
        with anyio.fail_after(5):
            async with pool.acquire("b") as lamp:
                assert lamp.kind == "b"
        assert [lamp.kind for lamp in factory.ended[:1]] == ["a"]
    assert factory.most_existing <= 3


async def test_a_waiter_is_not_passed_by_those_who_come_later_for_a_busier_key() -> None:
    factory = Factory()
    async with factory.pool(most=2) as pool, anyio.create_task_group() as group:
        is_served = anyio.Event()

        async def use_rare() -> None:
            async with pool.acquire("rare"):
                is_served.set()

        async def keep_busy(task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
            async with pool.acquire("busy"):
                task_status.started()
            while not is_served.is_set():
                async with pool.acquire("busy"):
                    await anyio.lowlevel.checkpoint()

        for _ in range(4):
            await group.start(keep_busy)
        with anyio.fail_after(5):
            group.start_soon(use_rare)
            await is_served.wait()


async def test_a_warm_thing_that_died_is_never_handed_out() -> None:
    factory = Factory()
    async with factory.pool() as pool:
        await pool.warm("a", 2)
        for lamp in factory.lamps:
            lamp.is_alive = False
        dead = list(factory.lamps)
        async with pool.acquire("a") as lamp:
            assert lamp.is_alive
            assert lamp not in dead
        await factory.until(lambda: all(lamp in factory.ended for lamp in dead))
        assert pool.statistics.discarded == 2


async def test_a_failure_to_make_reaches_the_one_who_waits() -> None:
    factory = Factory()
    factory.failures = [SandboxError("the engine is full")]
    async with factory.pool() as pool:
        with pytest.raises(SandboxError, match="the engine is full"):
            async with pool.acquire("a"):
                pytest.fail("a thing that could not be made was handed out")
        async with pool.acquire("a") as lamp:
            assert lamp.is_alive
        assert pool.statistics.failed == 1


async def test_a_failure_in_the_background_is_said_and_the_next_one_tries_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    factory = Factory()
    async with factory.pool() as pool:
        await pool.warm("a", 1)
        factory.failures = [SandboxError("no space left")]
        with caplog.at_level(logging.WARNING):
            async with pool.acquire("a"):
                await factory.until(lambda: pool.statistics.failed == 1)
        assert "no space left" in caplog.text
        assert pool.statistics.making == 0  # it waits before it tries again by itself
        async with pool.acquire("a") as lamp:
            assert lamp.is_alive


async def test_warming_tells_why_it_cannot() -> None:
    factory = Factory()
    factory.failures = [SandboxError("no such image")] * 4
    async with factory.pool() as pool:
        with pytest.raises(SandboxError, match="no such image"):
            await pool.warm("a", 1)


async def test_a_thing_that_takes_too_long_to_make_is_an_error() -> None:
    factory = Factory()
    factory.gate = anyio.Event()
    async with factory.pool(make_seconds=0.01) as pool:
        with pytest.raises(SandboxError, match="not ready within"):
            async with pool.acquire("a"):
                pytest.fail("it was never made")
        factory.gate.set()


async def test_a_thing_that_is_dead_on_arrival_is_an_error() -> None:
    factory = Factory()
    pool = WarmPool(factory.make, is_alive=lambda _: False, most=2)
    async with pool:
        with pytest.raises(SandboxError, match="ended as soon as it was started"):
            async with pool.acquire("a"):
                pytest.fail("a dead thing was handed out")
    assert factory.ended == factory.lamps


async def test_a_thing_whose_waiter_gave_up_goes_to_the_next() -> None:
    factory = Factory()
    factory.gate = anyio.Event()
    async with factory.pool() as pool, anyio.create_task_group() as group:

        async def give_up(task_status: anyio.abc.TaskStatus[anyio.CancelScope]) -> None:
            with anyio.CancelScope() as scope:
                task_status.started(scope)
                async with pool.acquire("a"):
                    pytest.fail("it had given up")

        scope: anyio.CancelScope = await group.start(give_up)
        await anyio.wait_all_tasks_blocked()
        assert factory.under_way == 1
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        factory.gate.set()
        with anyio.fail_after(5):
            async with pool.acquire("a") as lamp:
                assert lamp.number == 0


async def test_a_thing_handed_to_a_caller_that_is_cancelled_at_that_moment_is_not_lost() -> None:
    factory = Factory()
    async with factory.pool() as pool:
        with anyio.CancelScope() as scope:
            factory.on_made = scope.cancel  # the caller learns of it only after the thing is in its hands
            async with pool.acquire("a"):
                pytest.fail("it was cancelled")
        factory.on_made = None
        async with pool.acquire("a") as lamp:
            assert lamp.number == 0


async def test_what_nobody_wants_is_ended_after_a_while() -> None:
    factory = Factory()
    async with factory.pool(idle_seconds=0.02) as pool:
        await pool.warm("a", 3)
        await factory.until(lambda: len(factory.ended) == 3)
        assert pool.statistics.made == 3
        assert pool.statistics.warm == 0


async def test_what_is_too_old_is_made_anew_while_it_is_wanted() -> None:
    factory = Factory()
    async with factory.pool(max_age_seconds=0.02) as pool:
        await pool.warm("a", 1)
        await factory.until(lambda: bool(factory.ended))
        async with pool.acquire("a") as lamp:
            assert lamp.number > 0


async def test_the_end_of_the_pool_ends_everything() -> None:
    factory = Factory()
    async with factory.pool() as pool:
        await pool.warm("a", 3)
    assert len(factory.ended) == 3
    with pytest.raises(SandboxError, match="closed"):
        async with pool.acquire("a"):
            pytest.fail("the pool was closed")


async def test_a_cancelled_pool_ends_everything_before_it_leaves() -> None:
    factory = Factory()
    factory.end_gate = anyio.Event()
    with anyio.CancelScope() as scope:
        async with factory.pool() as pool, anyio.create_task_group() as group:
            await pool.warm("a", 2)
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(pool.acquire("a"))
                group.start_soon(_set_when_ending, factory)
                scope.cancel()
                await anyio.sleep_forever()
    assert len(factory.ended) == len(factory.lamps)


async def _set_when_ending(factory: Factory) -> None:
    with anyio.CancelScope(shield=True):
        await anyio.wait_all_tasks_blocked()
        factory.end_gate.set()


async def test_the_pool_closes_although_something_does_not_start(caplog: pytest.LogCaptureFixture) -> None:
    factory = Factory()
    factory.gate = anyio.Event()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group, factory.pool() as pool:

            async def use() -> None:
                with pytest.raises(SandboxError, match="the pool was closed"):
                    async with pool.acquire("a"):
                        pytest.fail("it was never made")

            group.start_soon(use)
            await anyio.wait_all_tasks_blocked()
            assert factory.under_way == 1
    assert factory.under_way == 0
    assert not caplog.records


async def test_an_error_at_a_things_end_is_said_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    factory = Factory()
    factory.end_error = SandboxError("the engine forgot it")
    with caplog.at_level(logging.WARNING):
        async with factory.pool() as pool:
            async with pool.acquire("a"):
                pass
            async with pool.acquire("a") as lamp:
                assert lamp.is_alive
    assert "the engine forgot it" in caplog.text


async def test_statistics_say_what_was_warm_and_what_waited() -> None:
    factory = Factory()
    async with factory.pool() as pool:
        async with pool.acquire("a"):
            pass
        await pool.warm("a", 1)
        async with pool.acquire("a"):
            pass
        statistics = pool.statistics
        assert (statistics.acquired, statistics.from_warm, statistics.waited) == (2, 1, 1)
        assert statistics.seconds_to_make > 0
