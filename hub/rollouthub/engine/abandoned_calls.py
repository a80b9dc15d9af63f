"""Model calls that an agent outside left before their end: what they have cost all the same."""

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

from rollouthub.messages import ReplyStream
from rollouthub.protocols import ModelReply

LEFT_SECONDS = 1.0
"""How long an answer that nobody reads any more may take to its end. Who read it to its last word and hung up then gets
the server's own count of tokens on record; whose answer takes longer, an estimate."""


class AbandonableCall:
    """For how long an agent outside waits for what is done in a scope, and the one who watches it may `cancel` that."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._work: anyio.CancelScope | None = None
        self._stream: ReplyStream | None = None
        self.left: Callable[[ModelReply], None] | None = None
        """Gets what the model says after all, where the agent left before there was any of it."""

    @property
    def is_over(self) -> bool:
        """Whether the agent has left, or the seat is closed."""
        return self._scope.cancel_called

    def cancel(self) -> None:
        """Leave; a model's answer on its way has a moment to come to its end."""
        self._scope.cancel()
        self._hurry()

    def _hurry(self) -> None:
        if self._stream is not None:
            self._stream.is_left = True
        if self._work is not None:
            self._work.deadline = anyio.current_time() + LEFT_SECONDS

    def begin(self, work: anyio.CancelScope, stream: ReplyStream | None) -> None:
        """A model is at an answer, within a scope that is shielded from all but its own deadline."""
        self._work, self._stream = work, stream
        if self.is_over:
            self._hurry()

    def end(self) -> None:
        """It is no longer."""
        self._work = self._stream = None

    async def answer(self, ask: Awaitable[ModelReply], left: Callable[[ModelReply | None], None]) -> ModelReply:
        """What a model says; where the agent leaves, `left` is told what that is, or None where it has not ended.

        The cancellation goes on its way afterwards. The model is asked in the agent's own task: another one for each
        call would cost a tenth of it.
        """
        reply: ModelReply | None = None
        try:
            reply = await ask
        except Exception:
            if not self.is_over:
                raise
        except BaseException:
            left(None)
            raise
        if self.is_over:
            left(reply)
            await anyio.lowlevel.checkpoint_if_cancelled()
        assert reply is not None  # only who has left is kept from an answer
        return reply
