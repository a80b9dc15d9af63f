"""A model's reply as the mock server writes it: one JSON body, or a stream of events, in vLLM's shape."""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Raw

from envhub.messages import ToolRequest
from envhub.models.mock_tokens import LOGPROBS, VOCABULARY, token_text
from envhub.packed import Float32s, Int32s
from envhub.protocols import ModelReply

_encode = msgspec.json.Encoder().encode
_CHUNK = 16
"""Tokens of a stream's event."""


def _entry(token: int, logprob: float) -> dict[str, Any]:
    raw = [token] if token < 256 else list(token_text(token).encode())
    return {"token": token_text(token), "logprob": logprob, "bytes": raw, "top_logprobs": []}


# Encoded once: an answer has one for each of its tokens.
_ENTRIES = tuple(Raw(_encode(_entry(token, LOGPROBS[token]))) for token in range(VOCABULARY))


def completion(reply: ModelReply, number: int, created: int, model: str, with_ids: bool, with_logprobs: bool) -> bytes:
    """The whole answer."""
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


def stream_events(
    reply: ModelReply, number: int, created: int, model: str, with_ids: bool, with_logprobs: bool, with_usage: bool
) -> Iterator[bytes]:
    """The answer as server-sent events: the role, the words in pieces, the tool calls, the end."""
    head = {"id": f"chatcmpl-{number:016x}", "object": "chat.completion.chunk", "created": created, "model": model}

    def event(delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason, **more}
        return b"data: " + _encode({**head, "choices": [choice]}) + b"\n\n"

    first: dict[str, Any] = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
    prompt = {"prompt_token_ids": _list(reply.prompt_token_ids)} if with_ids else {}
    yield b"data: " + _encode({**head, "choices": [first], **prompt}) + b"\n\n"
    pieces = list(_pieces(reply, with_ids, with_logprobs))
    for delta, more in pieces[:-1]:
        yield event(delta, None, **more)
    delta, more = pieces[-1]
    yield event(delta, reply.finish_reason, **more)
    if with_usage:
        yield b"data: " + _encode({**head, "choices": [], "usage": _usage(reply)}) + b"\n\n"
    yield b"data: [DONE]\n\n"


def _pieces(reply: ModelReply, with_ids: bool, with_logprobs: bool) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Deltas with the tokens that came beside them; words and tokens are cut apart independently, as parsers do."""
    deltas: list[dict[str, Any]] = []
    text = reply.message.text
    deltas += [{"content": text[start : start + _CHUNK]} for start in range(0, len(text), _CHUNK)]
    deltas += [
        {"tool_calls": [{"index": place, **_call(request)}]}
        for place, request in enumerate(reply.message.tool_requests)
    ]
    deltas.append({})
    ids, logprobs = reply.output_token_ids, reply.output_logprobs
    for place, delta in enumerate(deltas):
        start = place * _CHUNK
        cut = slice(start, start + _CHUNK if place < len(deltas) - 1 else None)
        more: dict[str, Any] = {}
        if with_ids and ids is not None:
            more["token_ids"] = ids[cut].tolist()
        if with_logprobs and logprobs is not None:
            more["logprobs"] = _logprobs(None if ids is None else ids[cut], logprobs[cut])
        yield delta, more


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
