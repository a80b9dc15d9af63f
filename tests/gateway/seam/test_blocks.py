"""Pieces of an answer, in whatever order they come, as blocks one after the other."""

from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.gateway.seam.blocks import Block, Blocks
from envhub.messages import Message, ToolRequest, assistant
from envhub.protocols import ModelReply
from envhub.streaming import Delta, ToolPiece
from tests.strategies import names, words


class Log:
    """A writer that notes what it is told, and that no block begins before the last has ended."""

    def __init__(self) -> None:
        self.current: Block | None = None
        self.done: list[tuple[str, str, str]] = []
        self.pieces = ""

    def open(self, block: Block) -> bytes:
        assert self.current is None and block.place == len(self.done)
        self.current, self.pieces = block, ""
        return b"<"

    def more(self, block: Block, piece: str) -> bytes:
        assert self.current is block
        self.pieces += piece
        return b"."

    def close(self, block: Block) -> bytes:
        assert self.current is block and block.text == self.pieces
        self.current = None
        self.done.append((block.kind, block.call_id, block.text))
        return b">"


arguments = st.sampled_from(["{}", '{"a": 1}', '{"a": "}{"}', "", "{broken", '{"a": [1, {"b": "\\""}]}'])
calls = st.lists(st.builds(ToolRequest, id=names, name=names, arguments=arguments), max_size=3).map(tuple)
answers = st.builds(Message, role=st.just("assistant"), content=words, reasoning=st.none() | words, tool_requests=calls)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Message, list[Delta]]:
    """An answer, and its pieces up to some point: words in order, tool requests mixed as a server may mix them."""
    answer = draw(answers)

    def cut(text: str) -> list[str]:
        place = draw(st.integers(0, len(text)))
        return [text[:place], text[place:]]

    lanes: list[list[Delta]] = [
        [Delta(reasoning=piece) for piece in cut(answer.reasoning or "")]
        + [Delta(text=piece) for piece in cut(answer.content if isinstance(answer.content, str) else "")]
    ]
    for index, call in enumerate(answer.tool_requests):
        first, second = cut(call.arguments)
        opening = ToolPiece(index, first, call.id, call.name)
        lanes.append([Delta(tools=(opening,)), Delta(tools=(ToolPiece(index, second),))])
    pieces: list[Delta] = []
    while any(lanes):
        pieces.append(draw(st.sampled_from([lane for lane in lanes if lane])).pop(0))
    return answer, pieces[: draw(st.integers(0, len(pieces)))]


@settings(max_examples=60, deadline=None)
@given(streams())
def test_an_answer_is_whole_however_its_pieces_come(stream: tuple[Message, list[Delta]]) -> None:
    answer, pieces = stream
    log = Log()
    blocks = Blocks(log)
    for piece in pieces:
        blocks.delta(piece)
    blocks.end(ModelReply(message=answer))
    assert log.current is None

    def said(kind: str) -> str:
        return "".join(text for which, _, text in log.done if which == kind)

    assert (said("text"), said("reasoning")) == (answer.text, answer.reasoning or "")
    requests = [(call.id, call.arguments) for call in answer.tool_requests]
    assert sorted((call_id, text) for kind, call_id, text in log.done if kind == "tool") == sorted(requests)


def test_words_go_out_as_they_come() -> None:
    blocks = Blocks(Log())
    assert blocks.delta(Delta(reasoning="h")) == b"<."
    assert blocks.delta(Delta(reasoning="m")) == b"."
    assert blocks.delta(Delta(text="four")) == b"><."
    assert blocks.delta(Delta(tools=(ToolPiece(0, '{"a"', "c", "add"),))) == b"><."
    assert blocks.delta(Delta(tools=(ToolPiece(0, ":1}"), ToolPiece(1, "{", "d", "add")))) == b".><."


def test_a_tool_request_without_a_name_waits() -> None:
    log = Log()
    blocks = Blocks(log)
    assert blocks.delta(Delta(tools=(ToolPiece(0, "{"),))) == b""
    blocks.end(ModelReply(message=assistant("", ToolRequest(id="c", name="f", arguments="{}"))))
    assert log.done == [("tool", "c", "{}")]
