"""One client's connection to a running hub: requests, answers and events, all limited in time and size."""

import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import anyio
from anyio.abc import ByteStream, TaskGroup
from pydantic import ValidationError

from rollouthub.errors import invalid_fields
from rollouthub.live.control.broadcast import Broadcast, ClientEvents
from rollouthub.live.control.handlers import RequestHandlers, RequestRefused
from rollouthub.live.control.live_protocol import (
    LONGEST_ANSWER,
    LONGEST_REQUEST,
    CancelRequest,
    EventsRequest,
    Following,
    InterruptRequest,
    ListRequest,
    PauseRequest,
    Request,
    RequestId,
    RequestProblem,
    ResumeRequest,
    RetryRequest,
    RetuneRequest,
    ShowRequest,
    TellRequest,
    requests,
)
from rollouthub.values import Frozen

logger = logging.getLogger(__name__)

IDLE_SECONDS = 600.0
"""Seconds after which a client that neither sends requests nor follows events is disconnected."""
LINE_SECONDS = 10.0
"""Most seconds from the first byte of a request to its last."""
SEND_SECONDS = 60.0
"""Seconds after which a client that reads no byte is disconnected."""
_EVENTS_AT_ONCE = 100
_REST = 4.0
"""A client's next request waits this many times as long as its last one took, so that no client wears the hub down."""
_LONGEST_REST_SECONDS = 1.0


class LiveConnection:
    """A connection to one client."""

    def __init__(
        self, stream: ByteStream, handlers: RequestHandlers, broadcast: Broadcast, in_flight: Callable[[], int]
    ) -> None:
        self._stream, self._handlers, self._broadcast, self._in_flight = stream, handlers, broadcast, in_flight
        self._sending = anyio.Lock()
        self._follower: ClientEvents | None = None

    async def serve(self) -> None:
        """Answer requests until the client leaves, is too slow, or the run's last event was sent."""
        try:
            async with anyio.create_task_group() as tasks:
                async with aclosing(self._lines()) as lines:
                    async for line in lines:
                        started = anyio.current_time()
                        await self._answer(line, tasks)
                        took = anyio.current_time() - started
                        await anyio.sleep(min(_LONGEST_REST_SECONDS, _REST * took))
                tasks.cancel_scope.cancel()
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError, TimeoutError):
            pass  # the client is gone, or as good as gone
        finally:
            if self._follower is not None:
                self._broadcast.leave(self._follower)

    async def _lines(self) -> AsyncGenerator[bytes]:
        """The client's requests, as lines."""
        waiting = bytearray()
        until = float("inf")
        while True:
            place = waiting.find(b"\n")
            if place >= 0:
                line = bytes(waiting[:place])
                del waiting[: place + 1]
                until = anyio.current_time() + LINE_SECONDS
                if len(line) > LONGEST_REQUEST:
                    await self._refuse_length()
                    return
                if line.strip():
                    yield line
                continue
            if len(waiting) > LONGEST_REQUEST:
                await self._refuse_length()
                return
            now = anyio.current_time()
            if not waiting:
                until = now + (float("inf") if self._follower is not None else IDLE_SECONDS)
            elif until - now > LINE_SECONDS:
                until = now + LINE_SECONDS
            with anyio.fail_after(until - now):
                waiting += await self._stream.receive(LONGEST_REQUEST)

    async def _refuse_length(self) -> None:
        message = f"a request is one line of at most {LONGEST_REQUEST} bytes"
        await self.refuse(None, RequestProblem(kind="bad_request", message=message))

    async def _answer(self, line: bytes, tasks: TaskGroup) -> None:
        try:
            request = requests.validate_json(line)
        except ValidationError as error:
            await self.refuse(
                _id_of(line), RequestProblem(kind="bad_request", message=invalid_fields(error, "message", 5))
            )
            return
        try:
            if isinstance(request, EventsRequest):
                await self._follow(request, tasks)
            else:
                await self._send(_line(request.id, "result", await self._meet(request)))
        except RequestRefused as refusal:
            await self.refuse(request.id, refusal.problem)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise
        except Exception:
            logger.exception("live control: request %s broke", type(request).__name__)
            message = "the hub failed to answer; its log says why"
            await self.refuse(request.id, RequestProblem(kind="internal", message=message))

    async def _meet(self, request: Request) -> Frozen:
        match request:
            case ListRequest():
                return await self._handlers.list(request)
            case ShowRequest():
                return await self._handlers.show(request)
            case CancelRequest():
                return self._handlers.cancel(request)
            case InterruptRequest():
                return self._handlers.interrupt(request)
            case RetuneRequest():
                return self._handlers.retune(request)
            case PauseRequest() | ResumeRequest():
                return self._handlers.hold(request)
            case TellRequest():
                return self._handlers.tell(request)
            case RetryRequest():
                return await self._handlers.retry(request)
            case EventsRequest():
                raise AssertionError("events are followed, not answered")

    async def _follow(self, request: EventsRequest, tasks: TaskGroup) -> None:
        if self._follower is not None:
            raise RequestRefused(RequestProblem(kind="bad_request", message="this connection follows already"))
        self._follower = self._broadcast.join()
        await self._send(_line(request.id, "result", Following(in_flight=self._in_flight())))
        tasks.start_soon(self._pump, request.id, self._follower, tasks)

    async def _pump(self, request_id: RequestId, follower: ClientEvents, tasks: TaskGroup) -> None:
        """Send events as fast as the client reads them."""
        head = b'{"id":' + json.dumps(request_id).encode() + b',"event":'
        while events := await follower.take(_EVENTS_AT_ONCE):
            await self._send(b"".join(head + event + b"}\n" for event in events))
        tasks.cancel_scope.cancel()

    async def refuse(self, request_id: RequestId | None, problem: RequestProblem) -> None:
        """Send the reason why the client is refused."""
        await self._send(_line(request_id, "error", problem))

    async def _send(self, line: bytes) -> None:
        async with self._sending:
            with anyio.fail_after(SEND_SECONDS):
                await self._stream.send(line)


def _line(request_id: RequestId | None, key: str, value: Frozen) -> bytes:
    line = f'{{"id":{json.dumps(request_id)},"{key}":{value.model_dump_json()}}}\n'.encode()
    if len(line) <= LONGEST_ANSWER:
        return line
    problem = RequestProblem(kind="not_possible", message=f"the answer would be {len(line)} bytes long; ask for less")
    return _line(request_id, "error", problem)


def _id_of(line: bytes) -> RequestId | None:
    """The id of a request that is otherwise invalid."""
    try:
        found = json.loads(line)
        request_id = found.get("id")
    except (ValueError, AttributeError, RecursionError):
        return None
    is_id = isinstance(request_id, int) and not isinstance(request_id, bool) and abs(request_id) < 2**63
    return request_id if is_id or (isinstance(request_id, str) and len(request_id) <= 64) else None
