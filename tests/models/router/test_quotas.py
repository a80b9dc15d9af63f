"""Warnings of limits that are nearly used up, ours and the provider's: once each for every level."""

import logging
from typing import Any

import anyio
import pytest

from rollouthub.errors import BudgetError
from rollouthub.models.router.quota_watch import QuotaWatch
from tests.models.router.lanes import Lane, question, routed, says
from tests.models.router.test_router_http import Server, router
from tests.models.router.virtual_time import VIRTUAL
from tests.models.servers import ask, body

ANSWER = {"choices": [{"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "are used" in record.getMessage()]


def test_each_level_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    watch = QuotaWatch("it")
    for share in (0.1, 0.79, 0.8, 0.9, 0.2, 0.85, 0.96, 1.2, 0.95):
        watch.used(share)
    assert warnings(caplog) == ["it: 80 % are used", "it: 95 % are used"]
    caplog.clear()
    QuotaWatch("it").used(1.0)
    assert warnings(caplog) == ["it: 95 % are used"]


async def test_the_run_hears_that_its_requests_a_minute_run_out(caplog: pytest.LogCaptureFixture) -> None:
    async with routed(Lane(), requests_per_minute=20) as router:
        for _ in range(15):
            await router.generate(question())
        assert warnings(caplog) == []
        for _ in range(30):
            await router.generate(question())
    assert warnings(caplog) == [f"hosted_vllm/m: requests_per_minute = 20: {level} % are used" for level in (80, 95)]


async def test_the_run_hears_that_its_tokens_a_minute_run_out(caplog: pytest.LogCaptureFixture) -> None:
    bounds: dict[str, Any] = {"tokens_per_minute": 200, "sampling": {"max_tokens": 5}}
    async with routed(Lane(), **bounds) as router:  # 15 tokens each
        for _ in range(12):
            await router.generate(question())
    assert warnings(caplog) == ["hosted_vllm/m: tokens_per_minute = 200: 80 % are used"]


async def test_the_run_hears_that_its_budget_runs_out(caplog: pytest.LogCaptureFixture) -> None:
    bounds: dict[str, Any] = {"budget": 10.0, "sampling": {"max_tokens": 1}, "price_prompt": 0.0, "price_output": 1e6}
    async with routed(Lane("a", says("hi", cost=1.0)), **bounds) as router:
        with pytest.raises(BudgetError):
            while True:
                await router.generate(question())
    budget = "the budget of hosted_vllm/m ($10)"
    assert warnings(caplog) == [f"{budget}: 80 % are used", f"{budget}: 95 % are used"]


def quota(left: int, seconds: float = 0.5) -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": "100",
        "x-ratelimit-remaining-requests": str(left),
        "x-ratelimit-reset-requests": f"{seconds * (100 - left):g}s",
    }


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_provider_that_has_nothing_left_is_given_the_time_it_says(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(body(ANSWER, headers=quota(15)), body(ANSWER, headers=quota(0)), body(ANSWER, headers=quota(90)))
    with caplog.at_level(logging.WARNING):
        async with server.serve() as url, router(url) as model:
            await model.generate(ask())
            assert warnings(caplog) == [f"{url}: the provider's limit of requests: 80 % are used"]
            await model.generate(ask())
            assert len(warnings(caplog)) == 2
            assert model.status()[0].limit == 0
            began = anyio.current_time()
            await model.generate(ask())
            assert anyio.current_time() - began >= 0.4
            assert model.status()[0].limit > 0
