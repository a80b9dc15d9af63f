"""Pieces of an answer, in whatever order they come, as blocks one after the other."""

from time import thread_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouthub.gateway.model_api.answer_blocks import AnswerBlock, Blocks
from rollouthub.gateway.model_api.dialects import PATHS, dialect_of
from rollouthub.generation import ModelReply
from rollouthub.messages import Delta, Message, ToolPiece, ToolRequest, assistant
from tests.strategies import names, words


class Log:
    """A writer that notes what it is told, and that no block begins before the last has ended."""

    def __init__(self) -> None:
        self.current: AnswerBlock | None = None
        self.done: list[tuple[str, str, str]] = []
        self.pieces = ""

    def open(self, block: AnswerBlock) -> bytes:
        assert self.current is None and block.place == len(self.done)
        self.current, self.pieces = block, ""
        return b"<"

    def more(self, block: AnswerBlock, piece: str) -> bytes:
        assert self.current is block
        self.pieces += piece
        return b"."

    def close(self, block: AnswerBlock) -> bytes:
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


PIECES = {
    "text": Delta(text="7 " * 24),
    "reasoning": Delta(reasoning="7 " * 24),
    "tools": Delta(tools=(ToolPiece(0, "7 }" * 16),)),
}
REQUESTS = {
    "chat/completions": b'{"model":"m","stream":true,"messages":[{"role":"user","content":"a"}]}',
    "responses": b'{"model":"m","stream":true,"input":"a"}',
    "messages": b'{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"a"}]}',
}


@pytest.mark.parametrize("kind", PIECES)
@pytest.mark.parametrize("path", PATHS)
def test_four_times_the_pieces_take_four_times_as_long(path: str, kind: str) -> None:
    dialect = dialect_of(path)
    assert dialect is not None
    asked = dialect.read(REQUESTS[path])

    def seconds(count: int) -> float:
        events = dialect.events(asked, "1")
        events.begin()
        if kind == "tools":
            events.delta(Delta(tools=(ToolPiece(0, '{"', "a", "count"), ToolPiece(1, "", "b", "count"))))
        began = thread_time()
        for _ in range(count):
            events.delta(PIECES[kind])
        return thread_time() - began

    tries = ((seconds(20_000), seconds(80_000)) for _ in range(3))
    assert any(many < 8 * few for few, many in tries)
