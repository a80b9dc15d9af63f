"""The Responses API as the openai lane calls it: stateless, with reasoning that goes back to the model as it came."""

import hashlib
from dataclasses import replace
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from rollouthub.event_loop import MOST_VALUES, is_crowded
from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.messages import Delta, ToolPiece
from rollouthub.models.config import Api, ModelConfig
from rollouthub.models.dialects import adapter_fields
from rollouthub.models.direct.answer_bounds import BadAnswer, TooLong, check_calls
from rollouthub.models.direct.chat_wire import check_extra, write_sampling
from rollouthub.models.direct.completion import (
    Answer,
    Choice,
    Count,
    Counted,
    Dollars,
    OutputDetails,
    PromptDetails,
    Scalar,
    as_reply,
    error_words,
    pricing,
)
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.openai.api_wire import refuse_settings, schema_format
from rollouthub.models.openai.optional_fields import OptionalField
from rollouthub.models.openai.responses_items import input_of, read_output
from rollouthub.models.prices import Price
from rollouthub.models.response_items import tool_params

ENCRYPTED = "reasoning.encrypted_content"
_OURS = frozenset({"model", "input", "tools", "stream", "store", "include", "previous_response_id", "background"})
_CUT = {"max_output_tokens": "length", "content_filter": "content_filter"}
_STATUSES = {"rate_limit_exceeded": 429, "insufficient_quota": 429, "server_error": 500, "vector_store_timeout": 500}
"""HTTP statuses that the codes of failed answers stand for; others are the request's."""
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_NEW_THOUGHTS = ("response.reasoning_summary_part.added", "response.reasoning_part.added")
_ENDS = ("response.completed", "response.incomplete", "response.failed")


_NOTHING = Raw(b"null")


class _InputDetails(Struct, gc=False):
    cached_tokens: Count | None = None


class _OutputDetails(Struct, gc=False):
    reasoning_tokens: Count | None = None


class _Usage(Struct, gc=False):
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None
    cost: Dollars | None = None


class _Incomplete(Struct, gc=False):
    reason: str | None = None


class _ResponseBody(Struct, gc=False):
    id: Scalar = None
    status: str | None = None
    output: Raw = _NOTHING
    usage: _Usage | None = None
    error: Raw = _NOTHING
    incomplete_details: _Incomplete | None = None


class _NewItem(Struct, gc=False):
    type: str = ""
    call_id: str | None = None
    name: str | None = None


class _Event(Struct, gc=False):
    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    item: Raw = _NOTHING
    response: Raw = _NOTHING
    code: Scalar = None
    message: Scalar = None


_response = msgspec.json.Decoder(_ResponseBody).decode
_event = msgspec.json.Decoder(_Event).decode
_new_item = msgspec.json.Decoder(_NewItem).decode


class ResponsesApi:
    """Writes requests of the Responses API and reads its answers."""

    api: Api = "responses"
    path = "/responses"

    def __init__(self, config: ModelConfig, endpoint: Endpoint, price: Price | None) -> None:
        self._price, self._endpoint, self._owner = price, endpoint, f"{config.name} at {endpoint.base_url}"
        self._mark = mark_of(endpoint)
        self._base: dict[str, Any] = {"model": endpoint.served_name, "store": False}
        self.check_sampling(config.sampling)
        write_sampling(self._base, config.sampling, _OURS, "max_output_tokens")

    def body(self, request: ModelRequest, without: frozenset[OptionalField] = frozenset()) -> dict[str, Any]:
        """A request's body."""
        body = dict(self._base)
        if request.adapter:
            body |= adapter_fields(request.adapter, self._endpoint.dialect, self._owner)
        body["input"] = input_of(request.messages, request.media, self._mark)
        if request.tools:
            body["tools"] = tool_params(request.tools)
        if "encrypted_reasoning" not in without:
            body["include"] = [ENCRYPTED]
        if request.stream is not None:
            body["stream"] = True
        write_sampling(body, request.sampling, _OURS, "max_output_tokens")
        if request.answer_schema is not None and "answer_schema" not in without:
            form = {"type": "json_schema", **schema_format(request.answer_schema)}
            body["text"] = {**body.get("text", {}), "format": form}
        return body

    def check_sampling(self, sampling: Sampling) -> None:
        """Check sampling settings for reserved fields, and for those that only Chat Completions has."""
        check_extra(sampling, _OURS)
        if lacking := [name for name in ("seed", "stop") if getattr(sampling, name) is not None]:
            raise refuse_settings(lacking, "leave them out (a run's seed is the model's, too), or take --api chat")

    def parse(self, body: bytes, request: ModelRequest, version_header: str | None, retries: int) -> ModelReply:
        """The reply in an answer's body."""
        return _reply(body, self._mark, len(request.messages), self._price, version_header, retries)

    def assembly(self, request: ModelRequest) -> "ResponsesAssembly":
        """An assembly for a streamed answer."""
        return ResponsesAssembly(self._mark, len(request.messages), self._price)


class ResponsesAssembly:
    """Assembles a streamed response: its last event holds the whole, the others are for the listener."""

    def __init__(self, mark: str, turn: int, price: Price | None) -> None:
        self._mark, self._turn, self._price = mark, turn, price
        self._whole: bytes | None = None
        self._calls: dict[int, int] = {}
        self._has_thought = False

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete."""
        return self._whole is not None

    def add(self, data: bytes) -> Delta | None:
        """Add an event's data; returns the piece to show, or None."""
        try:
            event = _event(data)
            kind, index = event.type, event.output_index or 0
            if kind == "error":
                raise _broken({"code": event.code, "message": event.message})
            if kind in _ENDS:
                self._whole = bytes(event.response)
            elif kind == "response.output_item.added" and bytes(event.item) != b"null":
                item = _new_item(event.item)
                if item.type == "function_call":
                    check_calls(len(self._calls) + 1)
                    place = self._calls.setdefault(index, len(self._calls))
                    piece = ToolPiece(place, "", item.call_id or f"call-{self._turn}-{place}", item.name or "")
                    return Delta(tools=(piece,))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadAnswer(f"the stream has an event that is none of the Responses API ({error})") from None
        return self._piece(kind, index, event.delta or "")

    def _piece(self, kind: str, index: int, delta: str) -> Delta | None:
        if kind in _NEW_THOUGHTS:
            delta, self._has_thought = "\n\n" if self._has_thought else "", True
            return Delta(reasoning=delta) if delta else None
        if not delta:
            return None
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            return Delta(delta)
        if kind in _THOUGHTS:
            return Delta(reasoning=delta)
        if kind == "response.function_call_arguments.delta" and index in self._calls:
            return Delta(tools=(ToolPiece(self._calls[index], delta),))
        return None

    def reply(self, version_header: str | None, retries: int) -> ModelReply:
        """The whole answer."""
        return _reply(self._whole or b"{}", self._mark, self._turn, self._price, version_header, retries)


def _reply(
    body: bytes, mark: str, turn: int, price: Price | None, version_header: str | None, retries: int
) -> ModelReply:
    try:
        response = _response(body)
        if (error := bytes(response.error)) != b"null":
            raise _broken("too much to read" if is_crowded(error) else msgspec.json.decode(error))
        if bytes(response.output) == b"null" or response.status in ("failed", "cancelled", "queued", "in_progress"):
            raise BadAnswer(f"the answer is no response that is over (status {str(response.status)[:40]!r})")
        if is_crowded(bytes(response.output)):
            raise TooLong(f"the answer holds more than {MOST_VALUES:,} values")
        said, items = read_output(bytes(response.output))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"the answer is no response ({error})") from None
    cut = response.incomplete_details.reason if response.incomplete_details is not None else None
    reason = "tool_calls" if said.tool_calls else "stop"
    if response.status == "incomplete":
        reason = _CUT.get(cut or "", cut or "length")
    answer = Answer([Choice(said, reason)], id=response.id, usage=_counted(response.usage))
    cost = pricing(price, answer)
    reply, _ = as_reply(answer, turn=turn, version_header=version_header, price=cost, retries=retries)
    if items is None:
        return reply
    return replace(reply, message=reply.message.model_copy(update={"items": items, "items_from": mark}))


def mark_of(endpoint: Endpoint) -> str:
    """The mark of a model at a server, by which items go back to who wrote them."""
    return hashlib.sha256(f"{endpoint.served_name}\n{endpoint.base_url}".encode()).hexdigest()[:16]


def _counted(usage: _Usage | None) -> Counted | None:
    if usage is None:
        return None
    prompt, output = usage.input_tokens_details, usage.output_tokens_details
    return Counted(
        usage.input_tokens,
        usage.output_tokens,
        None if prompt is None else PromptDetails(prompt.cached_tokens),
        None if output is None else OutputDetails(output.reasoning_tokens),
        usage.cost,
    )


def _broken(error: Any) -> BadAnswer:
    """The error of an answer that failed, with the HTTP status that its code stands for."""
    words = error_words(error)
    fields = cast(dict[str, Any], error) if isinstance(error, dict) else {}
    code = fields.get("code")
    if isinstance(code, str):
        words = words if code in words else f"{words} ({code})"
        fields = {"code": _STATUSES.get(code, 400), "message": words}
    return BadAnswer(f"the server broke off the answer: {words}", fields)
