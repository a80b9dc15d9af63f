"""The dialect of the OpenAI Responses API, stateless: nothing is stored, and each call sends its whole conversation."""

import time
from typing import Any

from rollouthub.gateway.model_api.answer_blocks import AnswerBlock, Blocks
from rollouthub.gateway.model_api.argument_aliases import ArgumentAliases
from rollouthub.gateway.model_api.chat_request import ChatReader
from rollouthub.gateway.model_api.custom_input import custom_input
from rollouthub.gateway.model_api.dialect import AnswerRequest, CallProblem
from rollouthub.gateway.model_api.openai_error import openai_error
from rollouthub.gateway.model_api.responses_request import ResponsesShape, read_responses, sealed_thought
from rollouthub.gateway.model_api.sse import encode, event
from rollouthub.generation import ModelReply
from rollouthub.messages import Delta
from rollouthub.rollout import Usage

_CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}
# By these Codex and others tell what to try again.
_ERROR_CODES = {"context": "context_length_exceeded", "failed": "server_error", "busy": "rate_limit_exceeded"}


class Responses:
    """Reads requests of the Responses API and writes their answers."""

    def __init__(self) -> None:
        self._reader, self._aliases = ChatReader(), ArgumentAliases()

    def read(self, body: bytes, scope: bytes = b"") -> AnswerRequest:
        """Parse a request's body; `scope` identifies the conversation's owner.

        Raises:
            ValueError: the body is invalid; says what is wrong.
            CallRefused: litellm, which translates the request, is not available.
        """
        return read_responses(body, self._reader, self._aliases, scope)

    def whole(self, asked: AnswerRequest, reply: ModelReply, number: str) -> bytes:
        """The whole answer as one JSON body."""
        events = ResponsesEvents(asked, number, self._aliases.of(asked.scope))
        events.end(reply)
        return encode(events.response)

    def events(self, asked: AnswerRequest, number: str) -> "ResponsesEvents":
        """A writer for an answer that is streamed."""
        return ResponsesEvents(asked, number, self._aliases.of(asked.scope))

    def problem(self, problem: CallProblem) -> bytes:
        """The body of an error answer."""
        return encode(openai_error(problem))


class ResponsesEvents:
    """Streams one answer as items: each is opened, filled and closed before the next."""

    def __init__(self, asked: AnswerRequest, number: str, aliases: ArgumentAliases) -> None:
        self._shape: ResponsesShape = asked.own
        self._number, self._aliases = number, aliases
        self._blocks = Blocks(self)
        self._sequence = 0
        self._items: list[dict[str, Any]] = []
        self.response: dict[str, Any] = {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": asked.max_tokens,
            "metadata": {},
            "model": asked.model,
            "output": [],
            "parallel_tool_calls": asked.constraints.get("parallel_tool_calls", True),
            "previous_response_id": None,
            "reasoning": None,
            "store": False,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
            "usage": None,
            "user": None,
        }

    def begin(self) -> bytes:
        """The first events."""
        return self._event("created", response=self.response) + self._event("in_progress", response=self.response)

    def delta(self, delta: Delta) -> bytes:
        """The events for a piece of the answer."""
        return self._blocks.delta(delta)

    def end(self, reply: ModelReply) -> bytes:
        """The last events: unsent pieces, and the whole answer once more."""
        out = self._blocks.end(reply)
        if not self._items:
            empty = AnswerBlock("text", 0)
            out += self.open(empty) + self.close(empty)
        cut = _CUT.get(reply.finish_reason or "")
        status = "completed" if cut is None else "incomplete"
        self.response |= {
            "status": status,
            "incomplete_details": None if cut is None else {"reason": cut},
            "output": self._items,
            "usage": _usage(reply.usage),
        }
        return out + self._event(status, response=self.response)

    def fail(self, problem: CallProblem) -> bytes:
        """The event of a failed answer."""
        error = {"code": _ERROR_CODES.get(problem.kind, "invalid_prompt"), "message": problem.message}
        self.response |= {"status": "failed", "error": error, "output": self._items}
        return self._event("failed", response=self.response)

    def open(self, block: AnswerBlock) -> bytes:
        """The events that start an item."""
        item = self._item(block, "in_progress")
        if block.kind == "reasoning":
            item["summary"] = []
        elif block.kind == "text":
            item["content"] = []
        out = self._event("output_item.added", output_index=block.place, item=item)
        if block.kind == "reasoning":
            part = {"type": "summary_text", "text": ""}
            out += self._of(block, "reasoning_summary_part.added", summary_index=0, part=part)
        elif block.kind == "text":
            out += self._of(block, "content_part.added", content_index=0, part=_text(""))
        return out

    def more(self, block: AnswerBlock, piece: str) -> bytes:
        """The event for a piece of an item."""
        if block.kind == "reasoning":
            return self._of(block, "reasoning_summary_text.delta", summary_index=0, delta=piece)
        if block.kind == "text":
            return self._of(block, "output_text.delta", content_index=0, delta=piece, logprobs=[])
        if block.name in self._shape.custom:
            return b""  # in JSON yet, which has to be whole to be taken off
        return self._of(block, "function_call_arguments.delta", delta=piece)

    def close(self, block: AnswerBlock) -> bytes:
        """The events that end an item."""
        item = self._item(block, "completed")
        self._items.append(item)
        if block.kind == "reasoning":
            out = self._of(block, "reasoning_summary_text.done", summary_index=0, text=block.text)
            part = {"type": "summary_text", "text": block.text}
            out += self._of(block, "reasoning_summary_part.done", summary_index=0, part=part)
        elif block.kind == "text":
            out = self._of(block, "output_text.done", content_index=0, text=block.text, logprobs=[])
            out += self._of(block, "content_part.done", content_index=0, part=_text(block.text))
        elif item["type"] == "custom_tool_call":
            out = self._of(block, "custom_tool_call_input.delta", delta=item["input"])
            out += self._of(block, "custom_tool_call_input.done", input=item["input"])
        else:
            out = self._of(block, "function_call_arguments.done", name=item["name"], arguments=block.text)
        return out + self._event("output_item.done", output_index=block.place, item=item)

    def _item(self, block: AnswerBlock, status: str) -> dict[str, Any]:
        """The item with its content so far."""
        identity = self._id(block)
        if block.kind == "reasoning":
            item: dict[str, Any] = {"type": "reasoning", "id": identity}
            item["summary"] = [{"type": "summary_text", "text": block.text}]
            item["encrypted_content"] = sealed_thought(block.text) if self._shape.with_sealed else None
            return item
        if block.kind == "text":
            content = [_text(block.text)]
            return {"type": "message", "id": identity, "status": status, "role": "assistant", "content": content}
        space, name = self._shape.namespaces.get(block.name, (None, block.name))
        item = {"id": identity, "call_id": block.call_id, "name": name, "status": status}
        if space is not None:
            item["namespace"] = space
        if block.name in self._shape.custom:
            is_whole = status == "completed"
            said = custom_input(block.call_id, block.text, self._aliases) if is_whole else ""
            return {"type": "custom_tool_call", **item, "input": said}
        return {"type": "function_call", **item, "arguments": block.text}

    def _id(self, block: AnswerBlock) -> str:
        if block.kind == "tool":
            prefix = "ctc" if block.name in self._shape.custom else "fc"
        else:
            prefix = "rs" if block.kind == "reasoning" else "msg"
        return f"{prefix}_{self._number}_{block.place}"

    def _of(self, block: AnswerBlock, kind: str, **fields: Any) -> bytes:
        return self._event(kind, item_id=self._id(block), output_index=block.place, **fields)

    def _event(self, kind: str, **fields: Any) -> bytes:
        fields["sequence_number"] = self._sequence
        self._sequence += 1
        return event(f"response.{kind}", fields)


def _text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }
