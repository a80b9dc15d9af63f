"""A model over token ids: what was sampled stands in the next prompt as it was, and in training rows once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import Tool

from rollouthub import Media, Message, Rollout, Segment, ToolRequest, Turn, segments
from rollouthub.engine.recorder import Recorder
from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.export.segment import Fork, sampled_ids
from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.messages import system, user
from rollouthub.models.tokens import HfChatFormat, Sampled, TokenModel
from rollouthub.values import Int32s
from tests.hub.test_rollout import rollout
from tests.models.tokens.chatml import FORGETFUL, ChatMl, odd_ids

ADD = Tool(name="add", description="Add two numbers.", input_schema={"type": "object", "properties": {}})


@dataclass
class Script:
    """An engine that samples given ids in turn."""

    answers: list[list[int] | Sampled | Exception]
    prompts: list[list[int]] = field(default_factory=list[list[int]])
    sampling: list[Sampling] = field(default_factory=list[Sampling])
    media: list[dict[str, bytes]] = field(default_factory=list[dict[str, bytes]])

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        self.prompts.append(list(prompt_ids))
        self.sampling.append(sampling)
        self.media.append(dict(media))
        answer = self.answers[len(self.prompts) - 1]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Sampled):
            return answer
        return Sampled(answer, [-0.5 * (place + 1) for place in range(len(answer))], "stop", len(self.prompts))


class Textual:
    """The same engine behind a server of words: every prompt is rendered and encoded anew."""

    name = "text-in"

    def __init__(self, engine: Script, chat: HfChatFormat) -> None:
        self._engine, self._chat = engine, chat

    async def generate(self, request: ModelRequest) -> ModelReply:
        prompt = await self._chat.render(request.messages, request.tools, add_generation_prompt=True)
        sampled = await self._engine.sample(prompt, request.sampling, session="", media={})
        message = await self._chat.parse(sampled.token_ids, request.tools)
        calls = tuple(call.model_copy(update={"id": f"c{place}"}) for place, call in enumerate(message.tool_requests))
        return ModelReply(
            message=message.model_copy(update={"tool_requests": calls}),
            finish_reason=sampled.finish_reason,
            prompt_token_ids=Int32s(prompt),
            output_token_ids=Int32s(sampled.token_ids),
        )


def asked(messages: Sequence[Message], *, tools: Sequence[Tool] = (), session: str = "s", **more: Any) -> ModelRequest:
    return ModelRequest(messages=messages, tools=tools, session=session, timeout_seconds=5.0, **more)


def goes_on(conversation: list[Message], said: Message) -> list[Message]:
    """The conversation with an answer, and what an environment says to it."""
    results = [
        Message(role="tool", content=f"result {place}", tool_call_id=call.id)
        for place, call in enumerate(said.tool_requests)
    ]
    return [*conversation, said, *(results or [user("Go on.")])]


async def play(model: TokenModel | Textual, turns: int, tools: Sequence[Tool] = (ADD,)) -> Rollout:
    """The record of a conversation with a model, as the engine writes it down."""
    recorder = Recorder()
    conversation = [system("You are a helpful assistant."), user("What is the sum?")]
    for _ in range(turns):
        reply = await model.generate(asked(conversation, tools=tools))
        recorder.add_turn("agent", conversation, reply.message, reply, {}, 0.0)
        conversation = goes_on(conversation, reply.message)
    return rollout(turns=tuple(turn.close() for turn in recorder.turns))


def token_model(engine: Script, tokenizer: ChatMl | None = None, **options: Any) -> TokenModel:
    return TokenModel("policy", engine, HfChatFormat(tokenizer or ChatMl()), **options)


CALL = '<tool_call>\n{{"name": "add", "arguments": {{"a": {0}, "b": {0}}}}}\n</tool_call>'


@st.composite
def answers(draw: st.DrawFn) -> list[int]:
    """Ids that a policy might sample: words, calls, both, or anything at all; split as no tokenizer would."""
    tokenizer = ChatMl()
    kind = draw(st.sampled_from(["words", "call", "both", "any"]))
    if kind == "any":
        ids = draw(st.lists(st.integers(2, 390), min_size=1, max_size=12))
    else:
        words = draw(st.sampled_from(["It is 17.", "Grüße ✓", " so\n", ""])) if kind != "call" else ""
        text = words + (CALL.format(draw(st.integers(0, 99))) * draw(st.integers(1, 2)) if kind != "words" else "")
        ids = odd_ids(text, draw(st.integers(0, 99)))
    return [*ids, tokenizer.end]


def check_rows(record: Rollout, rows: list[Segment]) -> None:
    """Whatever the rows are, they hold what was sent and sampled, each sampled id once, and nothing else."""
    for turn in record.turns:
        assert turn.prompt_token_ids is not None
        assert turn.output_token_ids is not None
    assert sampled_ids(rows) == {turn.index: turn.output_token_ids for turn in record.turns}
    learnt = sum(sum(row.loss_mask) for row in rows)
    assert learnt == sum(len(turn.output_token_ids or ()) for turn in record.turns)
    sent = {(turn.prompt_token_ids or Int32s()) + (turn.output_token_ids or Int32s()) for turn in record.turns}
    assert all(row.token_ids in sent for row in rows)
    for row in rows:
        columns = zip(row.loss_mask, row.turn_ids, strict=True)
        assert all((mask == 1) == (turn >= 0) for mask, turn in columns)


@settings(max_examples=12, deadline=None)
@given(st.lists(answers(), min_size=2, max_size=4))
async def test_whatever_is_sampled_a_conversation_is_one_row(sampled: list[list[int]]) -> None:
    tokenizer, engine = ChatMl(), Script([*sampled])
    record = await play(token_model(engine, tokenizer), len(sampled))
    (row,) = rows = segments(record)
    check_rows(record, rows)
    assert row.fork == Fork(kind="start")
    # Between what was sampled stands exactly what the template writes there.
    for before, after in zip(record.turns, record.turns[1:], strict=False):
        held = (before.prompt_token_ids or Int32s()) + (before.output_token_ids or Int32s())
        added = (after.prompt_token_ids or Int32s())[len(held) :]
        said = "".join(f"<|im_start|>{message.role}\n{message.text}<|im_end|>\n" for message in after.messages)
        assert tokenizer.decode(added.tolist()) == f"\n{said}<|im_start|>assistant\n"


@settings(max_examples=12, deadline=None)
@given(st.lists(answers(), min_size=2, max_size=4))
async def test_text_that_is_encoded_again_forks_and_never_goes_on(sampled: list[list[int]]) -> None:
    tokenizer, engine = ChatMl(), Script([*sampled])
    record = await play(Textual(engine, HfChatFormat(tokenizer)), len(sampled))
    rows = segments(record)
    check_rows(record, rows)
    for row in rows[1:]:
        assert row.fork is not None
        assert row.fork.kind == "drift"
        assert row.fork.dropped > 0


async def test_words_split_as_no_tokenizer_would_drift_where_they_are_encoded_again() -> None:
    odd = [[*odd_ids("The sum is seventeen.", 3), ChatMl().end] for _ in range(2)]
    kept = segments(await play(token_model(Script([*odd])), 2))
    drifted = segments(await play(Textual(Script([*odd]), HfChatFormat(ChatMl())), 2))
    assert (len(kept), len(drifted)) == (1, 2)


async def test_sampled_words_are_never_encoded_again() -> None:
    tokenizer = ChatMl()
    engine = Script([[*odd_ids(f"It is {place}", place), tokenizer.end] for place in range(3)])
    await play(token_model(engine, tokenizer), 3)
    sampled = [engine.prompts[0], engine.prompts[1][: len(engine.prompts[0])]]
    assert sampled[0] == sampled[1]
    assert engine.prompts[2][: len(engine.prompts[1])] == engine.prompts[1]


async def test_an_answer_cut_at_a_limit_is_closed_by_the_prompt_after_it() -> None:
    tokenizer = ChatMl()
    ids = odd_ids("It is", 1)
    engine = Script([Sampled(ids, None, "length"), [tokenizer.end]])
    record = await play(token_model(engine, tokenizer), 2)
    (row,) = segments(record)
    first = record.turns[0].prompt_token_ids or Int32s()
    assert engine.prompts[1][: len(first) + len(ids) + 1] == [*first, *ids, tokenizer.end]
    assert row.loss_mask.tolist()[len(first) + len(ids)] == 0  # nobody sampled that end
    assert record.turns[0].finish_reason == "length"


async def test_a_template_that_forgets_thoughts_begins_another_row() -> None:
    tokenizer = ChatMl(FORGETFUL)
    thought = [*odd_ids("I think</think>17", 5), tokenizer.end]
    engine = Script([thought, thought, thought])
    record = await play(token_model(engine, tokenizer), 3)
    rows = segments(record)
    check_rows(record, rows)
    assert [row.fork.kind for row in rows if row.fork is not None] == ["start", "drift", "drift"]
    assert "I think" not in tokenizer.decode(engine.prompts[2])


async def test_a_shortened_history_is_rendered_anew() -> None:
    tokenizer = ChatMl()
    model = token_model(Script([[*odd_ids("It is", 1), tokenizer.end], [tokenizer.end]]), tokenizer)
    recorder = Recorder()
    for conversation in ([system("Long."), user("What?")], [user("What?")]):
        reply = await model.generate(asked(conversation))
        recorder.add_turn("agent", conversation, reply.message, reply, {}, 0.0)
    first, second = segments(rollout(turns=tuple(turn.close() for turn in recorder.turns)))
    assert first.fork == Fork(kind="start")
    assert second.fork is not None
    assert (second.fork.kind, second.fork.turn) == ("history", 0)
    prompt = await HfChatFormat(tokenizer).render([user("What?")], (), add_generation_prompt=True)
    assert second.token_ids.tolist()[: len(prompt)] == prompt


async def test_two_ways_on_from_one_answer_both_keep_its_ids() -> None:
    tokenizer = ChatMl()
    engine = Script([[*odd_ids("It is 17.", 2), tokenizer.end], [5, tokenizer.end], [6, tokenizer.end]])
    model = token_model(engine, tokenizer)
    first = await model.generate(asked([user("What?")]))
    for said in ("Sure?", "Why?"):
        await model.generate(asked([user("What?"), first.message, user(said)]))
    held = [*engine.prompts[0], *odd_ids("It is 17.", 2), tokenizer.end]
    assert [prompt[: len(held)] for prompt in engine.prompts[1:]] == [held, held]


async def test_of_attempts_that_said_the_same_the_latest_goes_on() -> None:
    tokenizer = ChatMl()
    said = [[*odd_ids("The answer is seventeen.", seed), tokenizer.end] for seed in (2, 3)]
    assert said[0] != said[1]
    engine = Script([*said, [tokenizer.end]])
    model = token_model(engine, tokenizer)
    first, second = [await model.generate(asked([user("What?")])) for _ in said]
    assert first.message == second.message
    await model.generate(asked([user("What?"), second.message, user("Sure?")]))
    assert engine.prompts[2][len(engine.prompts[0]) :][: len(said[1])] == said[1]


async def test_sessions_do_not_mix_and_other_tools_are_another_prompt() -> None:
    tokenizer = ChatMl()
    odd, other = ([*odd_ids("The answer is seventeen.", seed), tokenizer.end] for seed in (2, 3))
    engine = Script([odd, other, [5, tokenizer.end], [5, tokenizer.end], [5, tokenizer.end]])
    model = token_model(engine, tokenizer)
    reply, _ = [await model.generate(asked([user("What?")], session=session)) for session in ("a", "b")]
    conversation = [user("What?"), reply.message, user("Sure?")]
    for session, ids in (("a", odd), ("b", other)):
        await model.generate(asked(conversation, session=session))
        assert engine.prompts[-1][len(engine.prompts[0]) :][: len(ids)] == ids
    await model.generate(asked(conversation, session="a", tools=[ADD]))
    assert engine.prompts[-1] == await HfChatFormat(tokenizer).render(conversation, [ADD], add_generation_prompt=True)


async def test_the_longest_unused_session_is_forgotten_first() -> None:
    tokenizer = ChatMl()
    odd = [*odd_ids("It is 17.", 2), tokenizer.end]
    engine = Script([odd, odd, [5, tokenizer.end], [5, tokenizer.end]])
    model = token_model(engine, tokenizer, sessions=1)
    reply, _ = [await model.generate(asked([user("What?")], session=session)) for session in ("a", "b")]
    conversation = [user("What?"), reply.message, user("Sure?")]
    for session in ("b", "a"):
        await model.generate(asked(conversation, session=session))
    anew = await HfChatFormat(tokenizer).render(conversation, (), add_generation_prompt=True)
    assert engine.prompts[3] == anew != engine.prompts[2]


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


async def test_a_format_that_shows_pictures_is_given_their_bytes() -> None:
    class Showing(HfChatFormat):
        async def render_shown(
            self,
            messages: Sequence[Message],
            tools: Sequence[Tool],
            *,
            add_generation_prompt: bool,
            media: Mapping[str, bytes],
        ) -> list[int]:
            return [*media["cat"], *await self.render([user("What?")], tools, add_generation_prompt=True)]

    engine = Script([[5], [6]])
    model = TokenModel("scripted", engine, Showing(ChatMl()))
    picture = Message(role="user", content=(Media(digest="cat", mime_type="image/png"),))
    await model.generate(asked([picture], media={"cat": b"\x07\x07"}))
    await model.generate(asked([user("What?")]))
    assert engine.prompts[0] == [7, 7, *engine.prompts[1]]


async def test_a_template_that_refuses_a_conversation_is_the_calls_error() -> None:
    class Strict(ChatMl):
        def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> str:
            raise ValueError("roles must alternate")

    with pytest.raises(ModelError, match="roles must alternate") as caught:
        await token_model(Script([]), Strict()).generate(asked([user("What?")]))
    assert not caught.value.retryable


class Choosy(ChatMl):
    """Takes no conversation that ends with an answer."""

    def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> str:
        if conversation[-1]["role"] == "assistant":
            raise ValueError("ends with an answer")
        return super().apply_chat_template(conversation, **options)


async def test_a_template_that_does_not_say_how_answers_end_is_rendered_anew_each_turn() -> None:
    engine = Script([[5], [5]])
    model = token_model(engine, Choosy())
    reply = await model.generate(asked([user("What?")]))
    conversation = goes_on([user("What?")], reply.message)
    await model.generate(asked(conversation))
    assert engine.prompts[1] == await HfChatFormat(ChatMl()).render(conversation, (), add_generation_prompt=True)


@pytest.mark.parametrize("splits", [True, False])
async def test_thoughts_stand_apart_where_asked_for(splits: bool) -> None:
    tokenizer = ChatMl()
    chat = HfChatFormat(tokenizer, splits_thinking=splits)
    said = await chat.parse([*odd_ids("<think>\nhm\n</think>\n\n17", 1), tokenizer.end], ())
    assert (said.reasoning, said.text) == (("hm", "17") if splits else (None, "<think>\nhm\n</think>\n\n17"))


def test_arguments_that_are_no_json_reach_the_template_as_they_were_written() -> None:
    written: list[Any] = []

    class Shown(ChatMl):
        def apply_chat_template(self, conversation: list[dict[str, Any]], **options: Any) -> str:
            written.extend(call["function"]["arguments"] for call in conversation[0]["tool_calls"])
            return ""

    calls = (ToolRequest(id="a", name="add", arguments='{"a": 1}'), ToolRequest(id="b", name="add", arguments='{"a": '))
    render: Callable[..., Any] = HfChatFormat(Shown()).render
    anyio.run(lambda: render([Message(role="assistant", tool_requests=calls)], (), add_generation_prompt=False))
    assert written == [{"a": 1}, '{"a": ']


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="aé東🙂 \n.4", min_size=1, max_size=30), st.integers(0, 99))
def test_it_says_where_each_token_ends_in_the_text(text: str, seed: int) -> None:
    chat = ChatMl()
    ids = [*odd_ids(text, seed), chat.end]
    model = TokenModel("tiny", Script([ids]), HfChatFormat(chat))

    async def asked() -> ModelReply:
        return await model.generate(ModelRequest([user("go")], wants_text_ends=True))

    reply = anyio.run(asked)
    ends = reply.output_text_ends
    assert ends is not None
    for count, end in enumerate(ends, 1):
        assert text[:end] == chat.decode(ids[:count], skip_special_tokens=True).rstrip("\ufffd")


def test_text_that_never_ends_a_character_is_not_decoded_again_and_again() -> None:
    class Counting(ChatMl):
        decoded = 0

        def decode(self, token_ids: list[int], *, skip_special_tokens: bool = False) -> str:
            self.decoded += len(token_ids)
            return super().decode(token_ids, skip_special_tokens=skip_special_tokens)

    chat = Counting()
    ids = chat.encode("東", add_special_tokens=False)[:1] * 400
    assert chat.decode(ids).endswith("\ufffd")
    chat.decoded = 0
    anyio.run(HfChatFormat(chat).token_bytes, ids)
    assert chat.decoded < 40 * len(ids)
