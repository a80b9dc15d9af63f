"""What a client from outside cannot wear out: rates, slow connections, and logs that hold no token."""

import io
import logging

import anyio
import pytest

from rollouthub.gateway.gateway import open_gateway
from rollouthub.gateway.rate_limit import TokenBucket
from rollouthub.http import listener
from rollouthub.http.redaction import RedactingFormatter, redact
from rollouthub.protocols import SeatAddress
from tests.gateway.outside import GatewayHarness, harness


def test_a_bucket_allows_a_burst_and_then_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("rollouthub.gateway.rate_limit.time.monotonic", lambda: now)
    bucket = TokenBucket(2.0)
    assert [bucket.take() for _ in range(5)] == [0.0, 0.0, 0.0, 0.0, 0.5]
    now += 0.5
    assert [bucket.take(), bucket.take()] == [0.0, 0.5]


async def test_a_token_that_asks_too_often_is_told_when_to_come_back() -> None:
    async with open_gateway(requests_per_second=0.02) as gateway, harness(["hi"]) as made:
        fast = GatewayHarness(gateway, made.http, model=made.model)

        async def play(address: SeatAddress) -> None:
            assert (await fast.rpc(address.agent_url, "tools/list"))[0] == 200
            status, answer = await fast.rpc(address.agent_url, "tools/list")
            assert (status, "error" in answer) == (429, True)
            async with fast.http.post(f"{address.llm_url}/chat/completions", json={}) as response:
                assert response.status == 429
                assert 30 < int(response.headers["retry-after"]) <= 50

        await fast.play(play)


@pytest.mark.parametrize("said", [b"", b"POST /health HTTP/1.1\r\nHo", b"POST /health HTTP/1.1\r\nHost: localhost\r\n"])
async def test_a_request_that_never_ends_is_cut_off(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HEADER_SECONDS", 0.05)
    assert await _hangs_up(said)


async def test_a_body_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "BODY_SECONDS", 0.05)
    head = b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab"
    assert await _hangs_up(head)


async def _hangs_up(said: bytes) -> bool:
    """Whether the gateway hangs up on who says this and no more."""
    async with open_gateway() as gateway:
        port = int(gateway.base_url.rpartition(":")[2])
        with anyio.fail_after(20):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                try:
                    await stream.send(said or b"\r\n")
                    while True:
                        await stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return True


@pytest.mark.parametrize(
    "line",
    [
        "POST /e/{token}/mcp 200",
        "http://127.0.0.1:1/llm/{token}/v1/chat/completions failed",
        "Authorization: Bearer {token}",
        "{{'authorization': 'Bearer {token}', 'x-api-key': '{token}'}}",
        "SeatAddress(api_key='{token}', model=None)",
        "GET /practice/arithmetic/{token}/mcp",
        "headers [(b'authorization', b'Bearer {token}')]",
    ],
)
def test_no_token_reaches_a_log_line(line: str) -> None:
    token = "dYw-5_kX0PzqT2rS7uV9wA1bC3dE5fG7"
    told = redact(line.format(token=token))
    assert token not in told
    assert "[token]" in told


def test_tracebacks_and_arguments_are_masked_too() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(RedactingFormatter("%(message)s"))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    try:
        raise ValueError("no answer from http://h/e/secretsecret/mcp")
    except ValueError:
        logger.exception("could not ask %s", "http://h/llm/secretsecret/v1/models")
    assert "secretsecret" not in written.getvalue()
    assert "could not ask http://h/llm/[token]/v1/models" in written.getvalue()


def test_what_is_no_token_stays() -> None:
    for line in ("POST /llm/v1/models", "GET /v1/episodes/0a8a-0", "who bears this", "a /practice/arithmetic/mcp call"):
        assert redact(line) == line
