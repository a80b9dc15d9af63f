"""Answers of the chat route of SGLang 0.5.23: whole and streamed (`sglang/srt/entrypoints/openai/serving_chat.py`)."""

import json
from typing import Any

from aiohttp import web

from rollouthub.models.tokens.tool_text import hermes
from tests.models.tokens.chatml import ChatMl


def refusal(message: str, status: int = 400) -> web.Response:
    """An error, as `create_error_response` writes it."""
    body = {"object": "error", "message": message, "type": "BadRequest", "param": None, "code": status}
    return web.json_response(body, status=status)


def malformed_call(body: dict[str, Any]) -> str | None:
    """What is wrong with the arguments of a call in the history, as `parse_tool_call_arguments` says it."""
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            try:
                if not isinstance(json.loads(call["function"]["arguments"]), dict):
                    return "Assistant tool call function.arguments must be a JSON object."
            except ValueError:
                return "Assistant tool call function.arguments must be valid JSON."
    return None


def spelled(
    tokenizer: ChatMl,
    ids: list[int],
    body: dict[str, Any],
    reasoning_parser: str | None,
    tool_call_parser: str | None,
    number: int,
) -> dict[str, Any]:
    """The message in an answer's ids, parsed by the server's parsers."""
    text, thought = tokenizer.decode(ids, skip_special_tokens=True), None
    if reasoning_parser and text.startswith("<think>") and "</think>" in text:
        thought, _, text = text.removeprefix("<think>").partition("</think>")
    calls: list[dict[str, Any]] | None = None
    if body.get("tools") and tool_call_parser:
        spoken = hermes(text, ())
        text = spoken.words
        calls = [
            {
                "id": f"call_{number}{place}",
                "index": place,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for place, call in enumerate(spoken.requests)
        ] or None
    message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning_content": thought}
    return message if calls is None else {**message, "tool_calls": calls}


def _logprobs(meta: dict[str, Any]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [
        {"token": str(token), "bytes": [], "logprob": logprob, "top_logprobs": []}
        for logprob, token, _ in meta["output_token_logprobs"]
    ]
    return {"content": content}


def _sglext(body: dict[str, Any], prompt: list[int], ids: list[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if body.get("return_input_ids_in_sglext"):
        found["input_ids"] = prompt
    if body.get("return_output_ids_in_sglext"):
        found["output_ids"] = [ids]
    return {"sglext": found} if found else {}


def _reason(meta: dict[str, Any], spoken: dict[str, Any]) -> str:
    kind = meta["finish_reason"]["type"]
    return "tool_calls" if kind == "stop" and spoken.get("tool_calls") else kind


def chat_answer(
    body: dict[str, Any], prompt: list[int], ids: list[int], meta: dict[str, Any], spoken: dict[str, Any]
) -> dict[str, Any]:
    """A whole answer."""
    choice: dict[str, Any] = {
        "index": 0,
        "message": spoken,
        "finish_reason": _reason(meta, spoken),
        "matched_stop": meta["finish_reason"].get("matched"),
        "logprobs": _logprobs(meta) if body.get("logprobs") else None,
    }
    if body.get("return_token_ids"):
        choice |= {"prompt_token_ids": prompt, "response_token_ids": ids}
    metadata = {name: meta[name] for name in ("weight_version", "weight_versions") if name in meta}
    usage = {"prompt_tokens": len(prompt), "completion_tokens": len(ids), "total_tokens": len(prompt) + len(ids)}
    answer: dict[str, Any] = {
        "id": meta["id"] or "x",
        "object": "chat.completion",
        "choices": [choice],
        "metadata": metadata,
    }
    return {**answer, "usage": usage, **_sglext(body, prompt, ids)}


async def chat_events(
    request: web.Request,
    body: dict[str, Any],
    prompt: list[int],
    ids: list[int],
    meta: dict[str, Any],
    spoken: dict[str, Any],
) -> web.StreamResponse:
    """A streamed answer: text, then calls, then SGLang's own chunk with the ids, the counts, and the end."""
    text: str = spoken["content"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if spoken["reasoning_content"]:
        deltas.append({"reasoning_content": spoken["reasoning_content"]})
    deltas += [{"content": text[begin : begin + 7]} for begin in range(0, len(text), 7)]
    deltas += [{"tool_calls": [call]} for call in spoken.get("tool_calls", ())]
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks[-1]["choices"][0]["logprobs"] = _logprobs(meta)
    last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": _reason(meta, spoken)}
    chunks.append({"choices": [last]})
    if ext := _sglext(body, prompt, ids):
        chunks.append({"choices": [], **ext})
    chunks.append({"choices": [], "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for chunk in chunks:
        event = json.dumps({"id": "x", "object": "chat.completion.chunk", **chunk})
        await response.write(f"data: {event}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response
