"""Traces: how a call is told which rollout it belongs to. Where a run is not traced, nothing of this is ever made."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from rollouthub.protocols import Model, ModelReply, ModelRequest
from rollouthub.rollout import Rollout

TRACEPARENT: ContextVar[str | None] = ContextVar("rollouthub_traceparent", default=None)
"""The header (https://www.w3.org/TR/trace-context/) of calls made in this context to models and control planes.

It is never sent to an agent, nor on the agent plane, and not set while an agent acts: whose trace it plays in, and what
the verifier's is, are none of its business.
"""
HEADER = "traceparent"
_FORM = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


class Trace(Protocol):
    """The notes on one attempt that become its spans."""

    @property
    def parent(self) -> str:
        """The header of what the attempt itself asks for."""
        ...

    async def generate(self, model: Model, request: ModelRequest) -> ModelReply:
        """Ask a model, under a span of its own.

        Raises:
            Exception: whatever the model raises.
        """
        ...

    def end(self, rollout: Rollout) -> None:
        """The attempt is over; said twice, the first counts."""
        ...


class Tracer(Protocol):
    """Makes the spans of a process, and sends them where nobody waits for it."""

    @property
    def dropped(self) -> int:
        """Spans that were not delivered."""
        ...

    def begin(self, tools: frozenset[str]) -> Trace:
        """An attempt begins; `tools` are the names of tools that spans may show: others are a model's own words."""
        ...


@contextmanager
def untraced() -> Generator[None]:
    """Let nobody in this context know of a trace: whoever acts here is not the hub."""
    before = TRACEPARENT.set(None)
    try:
        yield
    finally:
        TRACEPARENT.reset(before)


def parse(header: str) -> tuple[bytes, bytes] | None:
    """The ids of a trace and a span in it; None where the header names none."""
    found = _FORM.fullmatch(header)
    if found is None:
        return None
    trace_id, span_id = bytes.fromhex(found[1]), bytes.fromhex(found[2])
    return (trace_id, span_id) if any(trace_id) and any(span_id) else None


def write(trace_id: bytes, span_id: bytes) -> str:
    """The header that names a span."""
    return f"00-{trace_id.hex()}-{span_id.hex()}-01"
