"""Other models that stand in, by a clock that leaps: when they are asked, under which name, and who pays."""

from typing import Any

import anyio
import pytest

from rollouthub import ModelError
from rollouthub.errors import BudgetError, UsageError
from rollouthub.models.config import ModelConfig
from rollouthub.rollout import Usage
from tests.models.router.lanes import PRICED, Lane, answers, fails, question, routed, says
from tests.models.router.virtual_time import VIRTUAL


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


async def test_a_fallback_answers_under_its_own_name_and_without_tokens_to_learn_from() -> None:
    lane, other = Lane("a", fails()), Lane("other", says("hello", cost=2.0))
    fallbacks = [ModelConfig(name="openai/other")]
    async with routed(lane, fallbacks=fallbacks, stand_ins={"openai/other": other}) as router:
        reply = await router.generate(question())
        assert (reply.message.text, reply.model, reply.cost) == ("hello", "openai/other", 2.0)
        assert reply.prompt_token_ids is reply.output_token_ids is reply.output_logprobs is None
        assert reply.policy_version is None
        assert router.spent == 2.0
        assert [server.model for server in router.status()] == ["hosted_vllm/m", "openai/other"]
        lane.answer = says("a")
        own = await router.generate(question())
    assert (own.message.text, own.model) == ("a", None)
    assert own.output_token_ids is not None
    assert len(lane.begun) == 5


async def test_fallbacks_are_asked_in_order_and_their_failures_told() -> None:
    stand_ins = {"openai/one": Lane("one", fails(400, retryable=False)), "openai/two": Lane("two")}
    fallbacks = [ModelConfig(name=name) for name in stand_ins]
    async with routed(Lane("a", fails()), fallbacks=fallbacks, stand_ins=stand_ins, max_tries=1) as router:
        assert (await router.generate(question())).model == "openai/two"
        stand_ins["openai/two"].answer = fails(401, retryable=False)
        with pytest.raises(ModelError, match="HTTP 500; HTTP 400; HTTP 401") as caught:
            await router.generate(question())
    assert (caught.value.status, caught.value.retryable) == (500, True)


@pytest.mark.parametrize(("status", "is_asked"), [(400, False), (422, False), (None, False), (401, True), (404, True)])
async def test_only_what_another_model_may_not_share_reaches_the_fallback(status: int | None, is_asked: bool) -> None:
    other = Lane("other")
    fallbacks = [ModelConfig(name="openai/other")]
    lane = Lane("a", fails(status, retryable=False))
    async with routed(lane, fallbacks=fallbacks, stand_ins={"openai/other": other}) as router:
        if is_asked:
            await router.generate(question())
        else:
            with pytest.raises(ModelError):
                await router.generate(question())
    assert len(other.begun) == is_asked


async def test_during_an_outage_the_fallback_is_asked_at_once() -> None:
    lane, other = Lane("a", fails(None)), Lane("other")
    lane.problem = UsageError("gone")
    fallbacks = [ModelConfig(name="openai/other")]
    async with routed(lane, fallbacks=fallbacks, stand_ins={"openai/other": other}) as router:
        async with anyio.create_task_group() as calls:
            for _ in range(20):
                calls.start_soon(router.generate, question())
        assert router.status()[0].is_paused
        started, sent = anyio.current_time(), len(lane.begun)
        assert await answers(router, 10) == ["other"] * 10
        assert (anyio.current_time(), len(lane.begun)) == (started, sent)


async def test_the_budget_covers_those_that_stand_in_and_no_one_stands_in_for_it() -> None:
    other = Lane("other", says("hi", Usage(prompt_tokens=9, output_tokens=3), cost=3.0))
    fallbacks = [ModelConfig(name="openai/other", sampling={"max_tokens": 5}, **PRICED)]  # pyright: ignore[reportArgumentType]  # pydantic reads it
    lane = Lane("a", fails(401, retryable=False))
    stand_ins = {"openai/other": other}
    async with routed(lane, fallbacks=fallbacks, stand_ins=stand_ins, budget=7.0, **PRICED) as router:
        with pytest.raises(BudgetError):
            await router.generate(question())  # without max_tokens it may cost more than there is
        assert other.begun == []
    config: dict[str, Any] = {"budget": 7.0, "sampling": {"max_tokens": 5}, **PRICED}
    async with routed(lane, fallbacks=fallbacks, stand_ins=stand_ins, **config) as router:
        assert await answers(router, 1) == ["hi"]
        with pytest.raises(BudgetError, match=r"\$3 of \$7 are spent"):
            await router.generate(question())
        assert router.spent == 3.0
