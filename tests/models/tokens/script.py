"""An engine that samples given ids, and requests to a model over it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp_types import Tool

from rollouthub import Message
from rollouthub.generation import ModelRequest, Sampling
from rollouthub.messages import user
from rollouthub.models.tokens import HfChatFormat, Sampled, TokenModel
from tests.models.tokens.chatml import ChatMl

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


def asked(messages: Sequence[Message], *, tools: Sequence[Tool] = (), session: str = "s", **more: Any) -> ModelRequest:
    return ModelRequest(messages=messages, tools=tools, session=session, timeout_seconds=5.0, **more)


def goes_on(conversation: list[Message], said: Message) -> list[Message]:
    """The conversation with an answer, and what an environment says to it."""
    results = [
        Message(role="tool", content=f"result {place}", tool_call_id=call.id)
        for place, call in enumerate(said.tool_requests)
    ]
    return [*conversation, said, *(results or [user("Go on.")])]


def token_model(engine: Script, tokenizer: ChatMl | None = None, **options: Any) -> TokenModel:
    return TokenModel("policy", engine, HfChatFormat(tokenizer or ChatMl()), **options)


CALL = '<tool_call>\n{{"name": "add", "arguments": {{"a": {0}, "b": {0}}}}}\n</tool_call>'
