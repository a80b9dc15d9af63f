"""An episode whose model calls are answered from another thread, one at a time."""

import queue
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

import anyio

from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.export import TaskReference
from rollouthub.generation import ModelReply, ModelRequest
from rollouthub.messages import Message
from rollouthub.rollout import Rollout
from rollouthub.trainers.roll.play import SharedWorker

Answer = Message | ModelError


class SteppedEpisode:
    """One running episode, driven from a synchronous caller."""

    def __init__(self, at: SharedWorker, task: TaskReference, seed: int) -> None:
        """Start the episode."""
        self._stage = at
        self._seat: str | None = None
        self._events: queue.SimpleQueue[ModelRequest | Future[Rollout]] = queue.SimpleQueue()
        self._send, self._receive = anyio.create_memory_object_stream[Answer](1)
        self._caller = at.model.add(self._ask)
        self._end = at.thread_worker.begin(at.wanted(task, seed, self._caller))
        self._end.add_done_callback(self._over)

    def next(self) -> ModelRequest | Rollout:
        """Block until the next event: a model call to answer, or the finished rollout.

        Raises:
            UsageError, SupplyError, StoreError: as `RolloutWorker.play`.
        """
        event = self._events.get()
        return event if isinstance(event, ModelRequest) else event.result()

    def answer(self, message: Message) -> None:
        """Answer the last model call."""
        self._answer(message)

    def stop_for_length(self) -> None:
        """Report that the conversation is too long: the episode ends and is scored."""
        self._answer(ContextLimitError("ROLL's limit of length or steps is reached"))

    def abandon(self) -> None:
        """Fail the waiting model call: the episode ends unscored."""
        self._answer(ModelError("ROLL left the episode", retryable=False))

    def _answer(self, answer: Answer) -> None:
        # An episode that ended meanwhile, such as by its deadline, hears nothing; its end is the next event.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.WouldBlock):
            self._stage.thread_worker.call(partial(self._send.send_nowait, answer))

    async def _ask(self, request: ModelRequest) -> ModelReply:
        self._seat = self._seat or request.seat
        if request.seat != self._seat:
            raise ModelError(
                f"HubGemEnv takes actions for one seat, and the policy plays {self._seat!r} and {request.seat!r}; give "
                "the others models of their own",
                retryable=False,
            )
        self._events.put(request)
        answer = await self._receive.receive()
        if isinstance(answer, ModelError):
            raise answer
        return ModelReply(answer, finish_reason="tool_calls" if answer.tool_requests else "stop")

    def _over(self, end: Future[Rollout]) -> None:
        self._stage.model.remove(self._caller)
        self._send.close()
        self._receive.close()
        self._events.put(end)
