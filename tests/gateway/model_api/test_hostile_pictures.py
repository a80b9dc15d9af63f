"""Pictures that are none: refused in words in all three dialects, at once, and kept nowhere."""

import base64
import io
import json
import time
from typing import Any

import pytest

from rollouthub.messages import media_of
from rollouthub.protocols import SeatAddress
from tests.gateway.outside import GatewayHarness, harness

SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>"
HOSTILE = {
    "svg": ("image/svg+xml", base64.b64encode(SVG).decode()),
    "pdf as png": ("image/png", base64.b64encode(b"%PDF-1.7 and so on").decode()),
    "sound as png": ("image/png", base64.b64encode(b"RIFF\0\0\0\0WAVEfmt ").decode()),
    "a page": ("text/html", base64.b64encode(b"<script>").decode()),
    "a path": ("image/../../etc/passwd", base64.b64encode(b"x").decode()),
    "a megabyte of junk": ("image/png", "!;,%" * 2**18),
    "a megabyte of marks": ("image/png" + ";x" * 2**19, "!!!!"),
}
Sent = tuple[str, dict[str, Any]]


def sent(dialect: str, mime_type: str, data: str) -> Sent:
    """The route and body of a request that shows this."""
    url = f"data:{mime_type};base64,{data}"
    match dialect:
        case "chat":
            parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}}]
            return "/chat/completions", {"model": "m", "messages": [{"role": "user", "content": parts}]}
        case "responses":
            parts = [{"type": "input_image", "detail": "auto", "image_url": url}]
            return "/responses", {"model": "m", "input": [{"role": "user", "content": parts}], "store": False}
        case _:
            parts = [{"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": data}}]
            return "/messages", {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": parts}]}


async def ask(made: GatewayHarness, address: SeatAddress, request: Sent) -> int:
    route, body = request
    sent = io.BytesIO(json.dumps(body).encode())
    headers = {"Content-Type": "application/json", "anthropic-version": "2023-06-01"}
    async with made.http.post(f"{address.llm_url}{route}", data=sent, headers=headers) as response:
        await response.read()
        return response.status


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_what_is_no_picture_is_refused_in_every_dialect(dialect: str) -> None:
    statuses: dict[str, int] = {}

    async def play(address: SeatAddress) -> None:
        await ask(made, address, sent(dialect, *HOSTILE["svg"]))  # the dialect's first request imports what reads it
        started = time.process_time()
        for name, (mime_type, data) in HOSTILE.items():
            statuses[name] = await ask(made, address, sent(dialect, mime_type, data))
        assert time.process_time() - started < 5

    async with harness(["never said"]) as made:
        rollout = await made.play(play, seconds=120)
        assert made.model is not None
        assert made.model.requests == []
    assert statuses == dict.fromkeys(HOSTILE, 400), rollout.faults
    assert media_of([message for turn in rollout.turns for message in turn.messages]) == []
