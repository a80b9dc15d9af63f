"""A chat format of a tokenizer's template: what it shows, refuses, parses, and where each token ends in the text."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import Tool

from rollouthub import Media, Message, ToolRequest
from rollouthub.errors import ModelError
from rollouthub.generation import ModelReply, ModelRequest
from rollouthub.messages import user
from rollouthub.models.tokens import HfChatFormat, TokenModel
from tests.models.tokens.chatml import ChatMl, odd_ids
from tests.models.tokens.script import Script, asked, goes_on, token_model


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
