"""Streamed answers of the chat API: converts chunks to pieces for a listener, and assembles the whole answer.

As in `completion.py`, only the fields that the hub uses are decoded.
"""

from typing import Any

import msgspec
from msgspec import Struct

from rollouthub.messages import Delta, ToolPiece
from rollouthub.models.direct.answer_bounds import BadAnswer, check_calls, check_crowding, check_length
from rollouthub.models.direct.completion import (
    Answer,
    CalledTool,
    Choice,
    CompletionLogprob,
    Counted,
    Function,
    Logprobs,
    Said,
    Scalar,
    SglangIds,
    error_words,
    words_of,
)


class _CallPiece(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class _Piece(Struct, gc=False):
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_CallPiece] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None


class _ChunkChoice(Struct, gc=False):
    index: int = 0
    delta: _Piece | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None
    token_ids: list[int] | None = None


class Chunk(Struct, gc=False):
    """The data of one event, restricted to the fields that the hub uses."""

    choices: list[_ChunkChoice] | None = None
    usage: Counted | None = None
    prompt_token_ids: list[int] | None = None
    weight_version: int | str | None = None
    sglext: SglangIds | None = None
    id: Scalar = None
    error: Any = None
    object: str | None = None
    message: Any = None
    code: Any = None


_decoder = msgspec.json.Decoder(Chunk)


def parse_chunk(data: bytes) -> Chunk:
    """Decode an event's data.

    Raises:
        BadAnswer: the data is not JSON, not a chunk of the API, or has more values than the hub reads.
    """
    try:
        check_crowding(data)
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadAnswer(f"the stream has an event that is no chunk of a chat completion ({error})") from None


class _PartialToolCall:
    """A tool request while its pieces arrive."""

    __slots__ = ("arguments", "id", "is_out", "name")

    def __init__(self, id: str) -> None:
        self.id = id
        self.name = ""
        self.arguments: list[str] = []
        self.is_out = False


class Assembly:
    """Assembles a streamed answer. The pieces returned by `add` and `rest`, joined, equal the whole answer."""

    def __init__(self, turn: int) -> None:
        """`turn` is used in ids of tool calls for which the server sends none."""
        self.has_lost_ids = False
        """Whether the server left out some of the answer's token ids, so that all were dropped."""
        self._turn = turn
        self._is_begun = False
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_PartialToolCall] = []
        self._places: dict[int, int] = {}
        self._finish_reason: str | None = None
        self._ids: list[int] | None = None
        self._logprobs: list[CompletionLogprob] | None = None
        self._prompt_ids: list[int] | None = None
        self._usage: Counted | None = None
        self._weight_version: int | str | None = None
        self._id: Scalar = None

    def add(self, chunk: Chunk) -> Delta | None:
        """Add a chunk; returns the piece to show, or None.

        Raises:
            BadAnswer: the server aborted the answer, or it has too many tool calls.
        """
        if chunk.error is not None or chunk.object == "error":
            sent_error = chunk.error if chunk.error is not None else {"message": chunk.message, "code": chunk.code}
            raise BadAnswer(f"the server broke off the answer: {error_words(sent_error)}", sent_error)
        if chunk.id is not None:
            self._id = chunk.id
        if chunk.usage is not None:
            self._usage = chunk.usage
        if chunk.prompt_token_ids is not None:
            self._prompt_ids = chunk.prompt_token_ids
        if chunk.weight_version is not None:
            self._weight_version = chunk.weight_version
        if chunk.sglext is not None:
            self._prompt_ids = chunk.sglext.input_ids or self._prompt_ids
            self._ids = chunk.sglext.output_ids[0] if chunk.sglext.output_ids else self._ids
        for choice in chunk.choices or ():
            if choice.index == 0:
                return self._add_choice(choice)
        return None

    def _add_choice(self, choice: _ChunkChoice) -> Delta | None:
        self._is_begun = True
        if choice.token_ids is not None:
            self._ids = self._ids or []
            self._ids += choice.token_ids
            check_length(len(self._ids))
        if choice.logprobs is not None and choice.logprobs.content is not None:
            self._logprobs = self._logprobs or []
            self._logprobs += choice.logprobs.content
            check_length(len(self._logprobs))
        if choice.finish_reason is not None:
            self._finish_reason = choice.finish_reason
            if choice.finish_reason in ("abort", "error"):
                raise BadAnswer("the server broke off the answer")
        piece = choice.delta
        if piece is None:
            return None
        text = piece.content
        if not isinstance(text, str):
            text = words_of(text) if text else ""
        if text:
            self._text.append(text)
        elif piece.refusal:
            # Shown only as long as it may turn out to be all there is; see `as_reply`.
            self._refusal.append(piece.refusal)
            text = "" if self._text else piece.refusal
        reasoning = (piece.reasoning if piece.reasoning is not None else piece.reasoning_content) or ""
        if reasoning:
            self._reasoning.append(reasoning)
        tools = self._add_calls(piece.tool_calls) if piece.tool_calls else ()
        return Delta(text, reasoning, tools) if text or reasoning or tools else None

    def _add_calls(self, pieces: list[_CallPiece]) -> tuple[ToolPiece, ...]:
        shown: list[ToolPiece] = []
        for piece in pieces:
            place = self._place(piece)
            call = self._calls[place]
            function = piece.function or Function()
            arguments = function.arguments or ""
            if not isinstance(arguments, str):
                arguments = msgspec.json.encode(arguments).decode()
            if arguments:
                call.arguments.append(arguments)
            if call.is_out:
                if arguments:
                    shown.append(ToolPiece(place, arguments))
            elif function.name:
                call.name = function.name
                shown.append(self._first_piece(place))
        return tuple(shown)

    def _place(self, piece: _CallPiece) -> int:
        """Index of the tool call that a piece belongs to. Some servers send no index, and each call in one piece."""
        calls = self._calls
        if piece.index is None:
            is_new = not calls or piece.id is not None or (piece.function is not None and piece.function.name)
            place = len(calls) if is_new else len(calls) - 1
        else:
            place = self._places.setdefault(piece.index, len(calls))
        if place == len(calls):
            check_calls(place + 1)
            calls.append(_PartialToolCall(piece.id or f"call-{self._turn}-{place}"))
        return place

    def _first_piece(self, place: int) -> ToolPiece:
        """The first piece of a tool call: id, name, and the arguments that arrived before the name."""
        call = self._calls[place]
        call.is_out = True
        return ToolPiece(place, "".join(call.arguments), call.id, call.name)

    def rest(self) -> Delta | None:
        """Pieces of tool calls that were held back because their name never arrived."""
        held = tuple(self._first_piece(place) for place, call in enumerate(self._calls) if not call.is_out)
        return Delta(tools=held) if held else None

    def answer(self) -> Answer:
        """The whole answer, as if it had been sent in one body.

        Raises:
            BadAnswer: no part of an answer arrived.
        """
        if not self._is_begun:
            raise BadAnswer("the answer has no choices")
        ids, logprobs, usage = self._ids, self._logprobs, self._usage
        if ids is not None and usage is not None and usage.completion_tokens not in (None, len(ids)):
            # Older servers send no chunk for a token without words, such as the marks around a tool call.
            self.has_lost_ids = True
            ids = logprobs = None
        said = Said(
            content="".join(self._text) or None,
            tool_calls=[CalledTool(Function(call.name, "".join(call.arguments)), call.id) for call in self._calls],
            reasoning="".join(self._reasoning) or None,
            refusal="".join(self._refusal) or None,
        )
        choice = Choice(
            said, self._finish_reason, None if logprobs is None else Logprobs(content=logprobs), token_ids=ids
        )
        return Answer(
            [choice],
            usage=usage,
            prompt_token_ids=self._prompt_ids,
            weight_version=self._weight_version,
            id=self._id,
        )
