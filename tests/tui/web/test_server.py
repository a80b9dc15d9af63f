"""Who gets into `hub watch --web`, and what they get. Attacked as somebody would who can make a browser ask."""

import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from rollouthub.errors import UsageError
from rollouthub_tui.web.browser_tab import session_environment
from rollouthub_tui.web.server import HOST, Rooms, Serving, served


@asynccontextmanager
async def open_rooms(folder: Path) -> AsyncGenerator[tuple[Rooms, aiohttp.ClientSession]]:
    """A server, and a visitor without a cookie."""
    async with served(Serving(None, (folder,), {"HOME": str(folder)})) as rooms, aiohttp.ClientSession() as visitor:
        yield rooms, visitor


async def asked(
    visitor: aiohttp.ClientSession, address: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> tuple[int, str, Mapping[str, str]]:
    """The answer's status, text and headers; its path goes out as it is written here."""
    import yarl

    url = yarl.URL(address, encoded=True)
    async with visitor.request(method, url, headers=headers, allow_redirects=False) as answer:
        return answer.status, (await answer.read()).decode("utf-8", "replace"), answer.headers


def base(rooms: Rooms) -> str:
    """The place, without the token."""
    return rooms.guard.address.partition("?")[0]


def key(rooms: Rooms) -> dict[str, str]:
    """What the browser of somebody who was let in sends."""
    return {"Cookie": f"{rooms.guard.cookie}={rooms.guard.token}"}


async def test_the_token_lets_in_once_and_a_cookie_from_then_on(tmp_path: Path) -> None:
    async with open_rooms(tmp_path) as (rooms, visitor):
        status, page, headers = await asked(visitor, rooms.guard.address)
        assert status == 200
        assert rooms.guard.token not in page
        assert f'url={rooms.guard.place}"' in page
        cookie = headers["Set-Cookie"]
        assert cookie.startswith(f"{rooms.guard.cookie}={rooms.guard.token};")
        assert {"HttpOnly", "SameSite=Strict", f"Path={rooms.guard.place}"} <= set(cookie.split("; "))
        status, page, headers = await asked(visitor, base(rooms), key(rooms))
        assert status == 200
        assert rooms.guard.token not in page
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert (headers["Referrer-Policy"], headers["Cache-Control"]) == ("no-referrer", "no-store")
        for name in ("textual.js", "xterm.css", "page.css", "font.ttf"):
            assert f'{name}"' in page or name == "font.ttf"
            assert (await asked(visitor, base(rooms) + name, key(rooms)))[0] == 200
        assert len(rooms.guard.token) * 6 >= 128


@pytest.mark.parametrize("name", ["", "ws", "textual.js", "page.css", "no-such-thing"])
@pytest.mark.parametrize("given", ["nothing", "wrong", "empty", "in the query", "another's cookie"])
async def test_without_the_token_nothing_is_told(tmp_path: Path, name: str, given: str) -> None:
    async with open_rooms(tmp_path) as (rooms, visitor):
        guard = rooms.guard
        headers = {
            "wrong": {"Cookie": f"{guard.cookie}={guard.token[:-1]}é"},
            "empty": {"Cookie": f"{guard.cookie}="},
            "another's cookie": {"Cookie": f"other={guard.token}", "Authorization": f"Bearer {guard.token}"},
        }.get(given, {})
        query = f"?token={guard.token}x" if given == "in the query" else ""
        if name == "ws":
            headers = {**headers, "Origin": base(rooms).rsplit("/", 2)[0]}
        status, text, answered = await asked(visitor, f"{base(rooms)}{name}{query}", headers)
        assert status == 401
        assert "Set-Cookie" not in answered
        assert "textual" not in text
        assert rooms.sessions == 0


async def test_another_name_another_page_and_no_page_are_refused(tmp_path: Path) -> None:
    async with open_rooms(tmp_path) as (rooms, visitor):
        port = base(rooms).split(":")[2].split("/")[0]
        for host in (
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1",
            f"127.0.0.1:{int(port) + 1}",
            f"[::1]:{port}",
        ):
            for address in (rooms.guard.address, f"{base(rooms)}ws"):
                status, text, _ = await asked(visitor, address, {**key(rooms), "Host": host})
                assert (status, "Set-Cookie" in text) == (403, False), host
        for origin in (
            "http://evil.example",
            "null",
            f"https://127.0.0.1:{port}",
            f"http://127.0.0.1:{port}.evil.example",
        ):
            for name in ("", "ws"):
                assert (await asked(visitor, base(rooms) + name, {**key(rooms), "Origin": origin}))[0] == 403, origin
        for origin in (None, "http://evil.example", f"http://localhost:{port}"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await visitor.ws_connect(f"{base(rooms)}ws", headers=key(rooms), origin=origin)
            assert refused.value.status == 403
        assert rooms.sessions == 0


@pytest.mark.parametrize(
    "path",
    [
        "../page.py",
        "..%2f..%2fserver.py",
        "%2e%2e/%2e%2e/etc/passwd",
        "....//textual.js",
        "static/textual.js",
        "/etc/passwd",
        "textual.js/../../guard.py",
        "textual.js%00.css",
        "download/x",
        "ws/..",
    ],
)
async def test_no_path_leads_to_a_file_that_is_not_the_pages(tmp_path: Path, path: str) -> None:
    async with open_rooms(tmp_path) as (rooms, visitor):
        status, text, _ = await asked(visitor, base(rooms) + path, key(rooms))
        assert (status, text) == (404, "Not Found\n")
        root = base(rooms).removesuffix(rooms.guard.place)
        assert (await asked(visitor, f"{root}/{path.lstrip('/')}", key(rooms)))[0] == 404


async def test_nothing_but_reading_is_answered_and_everything_is_loopback(tmp_path: Path) -> None:
    async with open_rooms(tmp_path) as (rooms, visitor):
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            assert (await asked(visitor, base(rooms), key(rooms), method))[0] == 405
        assert base(rooms).startswith(f"http://{HOST}:")
        assert HOST == "127.0.0.1"


async def test_a_port_that_is_taken_is_said_to_be(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of 127.0.0.1 cannot be had: another program has it"):
            async with served(Serving(None, (tmp_path,), {}, port=port)):
                pass


def test_a_session_gets_no_secrets() -> None:
    given = {"HOME": "/h", "LC_ALL": "C", "XDG_STATE_HOME": "/s", "OPENAI_API_KEY": "sk", "SSH_AUTH_SOCK": "s"}
    kept = session_environment(given, 80, 24)
    assert {"HOME", "LC_ALL", "XDG_STATE_HOME"} <= set(kept)
    assert not {"OPENAI_API_KEY", "SSH_AUTH_SOCK"} & set(kept)
