"""Whoever listens to a streamed answer in the tests, and what it heard as one message."""

from collections.abc import Awaitable, Callable

from rollouthub import Message, ModelReply
from rollouthub.generation import Model, ModelRequest
from rollouthub.messages import Delta, ReplyStream, ToolRequest


class Listener:
    """Keeps the pieces of an answer."""

    def __init__(self, then: Callable[[Delta], Awaitable[None]] | None = None) -> None:
        """`then` is done with each piece."""
        self.heard: list[Delta] = []
        self.stream = ReplyStream(self._write)
        self._then = then

    async def _write(self, delta: Delta) -> None:
        self.heard.append(delta)
        if self._then is not None:
            await self._then(delta)

    @property
    def message(self) -> Message:
        """All pieces together."""
        calls: list[tuple[str, str, list[str]]] = []
        for piece in (piece for delta in self.heard for piece in delta.tools):
            if piece.index == len(calls):
                assert piece.id is not None
                assert piece.name is not None
                calls.append((piece.id, piece.name, []))
            else:
                assert (piece.id, piece.name) == (None, None)
            calls[piece.index][2].append(piece.arguments)
        return Message(
            role="assistant",
            content="".join(delta.text for delta in self.heard),
            reasoning="".join(delta.reasoning for delta in self.heard) or None,
            tool_requests=tuple(ToolRequest(id=id, name=name, arguments="".join(said)) for id, name, said in calls),
        )


async def hear(model: Model, request: ModelRequest) -> tuple[ModelReply, Listener]:
    """A streamed answer, and what was heard of it."""
    listener = Listener()
    reply = await model.generate(streamed(request, listener))
    return reply, listener


def streamed(request: ModelRequest, listener: Listener) -> ModelRequest:
    """The request, its answer streamed."""
    return ModelRequest(
        request.messages,
        request.tools,
        request.sampling,
        request.timeout_seconds,
        request.session,
        request.media,
        listener.stream,
    )
