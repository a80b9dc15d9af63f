"""The tracer of a process: keeps notes on attempts, and delivers them as spans."""

import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version

import anyio

from rollouthub.errors import ConfigError
from rollouthub.generation import Model, ModelReply, ModelRequest
from rollouthub.http.exchange import open_pool
from rollouthub.models.credentials import Credentials
from rollouthub.plugins.extras import pip_install
from rollouthub.rollout import Rollout
from rollouthub.telemetry.traces.spans import AttemptNote, CallNote, Span, attempt_note, new_id, note_of
from rollouthub.tracing import TRACEPARENT, write

try:
    from rollouthub.telemetry.traces.otlp_collector import HEADER_VARIABLES, OtlpDelivery, traces_headers, traces_url
except ImportError as missing:
    raise ConfigError(
        f"traces need the OpenTelemetry protocol, which is not installed: {pip_install('otel')}"
    ) from missing


class AttemptTrace:
    """The notes on one attempt, while it runs."""

    __slots__ = ("_calls", "_delivery", "_is_over", "_root", "_tools", "_trace_id", "parent")

    def __init__(self, delivery: OtlpDelivery, tools: frozenset[str]) -> None:
        self._delivery, self._tools = delivery, tools
        self._trace_id, self._root = new_id(16), new_id(8)
        self.parent = write(self._trace_id, self._root)
        self._calls: list[CallNote] = []
        self._is_over = False

    async def generate(self, model: Model, request: ModelRequest) -> ModelReply:
        """Call a model, within a span of its own."""
        span_id, start = new_id(8), time.time()
        before = TRACEPARENT.set(write(self._trace_id, span_id))
        try:
            reply = await model.generate(request)
        except BaseException as error:
            self._calls.append(note_of(span_id, start, model.name, request, None, error))
            raise
        finally:
            TRACEPARENT.reset(before)
        self._calls.append(note_of(span_id, start, model.name, request, reply, None))
        return reply

    def end(self, rollout: Rollout) -> None:
        """Queue the attempt's notes for delivery; only the first call counts."""
        if not self._is_over:
            self._is_over = True
            self._delivery.take(attempt_note(self._trace_id, self._root, self._calls, rollout, self._tools))


class SpanTracer:
    """Records the spans of this process. `open_tracer` makes one."""

    def __init__(self, delivery: OtlpDelivery) -> None:
        self._delivery = delivery

    @property
    def dropped(self) -> int:
        """How many spans were dropped without being delivered."""
        return self._delivery.dropped

    def begin(self, tools: frozenset[str]) -> AttemptTrace:
        """Begin the trace of an attempt."""
        return AttemptTrace(self._delivery, tools)

    def take(self, note: AttemptNote | Span) -> None:
        """Queue a span that was made elsewhere."""
        self._delivery.take(note)


@asynccontextmanager
async def open_tracer(url: str, credentials: Credentials, service: str = "rollouthub") -> AsyncGenerator[SpanTracer]:
    """Deliver spans to a collector within the block; its end waits at most `FAREWELL_SECONDS`.

    Raises:
        ConfigError: the URL or the headers are invalid.
    """
    installed = version("rollouthub")
    resource = {"service.name": service, "service.version": installed, "service.instance.id": str(os.getpid())}
    delivery = OtlpDelivery(traces_url(url), traces_headers(credentials.get(*HEADER_VARIABLES)), resource, installed)
    problem: Exception | None = None
    async with open_pool() as pool:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(delivery.run, pool)
            try:
                yield SpanTracer(delivery)
            except Exception as error:
                problem = error  # raised below, outside the task group, so that it arrives as it is
            finally:
                tasks.cancel_scope.cancel()
        await delivery.end(pool)
    if problem is not None:
        raise problem
