"""Chat Completions as the openai lane calls it: the direct lane's requests and answers."""

from typing import Any

import msgspec

from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.http.server_events import DONE
from rollouthub.messages import Delta
from rollouthub.models.config import Api, ModelConfig
from rollouthub.models.dialects import adapter_fields, dialect_wire
from rollouthub.models.direct.chat_wire import ToolSchemas, check_extra, write_sampling
from rollouthub.models.direct.chunks import Assembly, parse_chunk
from rollouthub.models.direct.completion import Answer, as_reply, parse_answer, pricing
from rollouthub.models.direct.lane import ASKED
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.openai.api_wire import schema_format
from rollouthub.models.openai.optional_fields import OptionalField
from rollouthub.models.prices import Price

_OURS = frozenset({"model", "messages", "tools", "stream", "stream_options", "n"})


class ChatApi:
    """Writes requests of Chat Completions and reads their answers."""

    api: Api = "chat"
    path = "/chat/completions"

    def __init__(self, config: ModelConfig, endpoint: Endpoint, price: Price | None) -> None:
        self._price, self._endpoint, self._owner = price, endpoint, f"{config.name} at {endpoint.base_url}"
        self._tools = ToolSchemas()
        self._max_tokens_field = "max_completion_tokens" if endpoint.is_openai else "max_tokens"
        self._base: dict[str, Any] = {"model": endpoint.served_name}
        self._base |= ASKED[endpoint.dialect]
        self.check_sampling(config.sampling)
        write_sampling(self._base, config.sampling, _OURS, self._max_tokens_field)

    def body(self, request: ModelRequest, without: frozenset[OptionalField] = frozenset()) -> dict[str, Any]:
        """A request's body."""
        body = dict(self._base)
        if request.adapter:
            body |= adapter_fields(request.adapter, self._endpoint.dialect, self._owner)
        wire = [dialect_wire(message, request.media, self._endpoint.dialect) for message in request.messages]
        body["messages"] = msgspec.to_builtins(wire)
        if request.tools:
            body["tools"] = msgspec.json.decode(self._tools.encoded(request.tools))
        if request.stream is not None:
            body["stream"], body["stream_options"] = True, {"include_usage": True}
        write_sampling(body, request.sampling, _OURS, self._max_tokens_field)
        if request.answer_schema is not None and "answer_schema" not in without:
            body["response_format"] = {"type": "json_schema", "json_schema": schema_format(request.answer_schema)}
        return body

    def check_sampling(self, sampling: Sampling) -> None:
        """Check sampling settings for reserved fields; only the server knows which others it accepts."""
        check_extra(sampling, _OURS)

    def parse(self, body: bytes, request: ModelRequest, version_header: str | None, retries: int) -> ModelReply:
        """The reply in an answer's body."""
        answer = parse_answer(body, with_bytes=request.wants_text_ends)
        return _reply(answer, len(request.messages), self._price, version_header, retries)

    def assembly(self, request: ModelRequest) -> "ChatAssembly":
        """An assembly for a streamed answer."""
        return ChatAssembly(len(request.messages), self._price)


class ChatAssembly:
    """Assembles a streamed chat completion."""

    def __init__(self, turn: int, price: Price | None) -> None:
        self._turn, self._price = turn, price
        self._assembly = Assembly(turn)
        self.is_over = False
        """Whether the answer is complete."""

    def add(self, data: bytes) -> Delta | None:
        """Add an event's data; returns the piece to show, or None."""
        if data == DONE:
            self.is_over = True
            return self._assembly.rest()
        return self._assembly.add(parse_chunk(data))

    def reply(self, version_header: str | None, retries: int) -> ModelReply:
        """The whole answer."""
        return _reply(self._assembly.answer(), self._turn, self._price, version_header, retries)


def _reply(answer: Answer, turn: int, price: Price | None, version_header: str | None, retries: int) -> ModelReply:
    cost = pricing(price, answer)
    return as_reply(answer, turn=turn, version_header=version_header, price=cost, retries=retries)[0]
