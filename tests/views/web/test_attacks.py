"""Who gets into `hub view`, and what they get: attacked as somebody would who can make a browser ask."""

import os
import re
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from rollouthub.errors import ConfigError
from rollouthub.http.page_guard import HOST
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.web.event_feed import MOST_STREAMS
from rollouthub.views.web.view_server import ViewOptions, view_served
from tests.store.records import record, write
from tests.tui.made import hostile_run
from tests.views.report.played import HOSTILE

from .conftest import Visit, served

PAGES = (
    "",
    "run/run",
    "run/run/rows",
    "run/run/tasks",
    "run/run/report",
    "run/run/rollout/g1-0",
    "view.css",
    "nothing",
)


async def raw(visit: Visit, target: str, *headers: str, method: str = "GET") -> tuple[int, str]:
    """Status and body of a request whose target and headers are sent as they are."""
    port = int(visit.server.guard.origin.rpartition(":")[2])
    cookie = f"Cookie: {visit.key['Cookie']}"
    lines = [f"{method} {target} HTTP/1.1", *headers, cookie, "Connection: close", "", ""]
    async with await anyio.connect_tcp(HOST, port) as stream:
        await stream.send("\r\n".join(lines).encode())
        got = b""
        with anyio.fail_after(30):
            try:
                while True:
                    got += await stream.receive()
            except anyio.EndOfStream:
                pass
    head, _, body = got.decode("utf-8", "replace").partition("\r\n\r\n")
    return int(head.split()[1]), body


async def test_the_token_lets_in_and_a_cookie_from_then_on(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("g1-0")])
    async with served(tmp_path / "run", expression="reward < 2") as visit:
        guard = visit.server.guard
        first = await visit.client.get(visit.server.address)
        assert first.status_code == 200
        assert guard.token not in first.text
        assert f'content="0;url={guard.place}run/run?filter=reward+%3C+2"' in first.text
        cookie = first.headers["set-cookie"]
        assert cookie.startswith(f"{guard.cookie}={guard.token};")
        assert {"HttpOnly", "SameSite=Strict", f"Path={guard.place}"} <= set(cookie.split("; "))
        assert first.headers["referrer-policy"] == "no-referrer"
        page = await visit.get("run/run")
        assert guard.token not in page.text and page.status_code == 200
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "trusted-types 'none'" in policy
        assert page.headers["cache-control"] == "no-store"
        assert "script" not in re.sub(r"<script src=[^>]*></script>", "", page.text).replace("description", "")
        assert len(guard.token) * 6 >= 128


@pytest.mark.parametrize("given", ["nothing", "wrong", "empty", "in the query", "another's cookie"])
async def test_without_the_token_nothing_is_told(tmp_path: Path, given: str) -> None:
    await write(tmp_path / "run", [record("g1-0")])
    async with served(tmp_path / "run") as visit:
        guard = visit.server.guard
        headers = {
            "wrong": {"Cookie": f"{guard.cookie}={guard.token[:-1]}{'y' if guard.token[-1] == 'x' else 'x'}"},
            "empty": {"Cookie": f"{guard.cookie}="},
            "another's cookie": {"Cookie": f"other={guard.token}", "Authorization": f"Bearer {guard.token}"},
        }.get(given, {})
        for page in PAGES:
            query = f"?token={guard.token}x" if given == "in the query" else ""
            answer = await visit.client.get(visit.base + page + query, headers=headers)
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers
            assert "g1" not in answer.text and "arithmetic" not in answer.text


async def test_other_names_and_other_pages_are_refused(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("g1-0")])
    async with served(tmp_path / "run") as visit:
        place = visit.server.guard.place
        port = visit.server.guard.origin.rpartition(":")[2]
        for host in (
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1",
            f"127.0.0.1:{int(port) + 1}",
            f"[::1]:{port}",
        ):
            for page in PAGES:
                assert (await raw(visit, place + page, f"Host: {host}"))[0] == 403, host
        assert (await raw(visit, place))[0] in (400, 403)
        ours = f"Host: 127.0.0.1:{port}"
        assert (await raw(visit, place, ours, "Host: evil.example"))[0] in (400, 403)
        assert (await raw(visit, place, ours))[0] == 200
        for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", f"http://localhost:{port}"):
            for page in PAGES:
                assert (await raw(visit, place + page, ours, f"Origin: {origin}"))[0] == 403, origin
        assert (await raw(visit, place, f"Host: localhost:{port}", f"Origin: http://localhost:{port}"))[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "../etc/passwd",
        "..%2f..%2fview_app.py",
        "%2e%2e/%2e%2e/etc/passwd",
        "....//view.css",
        "static/view.js",
        "view.css/../../http/page_guard.py",
        "view.css%00.html",
        "run/..",
        "run/..%2F..%2Fetc",
        "run/%2e%2e%2f%2e%2e%2frun.db",
        "run/run/../../../etc/passwd",
        "run/run/media/..%2F..%2Frun.db",
        "run/run/media/sha256:..%2Frun.db",
        "run/run/rollout/..%2F..%2Frun.db",
        "run/run%00",
        "run//etc/passwd",
        "//etc/passwd",
    ],
)
async def test_no_path_leads_to_a_file(tmp_path: Path, path: str) -> None:
    await write(tmp_path / "run", [record("g1-0")])
    async with served(tmp_path / "run") as visit:
        host = f"Host: {visit.server.guard.origin.removeprefix('http://')}"
        for target in (visit.server.guard.place + path, f"/{path}"):
            status, body = await raw(visit, target, host)
            assert status in (400, 404), target
            assert "root:" not in body and "SQLite format" not in body and "import" not in body


async def test_only_a_form_of_these_pages_changes_anything(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record("g1-0")])
    async with served(tmp_path / "run") as visit:
        guard = visit.server.guard
        form = {"key": guard.form_key}
        assert (await visit.post("run/run/do/pause", form)).status_code == 409, "nothing plays"
        for wrong in ({}, {"key": ""}, {"key": guard.form_key[:-1]}, {"key": guard.token}):
            assert (await visit.post("run/run/do/pause", wrong)).status_code == 403
        assert (await visit.post("run/run/do/pause", form, {"Origin": "http://evil.example"})).status_code == 403
        assert (await visit.post("run/run/do/pause", form, {"Origin": "null"})).status_code == 403
        without = await visit.client.post(f"{visit.base}run/run/do/pause", data=form, headers=visit.key)
        assert (without.status_code, without.text) == (403, "only a page of this server may ask for that\n")
        origin = {"Origin": guard.origin}
        stranger = await visit.client.post(
            f"{visit.base}run/run/do/pause?token={guard.token}", data=form, headers=origin
        )
        assert stranger.status_code == 401, "a token in an address only reads"
        assert (await visit.post("run/run/do/pause", {"key": "k" * 200_000})).status_code == 400
        for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
            answer = await visit.client.request(method, visit.base, headers=visit.key | origin)
            assert answer.status_code == 405
        assert (await visit.get("run/run/do/explode")).status_code == 400


async def test_text_of_strangers_is_text_on_every_page(tmp_path: Path) -> None:
    await hostile_run(tmp_path / "run")
    async with served(tmp_path / "run") as visit:
        page = (await visit.get("run/run")).text
        links = {each for each in re.findall(r'href="([^"]*)"', page) if "/rollout/" in each or "/task/" in each}
        pages = ["", "run/run", "run/run/tasks", "run/run/report", "run/run/rows"]
        pages += [link.replace("&amp;", "&").removeprefix(visit.server.guard.place).partition("#")[0] for link in links]
        assert len(pages) > 7
        for path in [*pages, f"run/run?filter={HOSTILE[:200]}", f"run/{HOSTILE[:90]}", f"run/run?sort={HOSTILE[:90]}"]:
            answer = await visit.client.get(visit.base + path, headers=visit.key)
            text = answer.text
            assert answer.status_code in (200, 404), path
            for evil in (
                "<script>",
                "onerror=alert(2)>",
                "<svg onload",
                "<style>*",
                "<meta http-equiv",
                "<base",
                "<img src=x",
            ):
                assert evil not in text, (path[:60], evil)
            assert not re.search(r'(href|src)="javascript:', text)
            assert not re.search("[\x00\x08\x1b\x9b\u202e\u2066]", text)


async def test_the_server_is_loopback_and_a_port_that_is_taken_is_said_to_be(tmp_path: Path) -> None:
    assert HOST == "127.0.0.1"
    with socket.create_server((HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with view_served(ViewOptions((), (tmp_path,), {}, Plainness(str), port)):
                pass


async def test_a_folder_whose_name_is_no_text_takes_no_page_with_it(tmp_path: Path) -> None:
    await write(tmp_path / "runs" / "good", [record("g1-0")])
    for name in (b"b\xff", b"b\xfe"):
        await write(tmp_path / "runs" / "new", [record("g1-0")])
        (tmp_path / "runs" / "new").rename(os.fsdecode(bytes(tmp_path) + b"/runs/" + name))
    async with served(roots=(tmp_path / "runs",)) as visit:
        listed = await visit.get("")
        assert listed.status_code == 200
        links = set(re.findall(r'href="([^"?]*/run/[^"?]*)"', listed.text))
        assert len(links) == 3
        for link in links:
            assert (await visit.get(link.removeprefix(visit.server.guard.place))).status_code == 200


async def test_pages_that_ask_at_once_get_no_more_streams_than_there_are(tmp_path: Path) -> None:
    async with served(roots=(tmp_path,)) as visit:
        port = int(visit.server.guard.origin.rpartition(":")[2])
        host, cookie = f"Host: 127.0.0.1:{port}", f"Cookie: {visit.key['Cookie']}"
        asked = f"GET {visit.server.guard.place}events HTTP/1.1\r\n{host}\r\n{cookie}\r\n\r\n".encode()
        async with AsyncExitStack() as stack:
            streams = [
                await stack.enter_async_context(await anyio.connect_tcp(HOST, port)) for _ in range(MOST_STREAMS + 9)
            ]
            async with anyio.create_task_group() as tasks:
                for stream in streams:
                    tasks.start_soon(stream.send, asked)
            with anyio.fail_after(30):
                answers = [(await stream.receive())[9:12] for stream in streams]
        assert (answers.count(b"200"), answers.count(b"503")) == (MOST_STREAMS, 9)
