"""Attributes of spans, by three conventions: OpenTelemetry's `gen_ai.*`, OpenInference's `llm.*`, and OpenLLMetry's."""

from collections.abc import Mapping
from typing import Any

from rollouthub.analysis.foreign_runs.foreign_messages import (
    as_count,
    as_list,
    as_number,
    as_object,
    as_text,
    tool_definitions,
)
from rollouthub.analysis.foreign_runs.json_pieces import decode
from rollouthub.analysis.foreign_runs.spans import SpanKind, TraceSpan, part_messages
from rollouthub.rollout import Usage

_CHAT = ("chat", "text_completion", "generate_content", "completion")
_MOST_PARTS = 64
"""Deepest name of an attribute, in parts; further dots stay in the last."""


def nested(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names as nested objects: `llm.input_messages.0.message.role` under `llm`. Numbers stay keys."""
    made: dict[str, Any] = {}
    for name, value in attributes.items():
        at, parts = made, name.split(".", _MOST_PARTS)
        for part in parts[:-1]:
            inner: Any = at.get(part)
            if not isinstance(inner, dict):
                inner = at[part] = {} if inner is None else {"": inner}
            at = as_object(inner)
        old: Any = at.get(parts[-1])
        if not isinstance(old, dict):
            at[parts[-1]] = value
        elif isinstance(value, dict):
            as_object(old).update(as_object(value))
        else:
            old[""] = value
    return made


def parsed(value: Any) -> Any:
    """A value that may be JSON in a text."""
    if isinstance(value, str) and value[:1] in "[{" and value:
        try:
            return decode(value.encode("utf-8", "surrogatepass"))
        except ValueError:
            return value
    return value


def rows(value: Any) -> list[Any]:
    """A list, given as one, as JSON, or as an object with numbers for keys."""
    value = parsed(value)
    if isinstance(value, dict):
        numbered = {int(key): each for key, each in as_object(value).items() if str(key).isdecimal() and len(key) < 8}
        return [numbered[key] for key in sorted(numbered)]
    return as_list(value)


def fill(span: TraceSpan, flat: Mapping[str, Any]) -> None:
    """Set what the attributes of a span say of a model call or a tool."""
    tree = nested(flat)
    gen, llm, tool = as_object(tree.get("gen_ai")), as_object(tree.get("llm")), as_object(tree.get("tool"))
    kind = as_text(as_object(tree.get("openinference")).get("span") and tree["openinference"]["span"].get("kind"))
    span.kind = _kind(gen, llm, kind)
    request, response, usage = (as_object(gen.get(name)) for name in ("request", "response", "usage"))
    span.agent = as_text(as_object(gen.get("agent")).get("name"))
    span.model = as_text(response.get("model")) or as_text(request.get("model")) or as_text(llm.get("model_name"))
    counts = as_object(llm.get("token_count"))
    details = as_object(counts.get("prompt_details"))
    span.usage = Usage(
        prompt_tokens=_first(usage.get("input_tokens"), usage.get("prompt_tokens"), counts.get("prompt")),
        output_tokens=_first(usage.get("output_tokens"), usage.get("completion_tokens"), counts.get("completion")),
        cached_tokens=_first(
            as_object(usage.get("cache_read")).get("input_tokens"),
            usage.get("cache_read_input_tokens"),
            details.get("cache_read"),
        ),
        reasoning_tokens=_first(as_object(counts.get("completion_details")).get("reasoning")),
    )
    span.cost = as_number(as_object(llm.get("cost")).get("total"))
    finish = rows(response.get("finish_reasons"))
    span.finish_reason = as_text(finish[0]) if finish else None
    span.asked = [*_instructions(gen), *_asked(gen, llm)]
    span.answered = _answered(gen, llm)
    if span.kind == "chat" and not span.asked:
        span.asked = _plain(tree, "input", "user")
    if span.kind == "chat" and not span.answered:
        span.answered = _plain(tree, "output", "assistant")
    span.tools = tool_definitions(
        parsed(as_object(gen.get("tool")).get("definitions")) or [_tool(each) for each in rows(llm.get("tools"))]
    )
    if span.kind == "tool":
        called = as_object(as_object(gen.get("tool")).get("call"))
        span.call_id = (
            as_text(called.get("id")) or as_text(as_object(tree.get("tool_call")).get("id")) or as_text(tool.get("id"))
        )
        span.arguments = called.get("arguments")
        result = called.get("result", as_object(tree.get("output")).get("value"))
        span.result = None if result is None else str(result)
    evaluation = as_object(gen.get("evaluation"))
    value = as_number(as_object(evaluation.get("score")).get("value"))
    if value is not None:
        span.scores = {**span.scores, as_text(evaluation.get("name")) or "score": value}


def _kind(gen: dict[str, Any], llm: dict[str, Any], kind: str | None) -> SpanKind:
    operation = as_object(gen.get("operation")).get("name")
    if operation in _CHAT or kind == "LLM" or "prompt" in gen or (not operation and not kind and "model_name" in llm):
        return "chat"
    return "tool" if operation == "execute_tool" or kind == "TOOL" else "other"


def _first(*values: Any) -> int:
    return next((as_count(value) for value in values if as_number(value) is not None), 0)


def _instructions(gen: dict[str, Any]) -> list[dict[str, Any]]:
    given = parsed(gen.get("system_instructions"))
    if isinstance(given, str) and given:
        return [{"role": "system", "content": given}]
    return [{"role": "system", "content": given}] if isinstance(given, list) and given else []


def _asked(gen: dict[str, Any], llm: dict[str, Any]) -> list[dict[str, Any]]:
    given = parsed(as_object(gen.get("input")).get("messages"))
    if isinstance(given, list):
        return part_messages(given)
    if "prompt" in gen:
        return [_numbered(each) for each in rows(gen["prompt"])]
    return [_inferred(each) for each in rows(llm.get("input_messages"))]


def _answered(gen: dict[str, Any], llm: dict[str, Any]) -> list[dict[str, Any]]:
    given = parsed(as_object(gen.get("output")).get("messages"))
    if isinstance(given, list):
        return part_messages(given)
    if "completion" in gen:
        return [_numbered(each) for each in rows(gen["completion"])]
    return [_inferred(each) for each in rows(llm.get("output_messages"))]


def _numbered(given: Any) -> dict[str, Any]:
    """A message of OpenLLMetry's: `gen_ai.prompt.0.content`, calls under `tool_calls.0`."""
    message = as_object(given)
    calls = [as_object(each) for each in rows(message.get("tool_calls"))]
    return {**message, "content": parsed(message.get("content")), "tool_calls": calls or None}


def _inferred(given: Any) -> dict[str, Any]:
    """A message of OpenInference's: `…0.message.content`, parts under `contents`, calls under `tool_calls`."""
    message = as_object(as_object(given).get("message")) or as_object(given)
    content: Any = message.get("content")
    if content is None and message.get("contents") is not None:
        content = []
        for each in rows(message["contents"]):
            part = as_object(as_object(each).get("message_content")) or as_object(each)
            image = as_object(as_object(as_object(part.get("image")).get("image")))
            url = as_text(image.get("url"))
            content.append({"type": "image_url", "image_url": {"url": url}} if url else part)
    calls: list[Any] = []
    for each in rows(message.get("tool_calls")):
        call = as_object(as_object(each).get("tool_call")) or as_object(each)
        calls.append({"id": call.get("id"), "function": as_object(call.get("function"))})
    return {
        "role": message.get("role"),
        "content": content,
        "tool_calls": calls or None,
        "tool_call_id": message.get("tool_call_id"),
    }


def _tool(given: Any) -> Any:
    tool = as_object(as_object(given).get("tool")) or as_object(given)
    return parsed(tool.get("json_schema")) or tool


def _plain(tree: dict[str, Any], place: str, role: str) -> list[dict[str, Any]]:
    """What a span has as its whole input or output, where it has no messages."""
    value = as_object(tree.get(place)).get("value")
    known = parsed(value)
    if isinstance(messages := as_object(known).get("messages"), list):
        return part_messages(messages)
    text = as_text(value)
    return [{"role": role, "content": text}] if text else []
