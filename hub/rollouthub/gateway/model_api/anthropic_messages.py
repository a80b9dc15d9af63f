"""The Anthropic Messages dialect."""

from typing import Any, cast

import msgspec

from rollouthub.gateway.model_api.answer_blocks import AnswerBlock, Blocks
from rollouthub.gateway.model_api.argument_aliases import Spellings
from rollouthub.gateway.model_api.chat_dialect import finish_reason
from rollouthub.gateway.model_api.chat_request import ChatReader
from rollouthub.gateway.model_api.dialect import AnswerRequest, CallProblem
from rollouthub.gateway.model_api.messages_request import UNREADABLE, estimated_tokens, read_messages
from rollouthub.gateway.model_api.sse import encode, event
from rollouthub.messages import Delta
from rollouthub.protocols import ModelReply
from rollouthub.rollout import Usage

_STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_SIGNATURE = "rollouthub"
"""On thinking. Agents send back only what is signed, and nobody but Anthropic can check it."""
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
        self._reader, self._spellings = ChatReader(), Spellings()

    def read(self, body: bytes, scope: bytes = b"") -> AnswerRequest:
        """A request's body, in our words, by whose it is.

        Raises:
            ValueError: says what is wrong with it.
            Refused: litellm, which translates it, is not there.
        """
        return read_messages(body, self._reader, self._spellings, scope)

    def whole(self, asked: AnswerRequest, reply: ModelReply, number: str) -> bytes:
        """The whole answer as one JSON body."""
        events = MessagesEvents(asked, number, self._spellings.of(asked.scope))
        events.end(reply)
        return encode(events.message)

    def events(self, asked: AnswerRequest, number: str) -> "MessagesEvents":
        """A writer for an answer that is streamed."""
        return MessagesEvents(asked, number, self._spellings.of(asked.scope))

    def problem(self, problem: CallProblem) -> bytes:
        """The body of an answer that is none."""
        return encode({"type": "error", **_error(problem)})


def count_tokens(body: bytes) -> bytes:
    """The answer to `messages/count_tokens`: an estimate, as no model is asked.

    Raises:
        ValueError: the body is no request.
    """
    return encode({"input_tokens": estimated_tokens(body)})


class MessagesEvents:
    """Writes one answer as its content blocks come: each is opened, filled and closed before the next."""

    def __init__(self, asked: AnswerRequest, number: str, spellings: Spellings) -> None:
        self._spellings = spellings
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
        """The answer's head. What the prompt took is known at the end."""
        return event("message_start", {"message": self.message})

    def delta(self, delta: Delta) -> bytes:
        """A piece of the answer."""
        return self._blocks.delta(delta)

    def end(self, reply: ModelReply) -> bytes:
        """What was not sent yet, and why and at what cost it ends."""
        out = self._blocks.end(reply)
        stop, usage = _STOPS[finish_reason(reply)], _usage(reply.usage)
        self.message |= {"stop_reason": stop, "usage": usage}
        out += event("message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage})
        return out + event("message_stop", {})

    def fail(self, problem: CallProblem) -> bytes:
        """The error; official clients raise it."""
        return event("error", _error(problem))

    def open(self, block: AnswerBlock) -> bytes:
        """Begin a content block."""
        if block.kind == "reasoning":
            begun: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
        elif block.kind == "text":
            begun = {"type": "text", "text": ""}
        else:
            begun = {"type": "tool_use", "id": block.call_id, "name": block.name, "input": {}}
        return event("content_block_start", {"index": block.place, "content_block": begun})

    def more(self, block: AnswerBlock, piece: str) -> bytes:
        """A piece of a content block."""
        if block.kind == "reasoning":
            return _delta(block, {"type": "thinking_delta", "thinking": piece})
        if block.kind == "text":
            return _delta(block, {"type": "text_delta", "text": piece})
        # Clients take arguments for JSON, which a model's may turn out not to be: they wait until they are whole.
        return event("ping", {})

    def close(self, block: AnswerBlock) -> bytes:
        """End a content block."""
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
        """A call's arguments, parsed and as JSON; how they were written is kept, for when the call comes back."""
        try:
            given: Any = msgspec.json.decode(block.text) if block.text.strip() else {}
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            wrapped = {UNREADABLE: block.text}
            return wrapped, encode(wrapped).decode()
        self._spellings.keep(block.call_id, cast(object, given), block.text)
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
