"""Role models over the wire: what an environment's own process asks reaches the hub's model whole, and once."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from rollouthub import Message, Model, ModelReply, ModelRequest, Sampling
from rollouthub.errors import BudgetError, ContextLimitError, ModelError
from rollouthub.hosting.role_endpoints import serve_roles
from rollouthub.messages import Delta, Media, Text, user
from rollouthub.models.config import ModelConfig
from rollouthub.models.direct.lane import Endpoint, open_direct
from rollouthub.models.retry import StreamCut
from rollouthub.rollout import Usage
from tests.models.listening import Listener, hear


class Judge:
    """Keeps what it was asked; answers, or fails."""

    name = "provider/judge"

    def __init__(self, error: ModelError | None = None) -> None:
        self.asked: list[ModelRequest] = []
        self.cancelled = anyio.Event()
        self.is_slow = False
        self.arrived = anyio.Event()
        self._error = error

    async def generate(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        self.arrived.set()
        if self.is_slow:
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled.set()
        if self._error is not None:
            raise self._error
        message = Message(role="assistant", content="good")
        return ModelReply(message=message, usage=Usage(prompt_tokens=3, output_tokens=1), cost=0.25)


@asynccontextmanager
async def over_the_wire(judge: Judge) -> AsyncGenerator[Model]:
    """The judge as an environment's server has it."""
    async with serve_roles({"judge": judge}) as endpoints:
        given = endpoints["judge"]
        assert given.api_key not in repr(given)
        endpoint = Endpoint(given.served_name, given.base_url, "KEY", given.api_key, dialect="vllm")
        async with open_direct(ModelConfig(name=given.model, max_tries=1), endpoint) as model:
            yield model


async def test_a_request_arrives_whole_and_the_answer_brings_its_cost() -> None:
    judge = Judge()
    media = {"sha256:4a": b"a picture"}
    picture = Message(role="user", content=(Text(text="Is it good?"), Media(digest="sha256:4a", mime_type="image/png")))
    sampling = Sampling(
        temperature=0.5, top_p=0.9, max_tokens=7, stop=("x",), seed=3, extra={"top_k": 5, "response_format": {"a": [1]}}
    )
    async with over_the_wire(judge) as model:
        reply = await model.generate(ModelRequest(messages=[picture], sampling=sampling, media=media))
    (asked,) = judge.asked
    assert asked.sampling == sampling
    assert list(asked.media.values()) == [b"a picture"]
    assert (reply.message.text, reply.cost, reply.usage.prompt_tokens) == ("good", 0.25, 3)


async def test_a_plain_request_stays_plain() -> None:
    judge = Judge()
    async with over_the_wire(judge) as model:
        await model.generate(ModelRequest(messages=[user("Is it good?")]))
    assert judge.asked[0].sampling == Sampling()


FAILURES: dict[str, tuple[Callable[[], ModelError], int | None, bool, float | None]] = {
    "rate limit": (lambda: ModelError("slow down", status=429, retry_after_seconds=7.0), 429, True, 7.0),
    "server": (lambda: ModelError("it fell over", status=503), 503, True, None),
    "no answer": (lambda: ModelError("nothing listens there"), 502, True, None),
    "refused": (lambda: ModelError("no such model", status=404, retryable=False), 404, False, None),
    "quota": (lambda: ModelError("the quota is used up", status=429, retryable=False), 422, False, None),
    "budget": (lambda: BudgetError("$1 of $1 are spent"), 422, False, None),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_a_failure_keeps_what_matters_of_it_and_is_not_tried_again(
    failure: tuple[Callable[[], ModelError], int | None, bool, float | None],
) -> None:
    make, status, is_retryable, after = failure
    judge = Judge(make())
    async with over_the_wire(judge) as model:
        with pytest.raises(ModelError, match=str(make()).replace("$", r"\$")) as caught:
            await model.generate(ModelRequest(messages=[user("Is it good?")]))
    error = caught.value
    assert (error.status, error.retryable, error.retry_after_seconds) == (status, is_retryable, after)
    assert len(judge.asked) == 1


async def test_a_conversation_that_does_not_fit_is_told_as_that() -> None:
    judge = Judge(ContextLimitError("the prompt is longer than the maximum context length"))
    async with over_the_wire(judge) as model:
        with pytest.raises(ContextLimitError):
            await model.generate(ModelRequest(messages=[user("Is it good?")]))


async def test_whoever_hangs_up_ends_the_call_behind_it() -> None:
    judge = Judge()
    judge.is_slow = True
    async with over_the_wire(judge) as model:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(model.generate, ModelRequest(messages=[user("Is it good?")]))
                await judge.arrived.wait()
                assert not judge.cancelled.is_set()
                tasks.cancel_scope.cancel()
            await judge.cancelled.wait()


class Speaker(Judge):
    """Gives its words one by one, each when it is told to; may break off after the first."""

    def __init__(self, *words: str, error: ModelError | None = None) -> None:
        super().__init__(error)
        self.words = words
        self.heard = anyio.Semaphore(1)

    async def generate(self, request: ModelRequest) -> ModelReply:
        assert request.stream is not None
        self.asked.append(request)
        for word in self.words:
            await self.heard.acquire()
            await request.stream.write(Delta(text=word))
        if self._error is not None:
            raise self._error
        return ModelReply(Message(role="assistant", content="".join(self.words)), finish_reason="stop", cost=0.25)


async def test_a_stream_comes_through_piece_by_piece() -> None:
    speaker = Speaker("It ", "is ", "good.")

    async def go_on(delta: Delta) -> None:
        speaker.heard.release()

    async with over_the_wire(speaker) as model:
        listener = Listener(go_on)
        with anyio.fail_after(5):
            reply = await model.generate(ModelRequest(messages=[user("Is it?")], stream=listener.stream))
    assert [delta.text for delta in listener.heard] == ["It ", "is ", "good."]
    assert (reply.message.text, reply.finish_reason, reply.cost) == ("It is good.", "stop", 0.25)


async def test_a_model_that_does_not_stream_is_streamed_once_it_has_answered() -> None:
    async with over_the_wire(Judge()) as model:
        reply, listener = await hear(model, ModelRequest(messages=[user("Is it?")]))
    assert (listener.message, reply.cost, reply.usage.prompt_tokens) == (reply.message, 0.25, 3)


async def test_a_stream_that_never_begins_fails_as_any_call() -> None:
    judge = Judge(ModelError("slow down", status=429, retry_after_seconds=7.0))
    async with over_the_wire(judge) as model:
        with pytest.raises(ModelError, match="slow down") as caught:
            await hear(model, ModelRequest(messages=[user("Is it?")]))
    assert (caught.value.status, caught.value.retryable, caught.value.retry_after_seconds) == (429, True, 7.0)


async def test_a_stream_that_breaks_off_says_why() -> None:
    async with over_the_wire(Speaker("It", error=ModelError("it fell over", status=503))) as model:
        with pytest.raises(StreamCut, match="it fell over") as caught:
            await hear(model, ModelRequest(messages=[user("Is it?")]))
    assert caught.value.status == 503
