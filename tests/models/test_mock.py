"""The mock models in process."""

import json
from pathlib import Path

import anyio
import pytest
from mcp_types import Tool

from rollouthub import Message, ModelError, Sampling
from rollouthub.errors import ConfigError, ContextLimitError
from rollouthub.messages import assistant, user
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.behaviours import expression, fill_arguments
from rollouthub.models.mock.mock_model import MockModel
from tests.models.servers import ask

SUBMIT = Tool(name="submit", input_schema={"type": "object", "properties": {"answer": {"type": "string"}}})


def tool(**properties: object) -> Tool:
    """A tool that requires these arguments."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return Tool(name="calculate", input_schema=schema)


CALCULATE = tool(expression={"type": "string"})


def mock(name: str, **config: object) -> MockModel:
    return MockModel(ModelConfig.model_validate({"name": name, **config}))


async def play(model: MockModel, tools: list[Tool], result: str, seed: int | None = None) -> list[Message]:
    """Play to the end; every tool call is answered with `result`."""
    conversation = [user("What is 40 + 2?")]
    while True:
        reply = await model.generate(ask(*conversation, tools=tools, sampling=Sampling(seed=seed)))
        conversation.append(reply.message)
        if not reply.message.tool_requests:
            return conversation
        conversation += [
            Message(role="tool", content=result, tool_call_id=request.id) for request in reply.message.tool_requests
        ]


async def test_echo_says_the_last_user_words_again() -> None:
    reply = await mock("mock/echo").generate(ask(user("one"), assistant("…"), user("two")))
    assert reply.message == assistant("two")
    assert reply.finish_reason == "stop"


async def test_say_always_says_the_same() -> None:
    assert (await mock("mock/say?text=yes").generate(ask())).message == assistant("yes")


async def test_solver_calls_the_first_tool_and_answers_with_its_result() -> None:
    first, _, last = (await play(mock("mock/solver"), [SUBMIT, CALCULATE], "42"))[1:]
    assert first.tool_requests[0].name == "calculate"
    assert json.loads(first.tool_requests[0].arguments) == {"expression": "40 + 2"}
    assert last == assistant("42")


async def test_solver_calls_the_tool_it_is_told_to_also_behind_a_servers_name() -> None:
    others = [CALCULATE.model_copy(update={"name": name}) for name in ("shell", "recalculate", "mcp__env__calculate")]
    model = mock("mock/solver?tool=calculate")
    assert (await play(model, others, "42"))[1].tool_requests[0].name == "mcp__env__calculate"
    assert (await play(model, [CALCULATE, *others], "42"))[1].tool_requests[0].name == "calculate"
    assert (await play(model, others[:2], "42"))[1:] == [assistant("40 + 2")]


async def test_solver_without_tools_answers_from_the_question() -> None:
    assert (await mock("mock/solver").generate(ask())).message == assistant("2 + 3")


async def test_solver_starts_again_when_the_user_speaks_again() -> None:
    conversation = [*await play(mock("mock/solver"), [CALCULATE], "42"), user("And 1 + 1?")]
    reply = await mock("mock/solver").generate(ask(*conversation, tools=[CALCULATE]))
    assert reply.message.tool_requests[0].arguments == '{"expression":"1 + 1"}'


async def test_submitter_hands_the_answer_in() -> None:
    played = await play(mock("mock/submitter"), [CALCULATE, SUBMIT], "42")
    names = [request.name for message in played for request in message.tool_requests]
    assert names == ["calculate", "submit"]
    assert json.loads(played[3].tool_requests[0].arguments) == {"answer": "42"}


async def test_script_plays_its_turns_and_then_has_no_more(tmp_path: Path) -> None:
    file = tmp_path / "turns.json"
    turns = [
        {"content": "let me see", "tool_calls": [{"name": "calculate", "arguments": {"expression": "1"}}]},
        {"tool_calls": [{"name": "calculate", "arguments": "{not json"}]},
        {"content": "done"},
    ]
    file.write_text(json.dumps(turns))
    model = mock(f"mock/script?file={file}")
    played = await play(model, [CALCULATE], "1")
    assert [message.text for message in played if message.role == "assistant"] == ["let me see", "", "done"]
    assert played[1].tool_requests[0].arguments == '{"expression":"1"}'
    assert played[3].tool_requests[0].arguments == "{not json"
    with pytest.raises(ModelError, match="has 3 turns"):
        await model.generate(ask(*played, user("more?")))


@pytest.mark.parametrize("text", ["", "{}", '[{"contnet": "x"}]', '[{"tool_calls": [{}]}]'])
def test_a_script_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "turns.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"turns\.json is not a list of turns"):
        mock(f"mock/script?file={file}")


def test_a_script_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        mock(f"mock/script?file={tmp_path / 'none.json'}")


async def test_the_same_conversation_gives_the_same_reply() -> None:
    request = ask(sampling=Sampling(seed=3))
    first = await mock("mock/solver?accuracy=0.5").generate(request)
    assert await mock("mock/solver?accuracy=0.5").generate(request) == first


async def test_accuracy_is_the_share_of_seeds_that_are_right() -> None:
    model = mock("mock/solver?accuracy=0.7")
    answers = [(await play(model, [CALCULATE], "42", seed))[-1].text for seed in range(300)]
    assert set(answers) == {"42", "43"}
    assert 180 < answers.count("42") < 240
    assert answers[:20] == [(await play(model, [CALCULATE], "42", seed))[-1].text for seed in range(20)]


async def test_faults_are_the_named_share_and_a_retry_draws_anew() -> None:
    model = mock("mock/echo?fail=0.3&ratelimit=0.2")
    statuses: list[int | None] = []
    for number in range(300):
        try:
            await model.generate(ask(user(str(number))))
        except ModelError as error:
            assert error.retryable
            statuses.append(error.status)
    assert 60 < statuses.count(500) < 120
    assert 35 < statuses.count(429) < 85
    with anyio.fail_after(5):
        for number in range(50):
            while not await succeeds(model, str(number)):
                pass


async def succeeds(model: MockModel, text: str) -> bool:
    try:
        await model.generate(ask(user(text)))
    except ModelError:
        return False
    return True


async def test_faults_do_not_depend_on_the_order_of_calls() -> None:
    forwards, backwards = mock("mock/echo?fail=0.5"), mock("mock/echo?fail=0.5")
    texts = [str(number) for number in range(40)]
    one = {text: await succeeds(forwards, text) for text in texts}
    assert one == {text: await succeeds(backwards, text) for text in reversed(texts)}


async def test_latency_is_taken() -> None:
    started = anyio.current_time()
    await mock("mock/echo?latency=0.02..0.04").generate(ask())
    assert anyio.current_time() - started >= 0.02


async def test_latency_beyond_the_timeout_is_a_timeout() -> None:
    with anyio.fail_after(5), pytest.raises(ModelError, match="no answer within"):
        await mock("mock/echo?latency=60").generate(ask(timeout_seconds=0.01))


async def test_an_answer_is_cut_to_max_tokens() -> None:
    reply = await mock("mock/say?text=%C3%A9%C3%A9%C3%A9").generate(ask(sampling=Sampling(max_tokens=3)))
    assert (reply.message, reply.finish_reason) == (assistant("é"), "length")
    assert reply.output_token_ids is not None
    assert reply.output_token_ids.tolist() == list("é".encode())


async def test_a_call_cut_short_is_only_words() -> None:
    reply = await mock("mock/solver").generate(ask(tools=[CALCULATE], sampling=Sampling(max_tokens=20)))
    assert reply.message.tool_requests == ()
    assert reply.message.text.startswith("<tool_call>")


async def test_the_configurations_max_tokens_holds_too() -> None:
    reply = await mock("mock/say?text=hello", sampling=Sampling(max_tokens=2)).generate(ask())
    assert (reply.message.text, reply.finish_reason) == ("he", "length")


async def test_a_conversation_beyond_the_context_is_refused_and_an_answer_cut_to_it() -> None:
    model = mock("mock/echo?context=60")
    with pytest.raises(ContextLimitError, match="maximum context length is 60 tokens"):
        await model.generate(ask(user("x" * 60)))
    reply = await model.generate(ask(user("y" * 30)))
    assert reply.finish_reason == "length"
    assert reply.usage.prompt_tokens + reply.usage.output_tokens == 60


async def test_a_price_makes_a_cost() -> None:
    reply = await mock("mock/say?text=hi", price_output=10.0).generate(ask())
    assert reply.cost == pytest.approx(3 * 10 / 1e6)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What is 12 * (3 + 4) - 5?", "12 * (3 + 4) - 5"),
        ("Compute 3 + 4.", "3 + 4"),
        ("Sum (of 3+4) please, then 2^10 - 1, quickly", "2^10 - 1"),
        ("He is 5, she is 6 - they are 2.", ""),
        ("well-known", ""),
        ("(1 + 2)", "(1 + 2)"),
        ("add 1.5 + -2", "1.5 + -2"),
        (" " * 100_000, ""),
    ],
)
def test_the_longest_expression_of_a_text_is_found(text: str, found: str) -> None:
    assert expression(text) == found


def test_arguments_are_filled_by_type() -> None:
    asked = tool(
        i={"type": "integer"},
        n={"type": "number"},
        b={"type": "boolean"},
        a={"type": "array"},
        o={"type": "object"},
        e={"enum": ["x", "y"]},
        z={"type": "null"},
        s={"type": "string"},
    )
    filled = json.loads(fill_arguments(asked, "take 7 of them"))
    assert filled == {"i": 7, "n": 7.0, "b": False, "a": [], "o": {}, "e": "x", "z": None, "s": "take 7 of them"}
