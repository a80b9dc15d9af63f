"""Model calls that an agent outside left before their end: what they have cost all the same."""

from collections.abc import Awaitable, Callable

import anyio

from rollouthub.protocols import Model, ModelReply, ModelRequest

LEFT_SECONDS = 1.0
"""How long an answer that nobody reads any more may take to its end. Who read it to its last word and hung up then gets
the server's own count of tokens on record; whose answer takes longer, an estimate."""


async def asked_from_outside(
    model: Model,
    request: ModelRequest,
    answer: Callable[[], Awaitable[ModelReply]],
    left: Callable[[ModelReply | None], None],
) -> ModelReply:
    """Ask for an agent that may hang up; `left` is then told what the model has said, or None where it has not ended.

    The cancellation goes on its way afterwards.
    """
    over = anyio.Event()
    replies: list[ModelReply] = []
    failures: list[Exception] = []
    work = anyio.CancelScope(shield=True)

    async def work_on() -> None:
        with work:
            try:
                replies.append(await answer())
            except Exception as error:
                failures.append(error)
        over.set()

    async with anyio.create_task_group() as calls:
        calls.start_soon(work_on)
        try:
            await over.wait()
        except anyio.get_cancelled_exc_class():
            if request.stream is not None:
                request.stream.is_left = True
            work.deadline = anyio.current_time() + LEFT_SECONDS
            with anyio.CancelScope(shield=True):
                await over.wait()
            left(replies[0] if replies else None)
            raise
    if failures:
        raise failures[0]
    return replies[0]
