"""One contract over the tokens lane to vLLM and to SGLang, the direct lane to SGLang, and the mock server."""

import anyio
import pytest

from rollouthub import Message
from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.messages import user
from rollouthub.values import Int32s
from tests.models.servers import ask
from tests.models.tokens.contract_lanes import (
    SAMPLED,
    SUBJECTS,
    TEXT,
    Fault,
    Subject,
    Trouble,
    cut,
    garbage,
    hangs,
    said,
    too_long,
)

every_lane = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.id)


@every_lane
async def test_ids_and_logprobs_are_those_that_were_sampled(subject: Subject) -> None:
    async with subject.open(Trouble()) as model:
        reply = await model.generate(ask(user("What?"), session="r1"))
    assert reply.message == Message(role="assistant", content=TEXT)
    assert reply.finish_reason == "stop"
    assert reply.prompt_token_ids is not None
    assert reply.output_token_ids is not None
    assert reply.output_logprobs is not None
    assert len(reply.output_logprobs) == len(reply.output_token_ids) == reply.usage.output_tokens
    assert len(reply.prompt_token_ids) == reply.usage.prompt_tokens
    if subject.samples is not None:
        assert reply.output_token_ids == Int32s(SAMPLED)
        assert all(logprob < 0 for logprob in reply.output_logprobs)


@every_lane
@pytest.mark.parametrize("version", [None, 7])
async def test_an_answer_has_the_version_of_its_weights(subject: Subject, version: int | None) -> None:
    async with subject.open(Trouble(), version) as model:
        reply = await model.generate(ask(user("What?")))
    assert (reply.policy_version, reply.policy_versions) == (version, None)


@every_lane
async def test_a_cancelled_call_ends_on_the_server(subject: Subject) -> None:
    trouble = Trouble([hangs])
    async with subject.open(trouble) as model, anyio.create_task_group() as tasks:
        with anyio.fail_after(10):
            tasks.start_soon(model.generate, ask(user("What?")))
            await trouble.until(running=1)
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True), anyio.fail_after(10):
                await trouble.until(running=0)
    assert trouble.tries == 1


@every_lane
async def test_a_call_ends_with_its_time(subject: Subject) -> None:
    trouble = Trouble([hangs])
    async with subject.open(trouble) as model:
        with anyio.fail_after(10), pytest.raises(ModelError, match=r"no answer within .* s") as caught:
            await model.generate(ask(user("What?"), timeout_seconds=0.2))
        await trouble.until(running=0)
    assert caught.value.retryable


@every_lane
async def test_a_prompt_that_does_not_fit_is_no_fault_of_the_model(subject: Subject) -> None:
    trouble = Trouble([too_long])
    async with subject.open(trouble) as model:
        with pytest.raises(ContextLimitError):
            await model.generate(ask(user("What?")))
    assert trouble.tries == 1


@every_lane
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (said({"error": "Unauthorized"}, 401), "refused access, HTTP 401.*check the key in"),
        (said({"error": {"message": "The model `served` does not exist."}}, 404), "HTTP 404.*does not exist"),
        (said({"error": {"message": "top_p must be in (0, 1]"}}, 400), "HTTP 400.*top_p must be"),
        (said({"error": {"message": "insufficient_quota"}}, 429), "insufficient_quota"),
    ],
    ids=["no-access", "no-model", "bad-request", "no-quota"],
)
async def test_what_will_not_pass_is_said_at_once(subject: Subject, fault: Fault, message: str) -> None:
    trouble = Trouble([fault, fault])
    async with subject.open(trouble) as model:
        with pytest.raises(ModelError, match=message) as caught:
            await model.generate(ask(user("What?")))
    assert not caught.value.retryable
    assert trouble.tries == 1


@every_lane
@pytest.mark.parametrize(
    "fault",
    [
        said({"error": {"message": "slow down"}}, 429, **{"Retry-After": "0"}),
        said({"error": {"message": "broken"}}, 500),
        said({"object": "error", "message": "The request queue is full.", "code": 503}, 503),
        cut,
    ],
    ids=["busy", "broken", "full", "cut"],
)
async def test_what_passes_is_asked_again(subject: Subject, fault: Fault) -> None:
    trouble = Trouble([fault, fault])
    async with subject.open(trouble) as model:
        reply = await model.generate(ask(user("What?")))
    assert reply.message.text == TEXT
    assert (reply.retries, trouble.tries) == (2, 3)


@every_lane
@pytest.mark.parametrize("fault", [garbage, said({}, 200), said({"choices": []}, 200)], ids=["no-json", "{}", "none"])
async def test_garbage_is_a_model_that_failed(subject: Subject, fault: Fault) -> None:
    trouble = Trouble([fault] * 4)
    async with subject.open(trouble) as model:
        with pytest.raises(ModelError) as caught:
            await model.generate(ask(user("What?")))
    assert caught.value.status == 200


@pytest.mark.parametrize("subject", [each for each in SUBJECTS if each.lane == "tokens"], ids=lambda each: each.id)
async def test_a_prompt_begins_with_what_was_sampled_before(subject: Subject) -> None:
    async with subject.open(Trouble()) as model:
        first = await model.generate(ask(user("What?"), session="r1"))
        second = await model.generate(ask(user("What?"), first.message, user("Why?"), session="r1"))
    assert first.prompt_token_ids is not None
    assert second.prompt_token_ids is not None
    held = [*first.prompt_token_ids.tolist(), *SAMPLED]
    assert second.prompt_token_ids.tolist()[: len(held)] == held
