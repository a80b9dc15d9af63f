"""A model over token ids: what was sampled stands in the next prompt as it was, and in training rows once."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import Tool

from rollouthub import Rollout, Segment, segments
from rollouthub.engine.recorder import Recorder
from rollouthub.export.segment import Fork, sampled_ids
from rollouthub.generation import ModelReply, ModelRequest
from rollouthub.messages import system, user
from rollouthub.models.tokens import HfChatFormat, Sampled, TokenModel
from rollouthub.values import Int32s
from tests.hub.test_rollout import rollout
from tests.models.tokens.chatml import FORGETFUL, ChatMl, odd_ids
from tests.models.tokens.script import ADD, CALL, Script, asked, goes_on, token_model


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


async def play(model: TokenModel | Textual, turns: int, tools: Sequence[Tool] = (ADD,)) -> Rollout:
    """The record of a conversation with a model, as the engine writes it down."""
    recorder = Recorder()
    conversation = [system("You are a helpful assistant."), user("What is the sum?")]
    for _ in range(turns):
        reply = await model.generate(asked(conversation, tools=tools))
        recorder.add_turn("agent", conversation, reply.message, reply, {}, 0.0)
        conversation = goes_on(conversation, reply.message)
    return rollout(turns=tuple(turn.close() for turn in recorder.turns))


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
