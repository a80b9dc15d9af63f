"""What a call is expected to take: never less than the text can be at first, then what answers have shown."""

import pytest
from mcp_types import Tool

from rollouthub import Media, Message, ModelError, ModelRequest, Sampling
from rollouthub.messages import ToolRequest, assistant, user
from rollouthub.models.config import ModelConfig
from rollouthub.models.media_tokens import MEDIA_TOKENS
from rollouthub.models.router.call_estimate import FIRST_OUTPUT, Estimator
from rollouthub.rollout import Usage


def estimator(max_tokens: int | None = None) -> Estimator:
    return Estimator(ModelConfig(name="hosted_vllm/m", sampling=Sampling(max_tokens=max_tokens)))


def request(*messages: Message, max_tokens: int | None = None, tools: tuple[Tool, ...] = ()) -> ModelRequest:
    return ModelRequest(messages, tools, Sampling(max_tokens=max_tokens))


def test_at_first_a_prompt_may_have_a_token_for_each_byte() -> None:
    expected = estimator().expect(request(user("a" * 100), user("é" * 100)))
    assert 300 <= expected.prompt_tokens <= 320
    assert expected.output_tokens == FIRST_OUTPUT


def test_everything_that_is_sent_is_counted() -> None:
    tool = Tool(name="add", description="d" * 1000, input_schema={"type": "object"})
    call = ToolRequest(id="1", name="add", arguments="1" * 1000)
    thought = Message(role="assistant", content="", reasoning="r" * 1000)
    picture = Message(role="user", content=(Media(digest="sha256:" + "1" * 64, mime_type="image/png"),))
    expected = estimator().expect(request(assistant("", call), thought, picture, tools=(tool,)))
    assert 3000 + MEDIA_TOKENS <= expected.prompt_tokens <= 3300 + MEDIA_TOKENS


@pytest.mark.parametrize(("base", "given", "output"), [(None, 7, 7), (9, None, 9), (9, 7, 7)])
def test_max_tokens_bounds_the_output(base: int | None, given: int | None, output: int) -> None:
    assert estimator(base).expect(request(user("x"), max_tokens=given)).output_tokens == output


def test_answers_teach_it_how_many_tokens_text_has() -> None:
    ours = estimator()
    asked = request(user("a" * 4000))
    for _ in range(100):
        ours.learn(ours.expect(asked), Usage(prompt_tokens=1000, output_tokens=50))
    expected = ours.expect(asked)
    assert 1200 < expected.prompt_tokens < 1300
    assert 60 < expected.output_tokens < 100
    ours.learn(expected, Usage(prompt_tokens=4400, output_tokens=900))
    expected = ours.expect(asked)
    assert (expected.prompt_tokens, expected.output_tokens) == (5500, 1125)


def test_an_answer_that_counts_nothing_teaches_nothing() -> None:
    ours = estimator()
    before = ours.expect(request(user("x")))
    ours.learn(before, Usage())
    assert ours.expect(request(user("x"))) == before


def test_a_guess_above_the_limit_takes_the_whole_minute() -> None:
    ours = estimator()
    assert ours.reservation(ours.expect(request(user("a" * 4000))), 2000, "m") == 2000


def test_what_can_never_fit_is_an_error_that_says_so() -> None:
    ours = estimator()
    with pytest.raises(ModelError, match=r"m: a call of .* tokens_per_minute = 2000 never allows") as caught:
        ours.reservation(ours.expect(request(user("a"), max_tokens=2001)), 2000, "m")
    assert not caught.value.retryable
