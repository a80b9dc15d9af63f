"""Requests are bounded in time and size, follow nobody elsewhere, and keep tokens."""

import asyncio
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import pytest
from aiohttp import web

from rollouthub.errors import CredentialError, HubError
from rollouthub_registry.client.client_error import NotPublished, RegistryFault, RegistryRefused, TokenRefused
from rollouthub_registry.client.http_client import Patience
from rollouthub_registry.client.source import open_source
from tests.own_certificate import own_certificate
from tests.registry.client.hosts import (
    DICE,
    HURRIED,
    RELEASE,
    TOKEN,
    Handler,
    Use,
    files_of,
    find,
    host,
    hostile,
    knows_the_token,
    offers,
    says,
    state,
    yank,
)
from tests.registry.server.publishers import Publisher


def bundles(folder: Path) -> list[Path]:
    """What was brought into a folder."""
    return list(folder.iterdir())


def without_end(piece: bytes, seconds: float) -> Handler:
    """A body that goes on and on."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(piece)
            await asyncio.sleep(seconds)

    return answer


@pytest.mark.parametrize("use", [offers, yank])
async def test_a_registry_that_says_nothing_is_given_up(use: Use) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        await anyio.sleep_forever()
        raise AssertionError

    async with hostile(answer, HURRIED) as (source, _):
        with anyio.fail_after(5), pytest.raises(RegistryFault, match="too slow"):
            await use(source)


@pytest.mark.parametrize("use", [offers, state, yank])
async def test_a_body_that_drips_is_given_up(use: Use) -> None:
    async with hostile(without_end(b" ", 0.05), HURRIED) as (source, _):
        with anyio.fail_after(5), pytest.raises(RegistryFault, match="too slow"):
            await use(source)


async def test_a_body_without_end_is_given_up_and_leaves_no_file(folder: Path, tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("statement"):
            return web.FileResponse(folder / "packages/lab/dice/1.2.0/statement.dsse.json")
        return await without_end(bytes(2**16), 0.02)(request)

    target = tmp_path / "fetched"
    target.mkdir()
    async with hostile(answer, Patience(answer_seconds=0.3, slowest_bytes_per_second=1e9)) as (source, _):
        with anyio.fail_after(5), pytest.raises(RegistryFault, match="too slow"):
            await source.fetch(RELEASE, target)
    assert bundles(target) == []


@pytest.mark.parametrize("use", [state, yank])
async def test_a_body_longer_than_any_is_not_read(use: Use) -> None:
    async with hostile(without_end(bytes(2**20), 0)) as (source, _):
        with anyio.fail_after(5), pytest.raises(RegistryFault, match="sends more than"):
            await use(source)


async def test_a_body_that_says_it_is_too_long_is_not_read() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(2**40)})
        await response.prepare(request)
        await anyio.sleep_forever()
        return response

    async with hostile(answer) as (source, _):
        with anyio.fail_after(5), pytest.raises(RegistryFault, match="sends more than"):
            await source.statement(RELEASE)


async def test_a_compressed_bomb_is_not_unpacked() -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})

    async with hostile(answer) as (source, _):
        with pytest.raises(RegistryFault, match="compressed"):
            await source.offers(DICE)


@pytest.mark.parametrize("use", [offers, find, state, yank])
async def test_a_redirect_to_another_host_is_not_followed_and_the_token_stays(use: Use) -> None:
    async with host(says({"versions": [], "results": []})) as other:

        async def answer(request: web.Request) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": other.url + request.path})

        async with hostile(answer) as (source, _):
            with pytest.raises(RegistryFault, match="not followed there"):
                await use(source)
        assert (other.asked, other.tokens) == ([], [])


@pytest.mark.parametrize(
    "where", ["//evil.example/x", "https://127.0.0.1:1/", "file:///etc/passwd", "http://[", "\x1b[31m"]
)
async def test_a_registry_itself_does_not_lead_elsewhere(where: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": where.format(request.host)})

    async with host(answer) as up:
        with pytest.raises(RegistryFault) as refused:
            async with open_source(up.url):
                pass
    assert str(refused.value).isprintable()


async def test_a_redirect_on_the_same_host_is_followed_but_not_in_circles(folder: Path) -> None:
    plain = files_of(folder)

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/packages"):
            return web.Response(status=301, headers={"Location": "/moved" + request.path})
        if request.path.startswith("/moved"):
            return web.FileResponse(folder / request.path.removeprefix("/moved/"))
        if request.path == "/catalog.jsonl":
            return web.Response(status=302, headers={"Location": "/catalog.jsonl"})
        return await plain(request)

    async with host(answer) as up, open_source(up.url) as source:
        assert len(await source.offers(DICE)) == 4
        with pytest.raises(RegistryFault, match="in circles"):
            await source.search("dice")


async def test_what_changes_something_is_not_sent_again_on_the_same_host() -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async with hostile(answer) as (source, up):
        with pytest.raises(RegistryFault, match="sends elsewhere"):
            await source.yank(RELEASE, "why")
        assert [path for method, path in up.asked if method == "POST"] == ["/envhub/v1/packages/lab/dice/1.2.0/yank"]


async def test_a_token_goes_with_what_changes_something_and_with_nothing_else(folder: Path, tmp_path: Path) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({}, status=404)

    async with hostile(answer) as (source, up):
        for use in (offers, find, state):
            with pytest.raises(HubError):
                await use(source)
        assert up.tokens == []
        with pytest.raises(NotPublished):
            await yank(source)
        assert up.tokens == [f"Bearer {TOKEN}"]


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (400, RegistryRefused, "refuses it: because of this!"),
        (401, TokenRefused, "run `hub login http://127.0.0.1"),
        (403, RegistryRefused, "because"),
        (404, NotPublished, "lab/dice@1.2.0 is not published at"),
        (409, RegistryRefused, "because"),
        (413, RegistryRefused, "because"),
        (422, RegistryRefused, "because"),
        (429, RegistryFault, "try again in 12 s"),
        (500, RegistryFault, "cannot do it now: because"),
        (503, RegistryFault, "cannot do it now"),
    ],
)
async def test_an_error_says_what_to_do_and_drives_no_terminal(status: int, error: type[HubError], said: str) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        headers = {"Retry-After": "12"} if status == 429 else {}
        return web.json_response({"detail": "because \x1b[31m of\nthis" + "!" * 5000}, status=status, headers=headers)

    async with hostile(answer) as (source, _):
        with pytest.raises(error) as refused:
            await source.yank(RELEASE, "why")
    text = str(refused.value)
    assert said in text and text.isprintable() and len(text) < 700 and TOKEN not in text
    if isinstance(refused.value, RegistryFault) and status == 429:
        assert refused.value.retry_after_seconds == 12


async def test_a_registry_that_is_not_there_is_said_to_be_down() -> None:
    for url, said in (
        ("http://127.0.0.1:9", "cannot be reached: Connection refused"),
        ("https://127.0.0.1:9", "cannot be reached"),
    ):
        with pytest.raises(RegistryFault, match=said):
            async with open_source(url):
                pass


@pytest.mark.parametrize("is_encrypted", [True, False])
async def test_a_server_without_a_good_certificate_is_not_trusted(is_encrypted: bool, tmp_path: Path) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    context = own_certificate(tmp_path)[0] if is_encrypted else None
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RegistryFault, match="its TLS certificate does not hold"):
            async with open_source(f"https://127.0.0.1:{port}", TOKEN):
                pass


async def test_a_token_is_not_sent_unencrypted_to_another_machine() -> None:
    with pytest.raises(CredentialError, match="unencrypted"):
        async with open_source("http://hub.example", TOKEN):
            pass


async def test_the_users_proxy_is_asked_for_other_machines_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with host(files_of(folder)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        async with open_source("http://hub.example") as source:
            assert len(await source.offers(DICE)) == 4
        count = len(proxy.asked)
        async with host(files_of(folder)) as up, open_source(up.url) as source:
            await source.offers(DICE)
        assert len(proxy.asked) == count


async def test_an_upload_that_is_never_answered_is_given_up(publisher: Publisher) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        await anyio.sleep_forever()
        raise AssertionError

    offer = publisher.offer("lab/dice")
    async with hostile(knows_the_token(answer), HURRIED) as (source, _):
        with anyio.fail_after(5), pytest.raises(RegistryFault, match="too slow: given up POST"):
            await source.publish(offer.bundle.path, offer.envelope)


async def test_an_upload_is_sent_as_it_is_and_a_refusal_is_heard(publisher: Publisher) -> None:
    parts = dict[str, bytes]()

    async def answer(request: web.Request) -> web.StreamResponse:
        for key, value in (await request.post()).items():
            assert isinstance(value, web.FileField)
            parts[key] = value.file.read()
        return web.json_response({"detail": "not today"}, status=422)

    offer = publisher.offer("lab/dice")
    async with hostile(knows_the_token(answer)) as (source, up):
        with pytest.raises(RegistryRefused, match="refuses it: not today"):
            await source.publish(offer.bundle.path, offer.envelope)
        assert parts == {"statement": offer.envelope, "bundle": offer.bundle.path.read_bytes()}
        assert up.tokens == [f"Bearer {TOKEN}"] * 2


async def test_a_machine_that_takes_no_connection_is_given_up() -> None:
    with ExitStack() as sockets:
        full = sockets.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # who waits there fills its queue
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(full.getsockname())
        with anyio.fail_after(5), pytest.raises(RegistryFault, match=r"no connection within 0\.1 s"):
            async with open_source(f"http://127.0.0.1:{full.getsockname()[1]}", None, Patience(connect_seconds=0.1)):
                pass
