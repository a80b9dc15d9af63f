"""Orders a streamed answer into consecutive blocks, called items in the Responses API and content blocks in the
Messages API.

In chat completions, pieces of several tool requests may interleave; clients of the other two APIs expect one block to
end before the next begins. Pieces of later requests are held back until the arguments of the earlier one are complete.
"""

from dataclasses import dataclass, field
from io import StringIO
from typing import Literal, Protocol

from rollouthub.gateway.model_api.stream_progress import SentTool, complete_tools, unsent
from rollouthub.generation import ModelReply
from rollouthub.messages import Delta


@dataclass(slots=True)
class AnswerBlock:
    """One block of an answer: reasoning, text, or a tool request."""

    kind: Literal["reasoning", "text", "tool"]
    place: int
    """The block's index in the answer."""
    call_id: str = ""
    name: str = ""
    _written: StringIO = field(default_factory=StringIO)

    @property
    def text(self) -> str:
        """The block's text so far; of a tool request, its arguments."""
        return self._written.getvalue()

    def add(self, piece: str) -> None:
        """Append a piece to the block."""
        self._written.write(piece)


class BlockWriter(Protocol):
    """Writes a dialect's events for blocks; each method returns the bytes to send."""

    def open(self, block: AnswerBlock) -> bytes: ...
    def more(self, block: AnswerBlock, piece: str) -> bytes: ...
    def close(self, block: AnswerBlock) -> bytes: ...


class Blocks:
    """Orders the pieces of one answer into blocks."""

    def __init__(self, writer: BlockWriter) -> None:
        self._writer = writer
        self.closed: list[AnswerBlock] = []
        self._open: AnswerBlock | None = None
        self._tool: SentTool | None = None
        """The tool request whose block is open."""
        self._tools: dict[int, SentTool] = {}
        self._text, self._thought = StringIO(), StringIO()
        self._waits = False

    def delta(self, delta: Delta) -> bytes:
        """Add a piece of the answer; returns the bytes to send."""
        out = b""
        if delta.reasoning or delta.text:
            # Words amid a tool request wait for the end, as all after them.
            self._waits = self._waits or (self._tool is not None and not self._tool.is_whole)
            if not self._waits:
                out = self._words(delta.text, delta.reasoning)
        for piece in delta.tools:
            tool = self._tools.get(piece.index)
            if tool is None:
                tool = self._tools[piece.index] = SentTool(piece.index)
            tool.take(piece)
        return out + self._pump() if delta.tools else out

    def end(self, reply: ModelReply) -> bytes:
        """Write the rest of the answer, and close its last block."""
        text, thought = unsent(reply, self._text.getvalue(), self._thought.getvalue())
        complete_tools(self._tools, reply)
        if self._waits:
            return self._pump(is_all=True) + self._words(text, thought) + self._close()
        return self._words(text, thought) + self._pump(is_all=True) + self._close()

    def _words(self, text: str, thought: str) -> bytes:
        out = b""
        if thought:
            self._thought.write(thought)
            out += self._say("reasoning", thought)
        if text:
            self._text.write(text)
            out += self._say("text", text)
        return out

    def _say(self, kind: Literal["reasoning", "text"], piece: str) -> bytes:
        out = b""
        block = self._open
        if block is None or block.kind != kind:
            out = self._close()
            block, opened = self._begin(AnswerBlock(kind, len(self.closed)))
            out += opened
        return out + self._more(block, piece)

    def _pump(self, *, is_all: bool = False) -> bytes:
        """Write the tool requests that can be written now; with `is_all`, no more pieces will arrive."""
        out = b""
        while True:
            tool, block = self._tool, self._open
            waiting = [other for _, other in sorted(self._tools.items()) if not other.is_open]
            if tool is not None and block is not None:
                if held := tool.let_go():
                    out += self._more(block, held)
                if not waiting or not (is_all or tool.is_whole):
                    return out
            first = next((other for other in waiting if other.id and other.name), None)
            if first is None:
                return out
            out += self._close()
            first.is_open = True
            block = AnswerBlock("tool", len(self.closed), call_id=first.id or "", name=first.name or "")
            _, opened = self._begin(block)
            out += opened
            self._tool = first

    def _begin(self, block: AnswerBlock) -> tuple[AnswerBlock, bytes]:
        self._open = block
        return block, self._writer.open(block)

    def _more(self, block: AnswerBlock, piece: str) -> bytes:
        block.add(piece)
        return self._writer.more(block, piece)

    def _close(self) -> bytes:
        block, self._open = self._open, None
        out = b""
        if self._tool is not None and block is not None and (held := self._tool.let_go()):
            out += self._more(block, held)
        self._tool = None
        if block is None:
            return out
        self.closed.append(block)
        return out + self._writer.close(block)
