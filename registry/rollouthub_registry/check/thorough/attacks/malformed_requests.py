"""Attack: malformed, oversized and truncated requests; the server must refuse them and stay up."""

import gzip
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

import anyio

from rollouthub_registry.check.thorough import raw_mcp
from rollouthub_registry.check.thorough.access_points import OpenEpisode
from rollouthub_registry.check.thorough.attack import Attack, NotTried
from rollouthub_registry.check.thorough.attack_context import AttackContext
from rollouthub_registry.check.thorough.raw_exchange import RawExchange

OVERSIZE = 5 * 2**20
MODEL_API_OVERSIZE = 40 * 2**20
_HANGING = 40
_STILL_SECONDS = 5.0


def _malformed() -> Iterator[tuple[str, bytes]]:
    good = json.loads(raw_mcp.modern_request("tools/list")[0])
    yield "nothing", b""
    yield "half an object", b'{"jsonrpc": "2.0", "id": 1'
    yield "a list", b"[]"
    yield "a batch", json.dumps([good, good]).encode()
    yield "null", b"null"
    yield "a number", b"1"
    yield "a text", b'"tools/list"'
    yield "no JSON", b"tools/list"
    yield "bytes that are no UTF-8", b'{"jsonrpc": "2.0", "id": 1, "method": "\xff\xfe"}'
    yield "NaN", b'{"jsonrpc": "2.0", "id": NaN, "method": "tools/list"}'
    yield "deep nesting", b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": ' + b"[" * 100_000
    yield "deep objects", b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    yield "half a surrogate", b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "\\ud800"}}'
    yield "zero bytes", b"\0" * 1000
    changes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("no version", {"jsonrpc": None}),
        ("another version", {"jsonrpc": "1.0"}),
        ("a number for a method", {"method": 7}),
        ("no method", {"method": None}),
        ("a list for params", {"params": []}),
        ("an object for an id", {"id": {"x": 1}}),
        ("a list for an id", {"id": [1]}),
    )
    for what, change in changes:
        changed = {key: value for key, value in {**good, **change}.items() if value is not None}
        yield what, json.dumps(changed).encode()


async def malformed(context: AttackContext) -> str:
    """Bodies and headers that are not JSON-RPC must be refused with a proper error, in both eras."""
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            _, modern = raw_mcp.modern_request("tools/list")
            session = await context.session(opened)
            for what, body in _malformed():
                for headers in (modern, {**raw_mcp.ACCEPT, **session.headers}, raw_mcp.ACCEPT):
                    where = f"{what} at the {opened.access_point}"
                    answer = await context.wire.send(where, "POST", opened.place.url, body, headers)
                    _must_refuse(context, what, answer, opened)
            for what, headers in _odd_headers(modern).items():
                body = raw_mcp.modern_request("tools/list")[0]
                if what == "a compressed body":
                    body = gzip.compress(body)
                answer = await context.wire.send(
                    f"{what} at the {opened.access_point}", "POST", opened.place.url, body, headers
                )
                if answer.status is not None and answer.status >= 500:
                    context.note(f"{what}: HTTP {answer.status} at the {opened.access_point}", answer)
            await _still_there(context, opened)
    return f"{context.wire.requests} malformed requests are refused"


def _odd_headers(modern: dict[str, str]) -> dict[str, dict[str, str]]:
    return {
        "another method in the headers": {**modern, "Mcp-Method": "tools/call"},
        "a protocol version of no year": {**modern, "MCP-Protocol-Version": "1999-01-01"},
        "no protocol version": {key: value for key, value in modern.items() if key != "MCP-Protocol-Version"},
        "no content type": {**modern, "Content-Type": "text/plain"},
        "an Accept of nothing": {**modern, "Accept": "image/png"},
        "a compressed body": {**modern, "Content-Encoding": "gzip"},
        "a thousand headers": modern | {f"X-{number}": "x" for number in range(90)},
        "a long header": {**modern, "X-Long": "x" * 6000},
    }


def _must_refuse(context: AttackContext, what: str, answer: RawExchange, opened: OpenEpisode) -> None:
    if answer.status is None:
        if answer.is_timed_out:
            context.note(f"{what} is not answered at all at the {opened.access_point}", answer)
    elif answer.status >= 500:
        context.note(f"{what} breaks the server: HTTP {answer.status} at the {opened.access_point}", answer)
    elif answer.result is not None and answer.is_granted:
        context.note(f"{what} is taken for a request at the {opened.access_point}", answer)


async def _still_there(context: AttackContext, opened: OpenEpisode) -> None:
    answer = await context.ask(opened, "tools/list")
    if not answer.is_granted:
        context.note(f"after all that the {opened.access_point} no longer answers", answer)


async def oversize(context: AttackContext) -> str:
    """Oversized bodies and headers must be cut off, whether or not they announce their size."""
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            body, headers = raw_mcp.modern_request(
                "tools/call", {"name": "get_task", "arguments": {"x": "y" * OVERSIZE}}
            )
            await _send_large(context, opened, "a body of 5 MiB", opened.place.url, body, headers)
            if opened.place.llm_url is not None:
                talk = {"model": "any", "messages": [{"role": "user", "content": "y" * MODEL_API_OVERSIZE}]}
                url = f"{opened.place.llm_url}/chat/completions"
                await _send_large(context, opened, "a talk of 40 MiB", url, json.dumps(talk).encode(), raw_mcp.ACCEPT)
            endless = _head(opened, "POST") + b"".join(b"X-%d: %s\r\n" % (number, b"y" * 1000) for number in range(400))
            answer = await context.wire.raw(
                f"400 KB of headers at the {opened.access_point}", opened.place.base, endless
            )
            if answer.status is not None and answer.status < 400:
                context.note(f"headers without an end are taken at the {opened.access_point}", answer)
            await _still_there(context, opened)
    return "what is too large is refused"


async def _send_large(
    context: AttackContext, opened: OpenEpisode, what: str, url: str, body: bytes, headers: dict[str, str]
) -> None:
    answer = await context.wire.send(f"{what} at the {opened.access_point}", "POST", url, body, headers)
    if answer.status is not None and (answer.status < 400 or answer.status >= 500):
        context.note(f"{what} is answered with {answer.status} at the {opened.access_point}", answer)


def _head(opened: OpenEpisode, method: str, more: bytes = b"") -> bytes:
    parts = urlsplit(opened.place.url)
    accept = b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    return f"{method} {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n".encode() + accept + more


async def smuggled(context: AttackContext) -> str:
    """Two lengths, a length with chunks, and invalid headers must be refused, and hide no second request."""
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            body = raw_mcp.modern_request("tools/list")[0]
            hidden = _head(opened, "POST") + b"\r\n"
            cases = {
                "two lengths": b"Content-Length: 5\r\nContent-Length: %d\r\n\r\n" % len(body) + body,
                "a length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
                "a length below zero": b"Content-Length: -5\r\n\r\n" + body,
                "a length that is no number": b"Content-Length: 0x10\r\n\r\n" + body,
                "chunks that are none": b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
                "a header without a name": b": x\r\n\r\n",
                "a bare line feed": b"X: y\nContent-Length: 0\n\n",
                "a zero byte in a header": b"X: a\0b\r\nContent-Length: 0\r\n\r\n",
                "no HTTP": b"\r\n\r\n\x16\x03\x01\x02\x00",
            }
            for what, rest in cases.items():
                payload = _head(opened, "POST") + rest if what != "no HTTP" else rest
                answer = await context.wire.raw(
                    f"{what} at the {opened.access_point}", opened.place.base, payload, seconds=1.0
                )
                if (
                    answer.status is not None
                    and (answer.status < 300 or answer.status >= 500)
                    and what != "two lengths"
                ):
                    context.note(f"{what}: HTTP {answer.status} at the {opened.access_point}", answer)
            await _still_there(context, opened)
    return "requests that could be read in two ways are refused"


async def slow(context: AttackContext) -> str:
    """Clients that start a request and never finish it must not delay answers to others."""
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            parts = urlsplit(opened.place.url)
            async with AsyncExitStack() as stack:
                for number in range(_HANGING):
                    stream = await stack.enter_async_context(
                        await anyio.connect_tcp(parts.hostname or "", parts.port or 80)
                    )
                    begun = _head(opened, "POST", b"Content-Length: 1000\r\n")
                    await stream.send(begun[: 20 + number] if number % 2 else begun + b'\r\n{"json')
                with anyio.move_on_after(_STILL_SECONDS) as patience:
                    await _still_there(context, opened)
                if patience.cancelled_caught:
                    context.note(
                        f"{_HANGING} clients that do not go on hold up every other one at the {opened.access_point}"
                    )
            await _still_there(context, opened)
    return f"beside {_HANGING} clients that do not go on, others are answered"


async def foreign_origin(context: AttackContext) -> str:
    """Requests of a browser through DNS rebinding or from another origin must be refused."""
    if not context.is_local:
        raise NotTried("the server is not on this machine, so which names are its own is not known")
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            for headers in (
                {"Host": "evil.example"},
                {"Host": "evil.example:80", "Origin": "http://evil.example"},
                {"Origin": "http://evil.example"},
                {"Origin": "null"},
                {"Origin": "http://127.0.0.1.evil.example"},
                {"Origin": "file://"},
            ):
                where = f"{headers} at the {opened.access_point}"
                answer = await raw_mcp.modern(context.wire, where, opened.place.url, "tools/list", headers=headers)
                context.must_refuse(answer, f"a request with {headers} is served at the {opened.access_point}")
                if "access-control-allow-origin" in answer.headers:
                    context.note(f"pages from elsewhere may read what the {opened.access_point} answers", answer)
                if opened.place.llm_url is not None:
                    url = f"{opened.place.llm_url}/models"
                    answer = await context.wire.send(f"models with {headers}", "GET", url, None, headers)
                    context.must_refuse(answer, f"a request with {headers} is served at the model API")
    return "foreign names and origins are refused"


ATTACKS = (
    Attack("malformed", "protocol", "what is no request is refused, and breaks nothing", malformed),
    Attack("oversize", "protocol", "what is too large is refused, and not kept", oversize),
    Attack("smuggled", "protocol", "what could be read in two ways is refused", smuggled),
    Attack("slow-clients", "protocol", "a client that does not go on delays no other client", slow),
    Attack("foreign-origin", "protocol", "pages and names from elsewhere are refused", foreign_origin),
)
