"""A model's reply in vLLM's format, as the mock server sends it: one JSON body, or a stream of events."""

import math
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from rollouthub.generation import ModelReply
from rollouthub.messages import Delta, ToolPiece, ToolRequest
from rollouthub.models.mock.byte_tokens import LOGPROBS, VOCABULARY, token_bytes, token_text
from rollouthub.models.mock.pieces import pieces
from rollouthub.values import Float32s, Int32s

_encode = msgspec.json.Encoder().encode


def _entry(token: int, logprob: float) -> dict[str, Any]:
    return {
        "token": token_text(token),
        "logprob": logprob,
        "bytes": list(token_bytes(token)),
        "top_logprobs": [],
    }


# Encoded once: an answer has one for each of its tokens.
_ENTRIES = tuple(Raw(_encode(_entry(token, LOGPROBS[token]))) for token in range(VOCABULARY))


def completion(reply: ModelReply, number: int, created: int, model: str, with_ids: bool, with_logprobs: bool) -> bytes:
    """The whole answer as one JSON body."""
    message = reply.message
    requests = message.tool_requests
    choice: dict[str, Any] = {
        "index": 0,
        "message": {
            "role": "assistant",
            "content": message.text or (None if requests else ""),
            "refusal": None,
            "tool_calls": [_call(request) for request in requests],
            "reasoning": message.reasoning,
        },
        "logprobs": _logprobs(reply.output_token_ids, reply.output_logprobs) if with_logprobs else None,
        "finish_reason": reply.finish_reason,
        "stop_reason": None,
    }
    body: dict[str, Any] = {
        "id": f"chatcmpl-{number:016x}",
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
        "usage": _usage(reply),
    }
    if with_ids:
        choice["token_ids"] = _list(reply.output_token_ids)
        body["prompt_token_ids"] = _list(reply.prompt_token_ids)
    return _encode(body)


class AnswerEvents:
    """Writes one answer as server-sent events: a first event, pieces, and a last event."""

    def __init__(self, number: int, created: int, model: str) -> None:
        self._head = {
            "id": f"chatcmpl-{number:016x}",
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
        }

    def begin(self, **more: Any) -> bytes:
        """The first event, with the role; `more` are fields beside `choices`, such as the prompt's token ids."""
        return self._event({"role": "assistant", "content": ""}, None, {}, more)

    def delta(self, delta: Delta, **more: Any) -> bytes:
        """The event of one piece; `more` are fields of the choice, such as the piece's token ids."""
        said: dict[str, Any] = {}
        if delta.reasoning:
            said["reasoning"] = delta.reasoning
        if delta.text:
            said["content"] = delta.text
        if delta.tools:
            said["tool_calls"] = [_tool_piece(piece) for piece in delta.tools]
        return self._event(said, None, more)

    def finish(self, reason: str | None, **more: Any) -> bytes:
        """The event with the finish reason."""
        return self._event({}, reason, {"stop_reason": None, **more})

    def usage(self, reply: ModelReply) -> bytes:
        """The event with the token counts of prompt and answer."""
        return _data({**self._head, "choices": [], "usage": _usage(reply)})

    def fail(self, kind: str, message: str, status: int) -> bytes:
        """The event for an answer that fails half-way, after the HTTP status has been sent."""
        return _data({"error": {"message": message, "type": kind, "param": None, "code": status}})

    def _event(
        self, delta: dict[str, Any], reason: str | None, more: dict[str, Any], beside: dict[str, Any] | None = None
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason, **more}
        return _data({**self._head, "choices": [choice], **(beside or {})})


LAST_EVENT = b"data: [DONE]\n\n"


def stream_events(
    reply: ModelReply, number: int, created: int, model: str, with_ids: bool, with_logprobs: bool, with_usage: bool
) -> Iterator[bytes]:
    """A finished reply as server-sent events, with token ids and log-probabilities beside the pieces."""
    events = AnswerEvents(number, created, model)
    deltas = list(pieces(reply.message))
    tokens = _cuts(reply, len(deltas) + 1, with_ids, with_logprobs)
    yield events.begin(**({"prompt_token_ids": _list(reply.prompt_token_ids)} if with_ids else {}))
    for delta in deltas:
        yield events.delta(delta, **next(tokens))
    yield events.finish(reply.finish_reason, **next(tokens))
    if with_usage:
        yield events.usage(reply)
    yield LAST_EVENT


def _cuts(reply: ModelReply, count: int, with_ids: bool, with_logprobs: bool) -> Iterator[dict[str, Any]]:
    """The tokens divided into `count` parts, independently of the pieces of text, as servers with parsers do."""
    ids, logprobs = reply.output_token_ids, reply.output_logprobs
    step = math.ceil(max(len(ids or ()), len(logprobs or ())) / count)
    for place in range(count):
        cut = slice(place * step, (place + 1) * step)
        part: dict[str, Any] = {}
        if with_ids and ids is not None:
            part["token_ids"] = ids[cut].tolist()
        if with_logprobs and logprobs is not None:
            part["logprobs"] = _logprobs(None if ids is None else ids[cut], logprobs[cut])
        yield part


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + _encode(value) + b"\n\n"


def _tool_piece(piece: ToolPiece) -> dict[str, Any]:
    """A piece of a tool call: as from vLLM's parsers, id and name come in the first piece, the arguments in further
    ones.
    """
    if piece.name is None:
        return {"index": piece.index, "function": {"arguments": piece.arguments}}
    function = {"name": piece.name} | ({"arguments": piece.arguments} if piece.arguments else {})
    return {"index": piece.index, "id": piece.id, "type": "function", "function": function}


def _call(request: ToolRequest) -> dict[str, Any]:
    function = {"name": request.name, "arguments": request.arguments}
    return {"id": request.id, "type": "function", "function": function}


def _logprobs(ids: Int32s | None, logprobs: Float32s | None) -> dict[str, Any] | None:
    if logprobs is None:
        return None
    if ids is not None and len(ids) == len(logprobs):
        pairs = zip(ids.tolist(), logprobs.tolist(), strict=True)
        return {"content": [_known(token, logprob) for token, logprob in pairs]}
    return {"content": [{"token": "", "logprob": value, "bytes": None, "top_logprobs": []} for value in logprobs]}


def _known(token: int, logprob: float) -> Raw | dict[str, Any]:
    if 0 <= token < VOCABULARY and logprob == LOGPROBS[token]:
        return _ENTRIES[token]
    return {"token": f"token_id:{token}", "logprob": logprob, "bytes": None, "top_logprobs": []}


def _list(ids: Int32s | None) -> list[int] | None:
    return None if ids is None else ids.tolist()


def _usage(reply: ModelReply) -> dict[str, Any]:
    usage = reply.usage
    cost = {} if reply.cost is None else {"cost": reply.cost}
    return {
        **cost,
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "completion_tokens": usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
