"""The dialect of the Anthropic Messages API."""

from typing import Any, cast

import msgspec

from rollouthub.gateway.model_api.answer_blocks import AnswerBlock, Blocks
from rollouthub.gateway.model_api.argument_aliases import ArgumentAliases
from rollouthub.gateway.model_api.chat_dialect import finish_reason
from rollouthub.gateway.model_api.chat_request import ChatReader
from rollouthub.gateway.model_api.dialect import AnswerRequest, CallProblem
from rollouthub.gateway.model_api.messages_request import estimated_tokens, read_messages
from rollouthub.gateway.model_api.sse import encode, event
from rollouthub.generation import ModelReply
from rollouthub.messages import Delta
from rollouthub.models.dialects import UNREADABLE
from rollouthub.rollout import Usage

_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_SIGNATURE = "rollouthub"
"""The signature on reasoning blocks. Agents send back only signed reasoning, and only Anthropic could verify a
signature.
"""
_ERROR_TYPES = {
    "invalid": "invalid_request_error",
    "unauthorized": "authentication_error",
    "closed": "permission_error",
    "limit": "permission_error",
    "context": "invalid_request_error",
    "too_large": "request_too_large",
    "busy": "rate_limit_error",
    "failed": "api_error",
}


class AnthropicMessages:
    """Reads requests of the Messages API and writes their answers."""

    def __init__(self) -> None:
        self._reader, self._aliases = ChatReader(), ArgumentAliases()

    def read(self, body: bytes, scope: bytes = b"") -> AnswerRequest:
        """Parse a request's body; `scope` identifies the conversation's owner.

        Raises:
            ValueError: the body is invalid; says what is wrong.
            CallRefused: litellm, which translates the request, is not available.
        """
        return read_messages(body, self._reader, self._aliases, scope)

    def whole(self, asked: AnswerRequest, reply: ModelReply, number: str) -> bytes:
        """The whole answer as one JSON body."""
        events = MessagesEvents(asked, number, self._aliases.of(asked.scope))
        events.end(reply)
        return encode(events.message)

    def events(self, asked: AnswerRequest, number: str) -> "MessagesEvents":
        """A writer for an answer that is streamed."""
        return MessagesEvents(asked, number, self._aliases.of(asked.scope))

    def problem(self, problem: CallProblem) -> bytes:
        """The body of an error answer."""
        return encode({"type": "error", **_error(problem)})


def count_tokens(body: bytes) -> bytes:
    """The answer to `messages/count_tokens`: an estimate, without a model call.

    Raises:
        ValueError: the body is not a valid request.
    """
    return encode({"input_tokens": estimated_tokens(body)})


class MessagesEvents:
    """Streams one answer as content blocks: each is opened, filled and closed before the next."""

    def __init__(self, asked: AnswerRequest, number: str, aliases: ArgumentAliases) -> None:
        self._aliases = aliases
        self._blocks = Blocks(self)
        self._content: list[dict[str, Any]] = []
        self.message: dict[str, Any] = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "content": self._content,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(Usage()),
        }

    def begin(self) -> bytes:
        """The first event. Its token counts are 0; the actual ones are sent at the end."""
        return event("message_start", {"message": self.message})

    def delta(self, delta: Delta) -> bytes:
        """The events for a piece of the answer."""
        return self._blocks.delta(delta)

    def end(self, reply: ModelReply) -> bytes:
        """The last events: unsent pieces, the stop reason and the usage."""
        out = self._blocks.end(reply)
        stop, usage = _STOPS[finish_reason(reply)], _usage(reply.usage)
        self.message |= {"stop_reason": stop, "usage": usage}
        out += event("message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage})
        return out + event("message_stop", {})

    def fail(self, problem: CallProblem) -> bytes:
        """The error event, which official clients raise."""
        return event("error", _error(problem))

    def open(self, block: AnswerBlock) -> bytes:
        """The event that starts a content block."""
        if block.kind == "reasoning":
            begun: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
        elif block.kind == "text":
            begun = {"type": "text", "text": ""}
        else:
            begun = {"type": "tool_use", "id": block.call_id, "name": block.name, "input": {}}
        return event("content_block_start", {"index": block.place, "content_block": begun})

    def more(self, block: AnswerBlock, piece: str) -> bytes:
        """The event for a piece of a content block."""
        if block.kind == "reasoning":
            return _delta(block, {"type": "thinking_delta", "thinking": piece})
        if block.kind == "text":
            return _delta(block, {"type": "text_delta", "text": piece})
        # Clients take arguments for JSON, which a model's may turn out not to be: they wait until they are whole.
        return event("ping", {})

    def close(self, block: AnswerBlock) -> bytes:
        """The events that end a content block."""
        out = b""
        if block.kind == "reasoning":
            self._content.append({"type": "thinking", "thinking": block.text, "signature": _SIGNATURE})
            out = _delta(block, {"type": "signature_delta", "signature": _SIGNATURE})
        elif block.kind == "text":
            self._content.append({"type": "text", "text": block.text})
        else:
            given, text = self._arguments(block)
            call = {"type": "tool_use", "id": block.call_id, "name": block.name, "input": given}
            self._content.append(call)
            out = _delta(block, {"type": "input_json_delta", "partial_json": text})
        return out + event("content_block_stop", {"index": block.place})

    def _arguments(self, block: AnswerBlock) -> tuple[dict[str, Any], str]:
        """A call's arguments, parsed and as JSON. The original text is remembered for when the agent sends the call
        back.
        """
        try:
            given: Any = msgspec.json.decode(block.text) if block.text.strip() else {}
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            wrapped = {UNREADABLE: block.text}
            return wrapped, encode(wrapped).decode()
        self._aliases.keep(block.call_id, cast(object, given), block.text)
        return cast(dict[str, Any], given), block.text


def _delta(block: AnswerBlock, delta: dict[str, str]) -> bytes:
    return event("content_block_delta", {"index": block.place, "delta": delta})


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": max(0, usage.prompt_tokens - usage.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }


def _error(problem: CallProblem) -> dict[str, Any]:
    kind = "not_found_error" if problem.status == 404 else _ERROR_TYPES[problem.kind]
    # By these words Claude Code knows that it has to shorten the conversation.
    words = f"prompt is too long: {problem.message}" if problem.kind == "context" else problem.message
    return {"error": {"type": kind, "message": words}}
