"""Model calls whose external agent disconnects before the answer is complete; their cost is still recorded."""

from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel

from rollouthub.generation import ModelReply
from rollouthub.messages import ReplyStream

LEFT_SECONDS = 1.0
"""Seconds that a model call may go on after its external agent has disconnected. An answer that ends within this
time is recorded with the server's own token count, a longer one with an estimate.
"""


class AbandonableCall:
    """How long an external agent waits for its model call; `cancel` is called when the agent disconnects."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._work: anyio.CancelScope | None = None
        self._stream: ReplyStream | None = None
        self.left: Callable[[ModelReply], None] | None = None
        """Called with the model's answer if the answer is complete only after the agent has left."""

    @property
    def is_over(self) -> bool:
        """Whether the agent has left, or the seat is closed."""
        return self._scope.cancel_called

    def cancel(self) -> None:
        """Cancel the agent's call; a model call in flight gets `LEFT_SECONDS` to complete."""
        self._scope.cancel()
        self._hurry()

    def _hurry(self) -> None:
        if self._stream is not None:
            self._stream.is_left = True
        if self._work is not None:
            self._work.deadline = anyio.current_time() + LEFT_SECONDS

    def begin(self, work: anyio.CancelScope, stream: ReplyStream | None) -> None:
        """Note that a model call starts in the scope `work`, which is shielded and ends only at its own deadline."""
        self._work, self._stream = work, stream
        if self.is_over:
            self._hurry()

    def end(self) -> None:
        """Note that the model call is over."""
        self._work = self._stream = None

    async def answer(self, ask: Awaitable[ModelReply], left: Callable[[ModelReply | None], None]) -> ModelReply:
        """Await the model's answer. If the agent has left, `left` gets the answer, or None if the answer was not
        complete.

        The cancellation is raised after that. The model is asked in the agent's own task: a task of its own for each
        call would add a tenth to the call's cost.
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
