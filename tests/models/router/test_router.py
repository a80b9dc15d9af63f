"""The router over lanes of this process, by a clock that leaps: tries, limits, money, checks."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from rollouthub import ModelError
from rollouthub.errors import BudgetError, ConfigError, ContextLimitError, CredentialError, UsageError
from rollouthub.generation import Model, ModelReply, ModelRequest
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.router import open_router
from rollouthub.rollout import Usage
from tests.models.router.lanes import PRICED, Lane, answers, fails, question, routed, says
from tests.models.router.virtual_time import VIRTUAL


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


# --- tries ------------------------------------------------------------------------------------------------------


async def test_a_failed_call_goes_to_another_server_without_waiting() -> None:
    for error in (fails(500), fails(429), fails(None), fails(429, after=99.0)):
        bad, good = Lane("bad", error), Lane("good")
        async with routed(bad, good) as router:
            replies = [await router.generate(question()) for _ in range(4)]
        assert {reply.message.text for reply in replies} == {"good"}
        assert sorted({reply.retries for reply in replies}) == [0, 1]
    assert anyio.current_time() == 0


async def test_once_every_server_has_failed_it_waits_and_goes_round_again() -> None:
    lanes = [Lane("a", fails()), Lane("b", fails())]
    async with routed(*lanes, max_tries=6) as router:
        with pytest.raises(ModelError, match=r"HTTP 500 \(after 6 tries over 2 servers\)") as caught:
            await router.generate(question())
    assert sorted(lanes[0].begun + lanes[1].begun) == [0, 0, 1, 1, 3, 3]
    assert (caught.value.status, caught.value.retryable) == (500, True)


async def test_retry_after_is_honoured_by_the_soonest_server() -> None:
    lanes = [Lane("a", fails(429, after=30.0)), Lane("b", fails(429, after=7.0))]
    async with routed(*lanes, max_tries=3) as router:
        with pytest.raises(ModelError):
            await router.generate(question())
    assert sorted(lanes[0].begun + lanes[1].begun) == [0, 0, 8]


async def test_no_wait_goes_past_the_calls_time() -> None:
    async with routed(Lane("a", fails(503, after=100.0))) as router:
        with pytest.raises(ModelError, match="HTTP 503"):
            await router.generate(question(timeout_seconds=50))
    assert anyio.current_time() == 0


async def test_each_try_gets_what_is_left_of_the_calls_time() -> None:
    async def slow(request: ModelRequest) -> ModelReply:
        await anyio.sleep(4)
        raise ModelError("broken", status=500)

    lane = Lane("a", slow)
    async with routed(lane, max_tries=9) as router:
        with pytest.raises(ModelError):
            await router.generate(question(timeout_seconds=20))
    assert lane.timeouts == [20, 15, 9, 1]


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_callers_fault_is_final_and_no_servers_problem(status: int) -> None:
    lanes = [Lane("a", fails(status, retryable=False)), Lane("b", fails(status, retryable=False))]
    async with routed(*lanes) as router:
        for _ in range(20):
            with pytest.raises(ModelError) as caught:
                await router.generate(question())
            assert caught.value.status == status
        assert [(server.is_paused, server.errors) for server in router.status()] == [(False, 0)] * 2
    assert len(lanes[0].begun + lanes[1].begun) == 20


async def test_a_conversation_that_does_not_fit_is_said_to_the_caller() -> None:
    async def too_long(request: ModelRequest) -> ModelReply:
        raise ContextLimitError("too long")

    stand_in = Lane("other")
    fallbacks = [ModelConfig(name="openai/other")]
    async with routed(Lane("a", too_long), fallbacks=fallbacks, stand_ins={"openai/other": stand_in}) as router:
        with pytest.raises(ContextLimitError):
            await router.generate(question())
    assert stand_in.begun == []


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_server_that_refuses_what_another_answers_is_taken_out_until_it_passes(status: int) -> None:
    misfit, good = Lane("misfit", fails(status, retryable=False)), Lane("good")
    misfit.problem = ConfigError("serves no such model")
    async with routed(misfit, good) as router:
        assert set(await answers(router, 20)) == {"good"}
        assert len(misfit.begun) == 1
        assert [server.is_paused for server in router.status()] == [True, False]
        misfit.problem, misfit.answer = None, says("mended")
        await anyio.sleep(20)
        assert "mended" in await answers(router, 2)


async def test_what_every_server_refuses_is_the_callers_to_mend() -> None:
    lanes = [Lane("a", fails(404, retryable=False)), Lane("b", fails(404, retryable=False))]
    async with routed(*lanes) as router:
        for _ in range(3):
            with pytest.raises(ModelError) as caught:
                await router.generate(question())
            assert (caught.value.status, caught.value.retryable) == (404, False)
        assert not any(server.is_paused for server in router.status())


# --- limits -----------------------------------------------------------------------------------------------------


async def test_retries_and_other_servers_count_as_requests() -> None:
    lanes = [Lane("a", fails()), Lane("b", fails())]
    async with routed(*lanes, requests_per_minute=3, max_tries=5) as router:
        with pytest.raises(ModelError):
            await router.generate(question())
    assert sorted(lanes[0].begun + lanes[1].begun) == [0, 0, 1, 60, 62]


async def test_a_wait_for_a_limit_counts_against_the_calls_time() -> None:
    lane = Lane("a")
    async with routed(lane, requests_per_minute=2) as router:
        await answers(router, 2)
        with pytest.raises(ModelError, match="time was over before the limits of the model") as caught:
            await router.generate(question(timeout_seconds=30))
        assert (anyio.current_time(), caught.value.retryable) == (30, True)
        await router.generate(question(timeout_seconds=40))
    assert (lane.begun, lane.timeouts[2]) == ([0, 0, 60], 10)


async def test_tokens_are_reserved_and_settled() -> None:
    lane = Lane("a", says("hi", Usage(prompt_tokens=12, output_tokens=8), seconds=5))
    bounds: dict[str, Any] = {"tokens_per_minute": 100, "sampling": {"max_tokens": 50}}
    async with routed(lane, **bounds) as router, anyio.create_task_group() as calls:
        for _ in range(3):
            calls.start_soon(router.generate, question())
    # 50 and some for the prompt each while in flight, 20 each after that.
    assert lane.begun == [0, 5, 60]


async def test_a_call_that_can_never_fit_is_refused_at_once() -> None:
    async with routed(Lane("a"), tokens_per_minute=100, sampling={"max_tokens": 101}) as router:
        with pytest.raises(ModelError, match="tokens_per_minute = 100 never allows") as caught:
            await router.generate(question())
    assert not caught.value.retryable


async def test_cancelled_calls_free_what_they_held() -> None:
    lane = Lane("a", says("slow", seconds=1000))
    async with routed(lane, max_connections=1, budget=10.0, sampling={"max_tokens": 10}, **PRICED) as router:
        for _ in range(3):
            with anyio.move_on_after(1):
                async with anyio.create_task_group() as calls:
                    for _ in range(3):
                        calls.start_soon(router.generate, question())
        assert (router.waiting, router.status()[0].in_flight) == (0, 0)
        lane.answer = says("quick", cost=1.0)
        assert await answers(router, 1) == ["quick"]
    assert len(lane.begun) == 4


# --- money ------------------------------------------------------------------------------------------------------


async def test_a_budget_is_never_exceeded_however_many_ask_at_once() -> None:
    lane = Lane("a", says("hi", Usage(prompt_tokens=9, output_tokens=3), cost=3.0, seconds=1))
    refused: list[BudgetError] = []
    async with routed(lane, budget=20.0, sampling={"max_tokens": 5}, **PRICED) as router:

        async def call() -> None:
            try:
                await router.generate(question())
            except BudgetError as error:
                refused.append(error)

        async with anyio.create_task_group() as calls:
            for _ in range(50):
                calls.start_soon(call)
        assert router.spent == 18.0
    assert (len(lane.begun), len(refused)) == (6, 44)


async def test_a_failed_call_costs_nothing_and_an_uncounted_one_what_was_set_aside() -> None:
    lane = Lane("a", fails(422, retryable=False))
    async with routed(lane, budget=20.0, sampling={"max_tokens": 5}, **PRICED) as router:
        with pytest.raises(ModelError):
            await router.generate(question())
        assert router.spent == 0
        lane.answer = says("uncounted", Usage())
        await router.generate(question())
        assert router.spent == 5.0


async def test_a_budget_needs_a_price() -> None:
    with pytest.raises(ConfigError, match=r"price of 'hosted_vllm/m'.*price_prompt"):
        async with routed(Lane(), budget=1.0):
            pass


async def test_what_is_spent_is_counted_without_a_budget_too() -> None:
    async with routed(Lane("a", says("hi", cost=0.25))) as router:
        await answers(router, 4)
        assert router.spent == 1.0


@asynccontextmanager
async def lane_to_nowhere(config: ModelConfig, base_url: str | None, credentials: Credentials) -> AsyncGenerator[Model]:
    yield Lane()


# --- the rest ---------------------------------------------------------------------------------------------------


async def test_a_check_needs_one_server_and_takes_out_those_that_are_down(caplog: pytest.LogCaptureFixture) -> None:
    dead, alive, other = Lane("dead"), Lane("alive"), Lane("other")
    dead.problem = UsageError("nothing listens")
    other.problem = UsageError("nor here")
    fallbacks = [ModelConfig(name="openai/other")]
    async with routed(dead, alive, fallbacks=fallbacks, stand_ins={"openai/other": other}) as router:
        with caplog.at_level(logging.WARNING):
            await router.check(5)
        assert set(await answers(router, 5)) == {"alive"}
        assert [status.problem for status in router.status()][:2] == ["nothing listens", None]
        alive.problem = UsageError("nothing listens")
        with pytest.raises(UsageError, match="nothing listens"):
            await router.check(5)
    assert "openai/other cannot stand in" in caplog.text


@pytest.mark.parametrize("mistake", [ConfigError("no such model"), CredentialError("wrong key")])
@pytest.mark.parametrize("place", [1, 2])
async def test_a_mistake_in_the_configuration_of_any_server_fails_the_check(mistake: UsageError, place: int) -> None:
    lanes = [Lane("a"), Lane("b"), Lane("other")]
    lanes[place].problem = mistake
    fallbacks = [ModelConfig(name="openai/other")]
    async with routed(*lanes[:2], fallbacks=fallbacks, stand_ins={"openai/other": lanes[2]}) as router:
        with pytest.raises(type(mistake)):
            await router.check(5)


async def test_a_server_given_twice_is_refused() -> None:
    config = ModelConfig(name="hosted_vllm/m", base_url="http://a/v1", replicas=("http://b/v1", "http://a"))
    with pytest.raises(ConfigError, match="the server http://a/v1 twice"):
        async with open_router(config, Credentials(), lane_to_nowhere):
            pass


async def test_what_is_raised_under_a_router_comes_out_as_it_was() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with routed(Lane()):
            raise KeyError("mine")


async def test_latency_and_counts_are_told() -> None:
    lane = Lane("a", says("hi", seconds=2))
    async with routed(lane) as router:
        assert router.status()[0].latency_seconds is None
        await answers(router, 3)
        (status,) = router.status()
    assert (status.calls, status.errors, status.in_flight, status.latency_seconds) == (3, 0, 0, 2.0)
