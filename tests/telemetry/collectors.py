"""A real OTLP collector on the loopback, rude ones, and runs whose spans it gets."""

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from rollouthub import Agent, Rollout
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run import Observer, play_run
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.models.credentials import Credentials
from tests.models.servers import serving


async def until(claim: Callable[[], object]) -> None:
    """Wait until something holds."""
    with anyio.fail_after(30):
        while not claim():
            await anyio.lowlevel.checkpoint()


class Silent:
    """An observer that keeps the records."""

    def __init__(self) -> None:
        self.rollouts: list[Rollout] = []

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Not of interest."""

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Keep them."""
        self.rollouts += rollouts

    def stopped(self, reason: str) -> None:
        """Not of interest."""


async def play(
    directory: Path,
    *,
    observer: Observer | None = None,
    live: LiveRun | None = None,
    environ: dict[str, str] | None = None,
    player: Agent | None = None,
    **settings: Any,
) -> list[Rollout]:
    """A run in this process; its records."""
    plan = make_plan(RunRequest.model_validate({"environments": ("arithmetic",), "limit": 1, **settings}))
    if player is not None:
        plan = replace(plan, agent=player, agent_name=player.name, asks_for_agent=False)
    silent = Silent()
    await play_run(
        plan,
        directory,
        given="",
        resume=False,
        credentials=Credentials(environ),
        observer=observer or silent,
        stop=StopSignal(),
        live=live,
    )
    return silent.rollouts


class Collector:
    """Takes spans, and what came with them."""

    def __init__(self, status: int = 200) -> None:
        self.spans: list[Span] = []
        self.services: dict[str, list[Span]] = {}
        self.headers: list[dict[str, str]] = []
        self.raw = b""
        self.status = status

    async def _take(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        body = await request.read()
        self.raw += body
        if self.status == 200:
            for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
                spans = [span for scope in sent.scope_spans for span in scope.spans]
                self.spans += spans
                named = {pair.key: pair.value.string_value for pair in sent.resource.attributes}
                self.services.setdefault(named["service.name"], []).extend(spans)
        return web.Response(status=self.status)

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[str]:
        """Serve it; its base URL."""
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/traces", self._take)
        async with serving(app) as url:
            yield url.removesuffix("/v1")

    def named(self, name: str) -> list[Span]:
        """The spans of this name."""
        return [span for span in self.spans if span.name == name]


@asynccontextmanager
async def hanging() -> AsyncGenerator[tuple[str, list[int]]]:
    """A server that takes connections and never answers; its URL, and one entry for each connection."""
    met: list[int] = []

    async def hang(stream: anyio.abc.SocketStream) -> None:
        met.append(1)
        async with stream:
            await anyio.sleep_forever()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, hang)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        try:
            yield f"http://127.0.0.1:{port}", met
        finally:
            tasks.cancel_scope.cancel()


def attributes(span: Span) -> dict[str, Any]:
    """A span's attributes as plain values."""
    found: dict[str, Any] = {}
    for pair in span.attributes:
        kind = pair.value.WhichOneof("value")
        assert kind is not None
        value: Any = getattr(pair.value, kind)
        found[pair.key] = [each.string_value for each in value.values] if kind == "array_value" else value
    return found


def trace_of(header: str) -> tuple[bytes, bytes]:
    """The trace and the span that a `traceparent` names."""
    found = re.fullmatch(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01", header)
    assert found is not None, header
    return bytes.fromhex(found[1]), bytes.fromhex(found[2])
