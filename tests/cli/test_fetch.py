"""`hub fetch`: the data of named benchmarks, by command alone, held to their digests, resumed after a break."""

import hashlib
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web
from anyio import from_thread, to_thread

from rollouthub.authoring.rows import PinnedFile, fetch_file, fetched_file
from tests.local_server import serving

from .conftest import Done, Hub

ROWS = "".join(json.dumps({"problem": f"{n} + {n}?", "answer": str(2 * n)}) + "\n" for n in range(2000)).encode()
DIGEST = hashlib.sha256(ROWS).hexdigest()
CUT = 40_000
PRESET = """
from rollouthub.plugins.preset import Preset
from rollouthub_servers.math import MathProblems

sums = Preset(MathProblems, {{"data": {data!r}}})
"""
MANIFEST = """
name = "me/sums"

[python]
entry = "pinned_sums:sums"
distribution = "sums"
"""


class Files:
    """A file server that notes what ranges it is asked for, and may break off."""

    def __init__(self) -> None:
        self.url, self.content, self.ranges = "", ROWS, list[str | None]()
        self.takes_ranges, self.breaks_off = True, False

    async def answer(self, request: web.Request) -> web.StreamResponse:
        wanted = request.headers.get("Range")
        self.ranges.append(wanted)
        begin = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.takes_ranges else 0
        response = web.StreamResponse(status=206 if begin else 200)
        response.content_length = len(self.content) - begin
        if begin:
            response.headers["Content-Range"] = f"bytes {begin}-{len(self.content) - 1}/{len(self.content)}"
        await response.prepare(request)
        rest = self.content[begin:]
        await response.write(rest[:CUT] if self.breaks_off else rest)
        if self.breaks_off:
            assert request.transport is not None
            request.transport.close()
        return response


@asynccontextmanager
async def files() -> AsyncGenerator[Files]:
    """The server, on a port of its own."""
    server, app = Files(), web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    async with serving(app) as server.url:
        yield server


class Reader:
    """Somebody with an empty cache and a benchmark whose data lie on a server."""

    def __init__(self, hub: Hub, folder: Path, url: str) -> None:
        self._hub, self.cache = hub, folder / "cache" / "rollouthub" / "tasks"
        self._home = str(folder / "cache")
        pinned = {"url": f"{url}/sums.jsonl", "sha256": DIGEST, "rows": 2000}
        (folder / "sums").mkdir()
        data = {"name": "sums", "splits": {"test": pinned}}
        (folder / "sums" / "pinned_sums.py").write_text(PRESET.format(data=data))
        (folder / "sums" / "env.toml").write_text(MANIFEST)

    async def __call__(self, *words: str) -> Done:
        """Run `hub` with these words."""
        return await to_thread.run_sync(lambda: self._hub(*words, XDG_CACHE_HOME=self._home))

    @property
    def kept(self) -> dict[str, int]:
        """The files in the cache, with their sizes."""
        return {file.name: file.stat().st_size for file in self.cache.iterdir()}


async def test_data_come_by_command_alone_and_once(hub: Hub, tmp_path: Path) -> None:
    async with files() as server:
        reader = Reader(hub, tmp_path, server.url)
        refused = (await reader("run", "sums", "--agent", "oracle")).refused()
        assert "`hub fetch sums`" in refused
        assert server.url in refused
        assert server.ranges == []
        done = await reader("fetch", "sums", "--json")
        (file,) = done.json["files"]
        assert (file["name"], file["split"], file["rows"], file["fetched"]) == ("sums", "test", 2000, True)
        assert (file["path"], reader.kept) == (str(reader.cache / f"{DIGEST}.jsonl"), {f"{DIGEST}.jsonl": len(ROWS)})
        again = await reader("fetch", "sums")
        assert (again.code, "was here" in again.err, len(server.ranges)) == (0, True, 1)
    ran = await reader("run", "sums", "--agent", "oracle", "--limit", "3", "--json")
    assert ran.json["mean_reward"] == 1.0


async def test_a_broken_download_goes_on_where_it_ended(hub: Hub, tmp_path: Path) -> None:
    async with files() as server:
        reader = Reader(hub, tmp_path, server.url)
        server.breaks_off = True
        assert f"{CUT:,} bytes are kept" in (await reader("fetch", "sums")).refused()
        server.breaks_off = False
        done = await reader("fetch", "sums")
        assert (done.code, server.ranges) == (0, [None, f"bytes={CUT}-"])
    assert reader.kept == {f"{DIGEST}.jsonl": len(ROWS)}


async def test_a_server_that_knows_no_ranges_begins_anew(hub: Hub, tmp_path: Path) -> None:
    async with files() as server:
        reader = Reader(hub, tmp_path, server.url)
        server.breaks_off, server.takes_ranges = True, False
        (await reader("fetch", "sums")).refused()
        server.breaks_off = False
        assert (await reader("fetch", "sums")).code == 0
    assert list(reader.kept.values()) == [len(ROWS)]


@pytest.mark.parametrize("other", [ROWS.replace(b"9", b"8"), ROWS[:-10], b""], ids=["changed", "short", "empty"])
async def test_other_bytes_are_refused_and_not_kept(other: bytes, hub: Hub, tmp_path: Path) -> None:
    async with files() as server:
        reader = Reader(hub, tmp_path, server.url)
        server.content = other
        refused = (await reader("fetch", "sums")).refused()
    assert f"has the digest {hashlib.sha256(other).hexdigest()}, not the declared" in refused
    assert reader.kept == {}


async def test_what_was_changed_since_is_not_played(hub: Hub, tmp_path: Path) -> None:
    async with files() as server:
        reader = Reader(hub, tmp_path, server.url)
        await reader("fetch", "sums")
        (name,) = reader.kept
        (reader.cache / name).write_bytes(ROWS.replace(b"9", b"8"))
        assert "are not on this machine" in (await reader("run", "sums", "--agent", "oracle")).refused()
        done = await reader("fetch", "sums", "--json")
        assert done.json["files"][0]["fetched"] is True


async def test_a_mirror_serves_the_same_paths_and_is_held_to_the_same_digests(hub: Hub, tmp_path: Path) -> None:
    async with files() as server:
        reader = Reader(hub, tmp_path, server.url)
        refused = (await reader("fetch", "gsm8k", "--mirror", f"{server.url}/raw/")).refused()
        assert f"{server.url}/raw/openai/grade-school-math/" in refused
        assert "not the declared sha256" in refused or "more than 749,738 bytes" in refused


async def test_a_shipped_benchmark_is_what_its_project_published(hub: Hub, tmp_path: Path, real_data: Path) -> None:
    async with files() as server:
        reader = Reader(hub, tmp_path, server.url)
        server.content = (real_data / "humaneval" / "HumanEval.jsonl.gz").read_bytes()
        done = await reader("fetch", "humaneval", "--mirror", server.url, "--json")
        assert [(each["rows"], each["bytes"]) for each in done.json["files"]] == [(164, len(server.content))]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gsm8l",), "did you mean 'gsm8k'"),
        (("arithmetic",), "pins no data"),
        (("gsm8k", "--mirror", "ftp://example.org"), "no http or https address"),
        (("gsm8k", "--mirror", "https://me:secret@example.org"), "without a login"),
    ],
)
def test_what_cannot_be_fetched_is_named(words: tuple[Any, ...], said: str, hub: Hub, tmp_path: Path) -> None:
    refused = hub("fetch", *words, XDG_CACHE_HOME=str(tmp_path)).refused()
    assert said in refused
    assert "secret" not in refused


async def test_bytes_that_trickle_in_are_counted_as_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fetched_file, "_STILL_SECONDS", 2.0)
    first_is_seen = anyio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(ROWS[:1])
        await first_is_seen.wait()
        await response.write(ROWS[1:])
        return response

    app = web.Application()
    app.router.add_get("/rows.jsonl", answer)

    def seen(have: int, _of: int | None) -> None:
        if have:
            from_thread.run_sync(first_is_seen.set)

    async with serving(app) as url:
        file = PinnedFile(url=f"{url}/rows.jsonl", sha256=DIGEST)
        path = await to_thread.run_sync(lambda: fetch_file(file, seen=seen))
    assert path.read_bytes() == ROWS
