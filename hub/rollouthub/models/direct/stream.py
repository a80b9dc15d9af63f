"""The direct lane's streamed answers: reads them, passes each piece on at once, and assembles the whole."""

from contextlib import suppress

import anyio
import anyio.lowlevel

from rollouthub.http.exchange import Exchange
from rollouthub.http.no_answer import AnswerTooLarge, NoAnswer
from rollouthub.http.server_events import DONE, EventReader
from rollouthub.messages import Delta, ReplyStream
from rollouthub.models.direct.answer_bounds import BadAnswer
from rollouthub.models.direct.chunks import Assembly, parse_chunk
from rollouthub.models.retry import TryFailed

_BYTES_AT_ONCE = 16 * 2**10
"""Most bytes processed before other tasks of the event loop get a turn."""
_LAST_BYTES_SECONDS = 0.05
"""Seconds to wait after an answer for the end of the HTTP body, so that the connection can be reused."""


class ListenerFailed(Exception):
    """The listener that takes the streamed pieces failed, not the model; `error` is its exception."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


async def hand_on(stream: ReplyStream, delta: Delta, deadline: float) -> None:
    """Pass a piece to the stream's listener, within the call's deadline.

    Raises:
        ListenerFailed: the listener raised an exception.
        TryFailed: the listener did not take the piece before the deadline.
    """
    with anyio.CancelScope(deadline=deadline) as scope:
        try:
            await stream.write(delta)
        except Exception as error:  # whatever it is, it is not the model's
            raise ListenerFailed(error) from error
    if scope.cancelled_caught:
        raise TryFailed("the client did not read the answer within the call's time", status=200, is_retryable=False)


async def read_stream(response: Exchange, stream: ReplyStream, turn: int, deadline: float, most_bytes: int) -> Assembly:
    """Read a streamed answer to its end, passing its pieces on.

    Raises:
        BadAnswer: the body is not an event stream, or the server aborted the answer.
        NoAnswer: the rest of the answer did not come.
        TryFailed: the stream is too large, or its pieces are not taken in time.
        ListenerFailed: the listener that takes the pieces failed.
    """
    events, assembly = EventReader(), Assembly(turn)
    size = 0
    while received := await response.piece():
        size += len(received)
        if size > most_bytes:
            raise TryFailed(str(AnswerTooLarge(most_bytes)), status=200, is_retryable=False)
        for start in range(0, len(received), _BYTES_AT_ONCE):
            if start:
                await anyio.lowlevel.checkpoint()
            for data in events.feed(received[start : start + _BYTES_AT_ONCE]):
                if await _is_last(data, assembly, stream, deadline):
                    await _read_out(response)
                    return assembly
    for data in events.end():
        if await _is_last(data, assembly, stream, deadline):
            return assembly
    raise BadAnswer("the stream ended before the answer did")


async def _is_last(data: bytes, assembly: Assembly, stream: ReplyStream, deadline: float) -> bool:
    """Add an event's data to the answer and pass its piece on; whether it ends the stream."""
    is_done = data == DONE
    delta = assembly.rest() if is_done else assembly.add(parse_chunk(data))
    if delta is not None:
        await hand_on(stream, delta, deadline)
    return is_done


async def _read_out(response: Exchange) -> None:
    # A server that is rude after its answer has answered all the same.
    with suppress(NoAnswer), anyio.move_on_after(_LAST_BYTES_SECONDS):
        await response.piece()
