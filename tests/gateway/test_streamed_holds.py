"""A model's answer of four mebibytes holds up nobody on its way to an agent outside, whole or in small pieces."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rollouthub import Outcome
from rollouthub.protocols import SeatAddress
from tests.gateway.outside import harness
from tests.loop_holds import SECONDS, SIZE, shortest_hold
from tests.models.servers import direct, raw_server

MARKS = {"content": "7 \n", "reasoning": "\0", "arguments": "7 }"}
"""By what of the answer is long. The third is what arguments may end with."""
MESSAGES = [{"role": "user", "content": "Go on."}]
ASKS: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": MESSAGES},
    "responses": {"input": "Go on."},
    "messages": {"messages": MESSAGES, "max_tokens": 9_000_000},
}


def deltas(kind: str, piece_size: int) -> Iterator[dict[str, Any]]:
    """The pieces of an answer: words, a thought, or the arguments of a tool request with a second one beside it."""
    mark = MARKS[kind]
    piece_length, length = (size // len(json.dumps(mark)[1:-1]) for size in (piece_size, SIZE))
    piece = mark * piece_length
    pieces = (piece for _ in range(length // piece_length))
    if kind != "arguments":
        yield from ({kind: piece} for piece in pieces)
        return
    yield {"tool_calls": [{"index": place, "id": str(place), "function": {"name": "count"}} for place in range(2)]}
    for piece in ('{"a": "', *pieces, '"}'):
        yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
    yield {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}


def streamed(kind: str, piece_size: int) -> bytes:
    """What a server sends that says this in pieces."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    body = b"".join(
        b"data: %s\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()
        for delta in deltas(kind, piece_size)
    )
    return head + body + b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def whole(kind: str) -> bytes:
    """What a server sends that says this at once."""
    message: dict[str, Any] = {"role": "assistant"}
    for delta in deltas(kind, SIZE):
        message |= delta
    if kind == "arguments":
        text = json.dumps({"a": MARKS[kind] * (SIZE // 3)})
        message["tool_calls"] = [{"id": "0", "type": "function", "function": {"name": "count", "arguments": text}}]
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


PIECES = {"in small pieces": 64, "in one piece": SIZE, "whole": None}
DIAGONAL = set(zip(ASKS, MARKS, strict=True))
"""Every path and every kind once: 65,000 pieces take seconds, and the rest of them is soak."""
CASES = [
    pytest.param(
        size,
        path,
        kind,
        id=f"{name}-{path}-{kind}",
        marks=pytest.mark.soak if size == 64 and (path, kind) not in DIAGONAL else [],
    )
    for name, size in PIECES.items()
    for path in ASKS
    for kind in MARKS
]


@pytest.mark.parametrize(("piece_size", "path", "kind"), CASES)
async def test_an_answer_of_four_mebibytes_holds_up_nobody(piece_size: int | None, path: str, kind: str) -> None:
    said = whole(kind) if piece_size is None else streamed(kind, piece_size)
    async with raw_server(said) as url, direct(url) as model, harness() as made:

        async def ask(address: SeatAddress) -> None:
            body = {"model": "any", "stream": piece_size is not None, **ASKS[path]}
            async with made.http.post(f"{address.llm_url}/{path}", json=body) as response:
                assert response.status == 200, await response.text()
                size = 0
                async for chunk in response.content.iter_any():
                    size += len(chunk)
            assert size > 0.9 * SIZE

        async def play(longest: list[float]) -> None:
            rollout = await made.play(ask, model=model, seconds=600)
            assert (rollout.outcome, len(rollout.turns)) == (Outcome.SCORED, 1)

        held = await shortest_hold(play)
        assert held < SECONDS
