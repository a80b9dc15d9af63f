"""Trace context: how a call carries the id of its rollout's trace. Unused if a run is not traced."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from rollouthub.generation import Model, ModelReply, ModelRequest
from rollouthub.rollout import Rollout

TRACEPARENT: ContextVar[str | None] = ContextVar("rollouthub_traceparent", default=None)
"""The `traceparent` header (https://www.w3.org/TR/trace-context/) for calls to models and environment hosts in this
context.

It is never sent to an agent, and is not set while an agent acts: an agent must not learn the ids of the run's or the
verifier's traces.
"""
HEADER = "traceparent"
_FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


class Trace(Protocol):
    """Collects the spans of one attempt."""

    @property
    def parent(self) -> str:
        """The `traceparent` header for requests that the attempt itself makes."""
        ...

    async def generate(self, model: Model, request: ModelRequest) -> ModelReply:
        """Ask a model, under a span of its own.

        Raises:
            Exception: whatever the model raises.
        """
        ...

    def end(self, rollout: Rollout) -> None:
        """End the attempt's trace; later calls do nothing."""
        ...


class Tracer(Protocol):
    """Makes the spans of a process, and sends them in the background."""

    @property
    def dropped(self) -> int:
        """Number of spans that were not delivered."""
        ...

    def begin(self, tools: frozenset[str]) -> Trace:
        """Start the trace of an attempt; spans show only tool names in `tools`, because a model can invent others."""
        ...


@contextmanager
def untraced() -> Generator[None]:
    """Unset the trace context inside this block, in which an agent acts."""
    before = TRACEPARENT.set(None)
    try:
        yield
    finally:
        TRACEPARENT.reset(before)


def parse(header: str) -> tuple[bytes, bytes] | None:
    """The trace id and span id in a header; None if it has none."""
    found = _FORM.fullmatch(header)
    if found is None:
        return None
    trace_id, span_id = bytes.fromhex(found[1]), bytes.fromhex(found[2])
    return (trace_id, span_id) if any(trace_id) and any(span_id) else None


def write(trace_id: bytes, span_id: bytes) -> str:
    """The header for a trace id and span id."""
    return f"00-{trace_id.hex()}-{span_id.hex()}-01"
