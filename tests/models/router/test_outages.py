"""Servers that fail for long, by a clock that leaps: who is left alone, who is waited for, and how one comes back."""

import anyio
import pytest

from rollouthub import ModelError
from rollouthub.errors import UsageError
from rollouthub.generation import ModelReply
from rollouthub.models.router import CircuitBreakerSettings, Router
from tests.models.router.lanes import Lane, answers, fails, hangs, question, routed, says
from tests.models.router.virtual_time import VIRTUAL


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


async def take_down(router: Router, lane: Lane) -> None:
    """Let a lane fail until it is out; the router must have another one."""
    lane.answer = fails(None)
    while not any(status.is_paused for status in router.status()):
        await router.generate(question())


async def test_a_failing_server_is_left_alone_longer_each_time_and_one_call_lets_it_back() -> None:
    bad, good = Lane("bad"), Lane("good")
    async with routed(bad, good) as router:
        bad.problem = UsageError("gone")
        await take_down(router, bad)
        assert len(bad.begun) == CircuitBreakerSettings().failures
        await anyio.sleep(50)
        assert (bad.checks, len(bad.begun)) == (6, 5)  # after 1, 2, 4, 8, 15 and 15 seconds
        bad.problem = None
        await anyio.sleep(20)
        # It passes the check, but a call still fails: that one goes to the other server, and the rest begins again.
        assert await answers(router, 3) == ["good"] * 3
        assert len(bad.begun) == 6
        bad.answer = says("back")
        await anyio.sleep(20)
        assert (await answers(router, 1), router.status()[0].is_paused) == (["back"], False)


async def test_a_trial_takes_one_call_and_twice_as_many_with_time() -> None:
    bad, good = Lane("bad"), Lane("good", says("good", seconds=1000))
    async with routed(bad, good) as router:
        good.answer = says("good")
        await take_down(router, bad)
        bad.answer = good.answer = says("slow", seconds=300)
        await anyio.sleep(2)
        before = len(bad.begun)
        async with anyio.create_task_group() as calls:
            for _ in range(40):
                calls.start_soon(router.generate, question())
            await anyio.wait_all_tasks_blocked()
            assert len(bad.begun) - before == 1
            await anyio.sleep(2.1)
            for _ in range(40):
                calls.start_soon(router.generate, question())
            await anyio.wait_all_tasks_blocked()
            assert len(bad.begun) - before == 2
        assert not router.status()[0].is_paused


async def test_calls_wait_out_an_outage_without_spending_their_tries() -> None:
    lane = Lane("only")
    async with routed(lane, max_tries=4) as router, anyio.create_task_group() as calls:
        replies: list[ModelReply] = []
        await answers(router, 1)
        lane.begun.clear()
        lane.problem, lane.answer = UsageError("gone"), fails(None)

        async def call() -> None:
            replies.append(await router.generate(question()))

        for _ in range(20):
            calls.start_soon(call)
        await anyio.sleep(60)
        assert (len(replies), len(lane.begun)) == (0, 5)
        lane.problem, lane.answer = None, says("back")
        await anyio.sleep(20)
        assert len(replies) == 20


async def test_patience_with_an_outage_ends_for_all_calls_at_once_and_new_ones_fail_at_once() -> None:
    lane = Lane("only")
    async with routed(lane) as router:
        await answers(router, 1)
        lane.problem, lane.answer = UsageError("gone"), fails(None)
        began = anyio.current_time()

        async def call() -> None:
            with pytest.raises(
                ModelError, match=r"its server gives no answer that can be used, for 1\d\d s by now; .*gone"
            ) as caught:
                await router.generate(question())
            assert caught.value.retryable

        async with anyio.create_task_group() as calls:
            for _ in range(20):
                calls.start_soon(call)
        ended = anyio.current_time()
        assert 120 <= ended - began < 121
        await call()
        assert anyio.current_time() == ended
        lane.problem, lane.answer = None, says("back")
        await anyio.sleep(20)
        assert await answers(router, 1) == ["back"]


async def test_a_model_that_has_never_answered_is_not_waited_for_as_long() -> None:
    lane = Lane("only", fails(500))
    async with routed(lane) as router, anyio.create_task_group() as calls:
        for _ in range(20):
            calls.start_soon(answers_none, router)
    assert 15 <= anyio.current_time() < 17


async def answers_none(router: Router) -> None:
    with pytest.raises(ModelError):
        await router.generate(question())


async def test_failures_at_random_take_no_server_out() -> None:
    lane = Lane("shaky")
    async with routed(lane, max_tries=9) as router:
        for _ in range(20):
            lane.answer = fails(500)
            async with anyio.create_task_group() as calls:
                for _ in range(4):
                    calls.start_soon(router.generate, question())
                await anyio.wait_all_tasks_blocked()
                lane.answer = says("fine")
        assert not router.status()[0].is_paused
        assert router.status()[0].errors == 80


async def test_a_call_without_time_says_nothing_about_its_server() -> None:
    async with routed(Lane("slow", hangs)) as router:
        for _ in range(8):
            with pytest.raises(ModelError):
                await router.generate(question(timeout_seconds=0.5))
        assert not router.status()[0].is_paused


async def test_a_server_that_hangs_is_taken_out() -> None:
    async with routed(Lane("stuck", hangs)) as router:
        async with anyio.create_task_group() as calls:

            async def call() -> None:
                with pytest.raises(ModelError):
                    await router.generate(question(timeout_seconds=60))

            for _ in range(5):
                calls.start_soon(call)
        assert router.status()[0].is_paused
