"""The dialect of OpenAI chat completions. Token ids and log-probabilities are recorded, and not sent to the agent."""

import time
from io import StringIO
from typing import Any

import msgspec

from rollouthub.gateway.model_api.chat_request import ChatReader
from rollouthub.gateway.model_api.dialect import AnswerRequest, CallProblem
from rollouthub.gateway.model_api.openai_error import openai_error
from rollouthub.gateway.model_api.stream_progress import SentTool, complete_tools, unsent
from rollouthub.generation import ModelReply
from rollouthub.messages import Delta, ToolRequest
from rollouthub.rollout import Usage

_encode = msgspec.json.Encoder().encode
_FINISHES = frozenset({"stop", "length", "tool_calls", "content_filter"})


class Chat:
    """Reads chat-completions requests and writes their answers."""

    def __init__(self) -> None:
        self._reader = ChatReader()

    def read(self, body: bytes, scope: bytes = b"") -> AnswerRequest:
        """Parse a request's body; `scope` identifies the conversation's owner.

        Raises:
            ValueError: the body is invalid; says what is wrong.
        """
        return self._reader.read(body, scope=scope)

    def whole(self, asked: AnswerRequest, reply: ModelReply, number: str) -> bytes:
        """The whole answer as one JSON body."""
        message = reply.message
        requests = message.tool_requests
        said: dict[str, Any] = {
            "role": "assistant",
            "content": message.text or (None if requests else ""),
            "refusal": None,
        }
        if requests:
            said["tool_calls"] = [_call(request) for request in requests]
        if message.reasoning is not None:
            said |= _reasoning(message.reasoning)
        choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": finish_reason(reply)}
        return _encode(
            {
                "id": f"chatcmpl-{number}",
                "object": "chat.completion",
                "created": int(time.time()),
                "model": asked.model,
                "choices": [choice],
                "usage": _usage(reply.usage),
            }
        )

    def events(self, asked: AnswerRequest, number: str) -> "ChatEvents":
        """A writer for an answer that is streamed."""
        return ChatEvents(asked, number)

    def problem(self, problem: CallProblem) -> bytes:
        """The body of an error answer."""
        return _encode(openai_error(problem))


class ChatEvents:
    """Streams one answer as chunks: the role, the pieces, the finish reason, and the usage if requested."""

    def __init__(self, asked: AnswerRequest, number: str) -> None:
        self._with_usage = asked.own is True
        head: dict[str, Any] = {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": asked.model,
        }
        if self._with_usage:
            head["usage"] = None
        # Every chunk begins with the same words.
        self._head = b"data: " + _encode(head)[:-1] + b',"choices":[{"index":0,"delta":'
        self._usage_head = b"data: " + _encode({name: value for name, value in head.items() if name != "usage"})[:-1]
        self._text, self._thought = StringIO(), StringIO()
        self._tools: dict[int, SentTool] = {}

    def begin(self) -> bytes:
        """The chunk with the role."""
        return self._chunk({"role": "assistant", "content": "", "refusal": None})

    def delta(self, delta: Delta) -> bytes:
        """The chunks for a piece of the answer."""
        out = b""
        if delta.reasoning:
            self._thought.write(delta.reasoning)
            out += self._chunk(_reasoning(delta.reasoning))
        if delta.text:
            self._text.write(delta.text)
            out += self._chunk({"content": delta.text})
        for piece in delta.tools:
            tool = self._tools.get(piece.index)
            if tool is None:
                tool = self._tools[piece.index] = SentTool(piece.index)
            tool.take(piece)
            out += self._pieces(tool)
        return out

    def end(self, reply: ModelReply) -> bytes:
        """The last chunks: unsent pieces, the finish reason and, if requested, the usage."""
        text, thought = unsent(reply, self._text.getvalue(), self._thought.getvalue())
        out = self.delta(Delta(text=text, reasoning=thought))
        complete_tools(self._tools, reply)
        for _, tool in sorted(self._tools.items()):
            out += self._pieces(tool)
        out += self._chunk({}, finish_reason(reply))
        if self._with_usage:
            out += self._usage_head + b',"choices":[],"usage":' + _encode(_usage(reply.usage)) + b"}\n\n"
        return out + b"data: [DONE]\n\n"

    def fail(self, problem: CallProblem) -> bytes:
        """The error event, which official clients raise."""
        return b"data: " + _encode(openai_error(problem)) + b"\n\n"

    def _pieces(self, tool: SentTool) -> bytes:
        """The chunks for those parts of a tool request that can be sent now."""
        if tool.is_open:
            arguments = tool.let_go()
            piece: dict[str, Any] = {"index": tool.index, "function": {"arguments": arguments}}
            return self._chunk({"tool_calls": [piece]}) if arguments else b""
        if not (tool.id and tool.name):
            return b""
        tool.is_open = True
        function = {"name": tool.name, "arguments": tool.let_go()}
        piece = {"index": tool.index, "id": tool.id, "type": "function", "function": function}
        return self._chunk({"tool_calls": [piece]})

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        end = b',"logprobs":null,"finish_reason":' + (b"null" if finish is None else b'"%s"' % finish.encode())
        return self._head + _encode(delta) + end + b"}]}\n\n"


def finish_reason(reply: ModelReply) -> str:
    """The finish reason, as one of the values of the chat API."""
    given = reply.finish_reason
    if reply.message.tool_requests:
        # Some servers say `stop` beside tool calls, and agents then take the answer for the last.
        return "length" if given == "length" else "tool_calls"
    if given == "tool_calls":
        return "stop"
    return given if given in _FINISHES else "stop"


def _call(request: ToolRequest) -> dict[str, Any]:
    function = {"name": request.name, "arguments": request.arguments}
    return {"id": request.id, "type": "function", "function": function}


def _reasoning(text: str) -> dict[str, str]:
    """The reasoning under two field names: vLLM's and DeepSeek's."""
    return {"reasoning": text, "reasoning_content": text}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
