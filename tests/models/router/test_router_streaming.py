"""Streams over several servers: another is asked only while nothing of the answer is out."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from rollouthub import ModelError
from rollouthub.generation import ModelReply, ModelRequest
from rollouthub.messages import Delta
from rollouthub.models.config import ModelConfig
from rollouthub.models.retry import StreamCut
from rollouthub.models.router import CircuitBreakerSettings
from rollouthub.models.router.replica import ModelReplica
from tests.models.listening import Listener, hear
from tests.models.router.lanes import Lane, fails, question, routed, says
from tests.models.router.virtual_time import VIRTUAL

Answer = Callable[[ModelRequest], Awaitable[ModelReply]]


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


def begins(then: Answer) -> Answer:
    """Gives a piece first."""

    async def answer(request: ModelRequest) -> ModelReply:
        if request.stream is not None:
            await request.stream.write(Delta(text="so"))
        return await then(request)

    return answer


async def test_a_stream_reaches_the_lane_and_what_it_gives_comes_back() -> None:
    async with routed(Lane("a", begins(says("so")))) as router:
        reply, listener = await hear(router, question("r1"))
    assert listener.message == reply.message


async def test_a_server_that_fails_before_it_began_is_replaced() -> None:
    async with routed(Lane("bad", fails()), Lane("good", begins(says("so")))) as router:
        heard = [await hear(router, question()) for _ in range(4)]
    assert {listener.message.text for _, listener in heard} == {"so"}
    assert {reply.retries for reply, _ in heard} == {0, 1}


@pytest.mark.parametrize("status", [None, 200, 401, 404, 429, 500])
async def test_a_server_that_fails_after_it_began_is_not(status: int | None) -> None:
    lanes = [Lane("a", begins(fails(status))), Lane("b", begins(fails(status)))]
    stand_in = Lane("stand-in")
    fallbacks = (ModelConfig(name="openai/stand-in"),)
    async with routed(*lanes, fallbacks=fallbacks, stand_ins={"openai/stand-in": stand_in}) as router:
        listener = Listener()
        with pytest.raises(StreamCut, match="the answer had begun") as caught:
            await router.generate(question(stream=listener.stream))
    assert (caught.value.status, caught.value.retryable) == (status, True)
    assert len(lanes[0].begun + lanes[1].begun) == 1
    assert (stand_in.begun, listener.message.text) == ([], "so")


async def test_what_a_lane_calls_final_stays_as_it_is() -> None:
    async with routed(Lane("a", begins(fails(401, retryable=False))), Lane("b")) as router:
        for _ in range(2):
            listener = Listener()
            try:
                await router.generate(question(stream=listener.stream))
            except ModelError as error:
                assert str(error) == "HTTP 401"


async def test_nobody_stands_in_for_a_stand_in_that_began() -> None:
    first, second = Lane("first", begins(fails())), Lane("second")
    fallbacks = (ModelConfig(name="openai/first"), ModelConfig(name="openai/second"))
    stand_ins = {"openai/first": first, "openai/second": second}
    async with routed(Lane("a", fails()), max_tries=1, fallbacks=fallbacks, stand_ins=stand_ins) as router:
        with pytest.raises(StreamCut):
            await hear(router, question())
    assert (len(first.begun), second.begun) == (1, [])


@pytest.mark.parametrize("status", [None, 200, 503])
def test_streams_that_are_cut_count_against_their_server(status: int | None) -> None:
    replica = ModelReplica(Lane(), "http://a", CircuitBreakerSettings(failures=2), lambda: 0.0, lambda: None)
    for _ in range(2):
        replica.end_failed(replica.begin(), StreamCut("cut", status=status))
    assert (replica.errors, replica.health) == (2, "down")


def test_a_listener_that_is_slow_does_not_count_against_the_server() -> None:
    replica = ModelReplica(Lane(), "http://a", CircuitBreakerSettings(failures=1), lambda: 0.0, lambda: None)
    replica.end_failed(replica.begin(), ModelError("not taken", status=200, retryable=False))
    assert (replica.errors, replica.health) == (0, "up")


async def test_half_an_answer_counts_against_the_budget() -> None:
    priced: dict[str, Any] = {"price_prompt": 0.0, "price_output": 1e6, "sampling": {"max_tokens": 5}}
    lane = Lane("a", begins(fails()))
    async with routed(lane, budget=20.0, **priced) as router:
        with pytest.raises(StreamCut):
            await hear(router, question())
        assert router.spent == 5.0
        with pytest.raises(ModelError):
            await router.generate(question())
        assert router.spent == 5.0


def stays(begun: anyio.Event) -> Answer:
    """Says that it is asked, and never comes to an end."""

    async def answer(request: ModelRequest) -> ModelReply:
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError

    return answer


@pytest.mark.parametrize("budget", [None, 520.0])
async def test_what_is_broken_off_counts_whether_or_not_there_is_a_budget(budget: float | None) -> None:
    """A prompt of 40 characters is 10 tokens, at a dollar each, and so is each piece that came."""
    priced: dict[str, Any] = {"price_prompt": 1e6, "price_output": 1e6, "sampling": {"max_tokens": 3}}
    asked = question(text="x" * 40)
    set_aside = 52.0  # a token a byte, what a chat template puts around a message, and `max_tokens`
    priced["budget"] = budget
    lane = Lane("a", begins(fails()))
    async with routed(lane, **priced) as router:
        with pytest.raises(StreamCut):
            await hear(router, asked)
        assert router.spent == (11.0 if budget is None else set_aside)
        before = router.spent
        for begins_first in (False, True):
            at_it = anyio.Event()
            lane.answer = begins(stays(at_it)) if begins_first else stays(at_it)
            async with anyio.create_task_group() as calls:
                calls.start_soon(hear, router, asked)
                await at_it.wait()
                calls.cancel_scope.cancel()
        half = 11.0 if budget is None else set_aside
        assert router.spent == before + 10.0 + half
        with pytest.raises(ModelError):
            lane.answer = fails(422, retryable=False)
            await router.generate(asked)
        assert router.spent == before + 10.0 + half, "a call that was refused costs nothing"


async def test_what_waits_for_a_server_and_is_broken_off_costs_nothing() -> None:
    priced: dict[str, Any] = {"price_prompt": 1e6, "price_output": 1e6, "sampling": {"max_tokens": 3}}
    at_it = anyio.Event()
    async with routed(Lane("a", stays(at_it)), max_connections=1, budget=1e6, **priced) as router:
        async with anyio.create_task_group() as calls:
            calls.start_soon(router.generate, question(text="x" * 40))
            await at_it.wait()
            calls.start_soon(router.generate, question(text="x" * 400))
            await anyio.wait_all_tasks_blocked()
            calls.cancel_scope.cancel()
        assert router.spent == 10.0
