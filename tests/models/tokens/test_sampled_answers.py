"""What a model over token ids makes of an engine's answers: logprobs, versions, faults, limits and media."""

from typing import Any

import anyio
import pytest

from rollouthub import Media, Message, ToolRequest, Turn, segments
from rollouthub.engine.recorder import Recorder
from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.generation import ModelRequest, Sampling
from rollouthub.messages import user
from rollouthub.models.tokens import HfChatFormat, Sampled
from rollouthub.values import Int32s
from tests.hub.test_rollout import rollout
from tests.models.tokens.chatml import ChatMl, odd_ids
from tests.models.tokens.script import ADD, CALL, Script, asked, token_model


async def test_a_reply_has_what_the_engine_gave() -> None:
    tokenizer = ChatMl()
    ids = [*odd_ids(CALL.format(2), 4), tokenizer.end]
    logprobs = [-0.25] * len(ids)
    model = token_model(Script([Sampled(ids, logprobs, "stop", [7] * 3 + [8] * (len(ids) - 3), retries=2)]), tokenizer)
    reply = await model.generate(asked([user("What?")], tools=[ADD]))
    assert reply.message.tool_requests == (ToolRequest(id="call-1-0", name="add", arguments='{"a": 2, "b": 2}'),)
    assert (reply.finish_reason, reply.retries) == ("tool_calls", 2)
    assert (reply.usage.prompt_tokens, reply.usage.output_tokens) == (len(reply.prompt_token_ids or ()), len(ids))
    assert (reply.output_token_ids or Int32s()).tolist() == ids
    assert reply.output_logprobs is not None
    assert reply.output_logprobs.tolist() == logprobs
    assert reply.policy_version == 7
    recorder = Recorder()
    recorder.add_turn("agent", [user("What?")], reply.message, reply, {}, 0.0)
    turn = recorder.turns[0].close()
    assert turn.version_span == (7, 8)
    (row,) = segments(rollout(turns=(turn,)))
    assert row.versions.tolist()[-len(ids) :] == [7] * 3 + [8] * (len(ids) - 3)


@pytest.mark.parametrize(
    ("versions", "of_all", "span"),
    [(4, 4, (4, 4)), ([4, 4], 4, (4, 4)), (None, None, None), ([4, 5, 6], 4, (4, 4))],
)
async def test_one_version_is_kept_once_and_a_wrong_count_is_the_oldest(
    versions: Any, of_all: int | None, span: tuple[int, int] | None
) -> None:
    reply = await token_model(Script([Sampled([5, 6], None, "stop", versions)])).generate(asked([user("What?")]))
    assert (reply.policy_version, reply.policy_versions) == (of_all, None)
    turn = Turn(index=0, messages=(), response=reply.message, policy_version=reply.policy_version)
    assert turn.version_span == span


async def test_logprobs_that_are_not_one_for_each_id_are_dropped() -> None:
    reply = await token_model(Script([Sampled([5, 6], [-1.0], "stop")])).generate(asked([user("What?")]))
    assert reply.output_logprobs is None


@pytest.mark.parametrize("logprobs", [[-1.0, None], [-1.0, -1e300], [-1.0, "none"]])
async def test_logprobs_that_are_no_numbers_are_dropped(logprobs: Any) -> None:
    reply = await token_model(Script([Sampled([5, 6], logprobs, "stop")])).generate(asked([user("What?")]))
    assert (list(reply.output_token_ids or ()), reply.output_logprobs) == ([5, 6], None)


@pytest.mark.parametrize("versions", [2**40, [3, 2**40], [-(2**31), 3]])
async def test_versions_that_no_record_holds_are_dropped(versions: Any) -> None:
    reply = await token_model(Script([Sampled([5, 6], None, "stop", versions)])).generate(asked([user("What?")]))
    assert (reply.policy_version, reply.policy_versions) == (None, None)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Sampled([5, 6], None, "abort"), "broke off"),
        (RuntimeError("the GPU is gone"), "RuntimeError: the GPU is gone"),
    ],
)
async def test_an_engine_that_breaks_off_is_worth_another_attempt(answer: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        await token_model(Script([answer])).generate(asked([user("What?")]))
    assert caught.value.retryable


async def test_an_answer_that_was_broken_off_at_its_bound_is_one_cut_there() -> None:
    parts: list[Any] = [Sampled([5, 6], [-1.0, -2.0], "abort", 3), Sampled([], None, "abort")]
    parts.append(Sampled([7], [-3.0], "abort", 4))
    model = token_model(Script(parts), max_breaks=3)
    reply = await model.generate(asked([user("What?")], sampling=Sampling(max_tokens=3)))
    assert (reply.finish_reason, reply.output_token_ids) == ("length", Int32s([5, 6, 7]))
    assert reply.policy_versions == Int32s([3, 3, 4])
    assert reply.output_logprobs is not None
    assert reply.output_logprobs.tolist() == [-1.0, -2.0, -3.0]


async def test_logprobs_of_one_part_alone_are_none() -> None:
    parts: list[Any] = [Sampled([5, 6], [-1.0, -2.0], "abort", 3), Sampled([7], None, "stop")]
    reply = await token_model(Script(parts), max_breaks=1).generate(asked([user("What?")]))
    assert (reply.output_token_ids, reply.output_logprobs) == (Int32s([5, 6, 7]), None)
    assert (reply.policy_version, reply.policy_versions) == (None, None)


async def test_parts_whose_values_fit_only_together_have_none() -> None:
    parts: list[Any] = [Sampled([5, 6], [-1.0], "abort", [3]), Sampled([7], [-2.0, -3.0], "stop", [4, 4])]
    reply = await token_model(Script(parts), max_breaks=1).generate(asked([user("What?")]))
    assert (reply.output_token_ids, reply.output_logprobs) == (Int32s([5, 6, 7]), None)
    assert (reply.policy_version, reply.policy_versions) == (None, None)


async def test_an_engine_says_itself_what_is_worth_none() -> None:
    refused = ModelError("no", retryable=False)
    with pytest.raises(ModelError) as caught:
        await token_model(Script([refused])).generate(asked([user("What?")]))
    assert caught.value is refused


async def test_an_engine_that_never_answers_is_left_after_the_calls_time() -> None:
    class Silent(Script):
        async def sample(self, *_: Any, **__: Any) -> Sampled:
            await anyio.sleep_forever()
            raise AssertionError

    with pytest.raises(ModelError, match=r"no answer within 0\.01 s"):
        await token_model(Silent([])).generate(ModelRequest(messages=[user("What?")], timeout_seconds=0.01))


async def test_an_answer_gets_what_the_context_has_left_and_none_where_nothing_is() -> None:
    tokenizer = ChatMl()
    prompt = await HfChatFormat(tokenizer).render([user("What?")], (), add_generation_prompt=True)
    engine = Script([[5], [5], [5]])
    model = token_model(engine, tokenizer, max_context=len(prompt) + 3)
    for limit in (None, 2, 9):
        await model.generate(asked([user("What?")], session="", sampling=Sampling(max_tokens=limit)))
    assert [sampling.max_tokens for sampling in engine.sampling] == [3, 2, 3]
    with pytest.raises(ContextLimitError, match="tokens"):
        await model.generate(asked([user("What? " * 9)]))


async def test_words_end_before_the_string_that_stopped_them_and_ids_after_it() -> None:
    ids = odd_ids("It is 17. STOP", 1)
    reply = await token_model(Script([ids])).generate(asked([user("What?")], sampling=Sampling(stop=("STOP",))))
    assert reply.message.text == "It is 17. "
    assert (reply.output_token_ids or Int32s()).tolist() == ids


async def test_an_engine_gets_the_media_a_conversation_shows_in_its_order() -> None:
    images = {name: Media(digest=name, mime_type="image/png") for name in ("cat", "dog")}
    shown = [Message(role="user", content=(images[name],)) for name in ("dog", "cat", "dog")]
    engine = Script([[5]])
    await token_model(engine).generate(asked(shown, media={"cat": b"c", "dog": b"d", "other": b"o"}))
    assert list(engine.media[0].items()) == [("dog", b"d"), ("cat", b"c"), ("dog#2", b"d")]
    with pytest.raises(ModelError, match="cat"):
        await token_model(Script([[5]])).generate(asked(shown, media={"dog": b"d"}))
