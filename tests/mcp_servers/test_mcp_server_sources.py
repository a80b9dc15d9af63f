"""Tasks of a declared environment from elsewhere: fetched once, held to their digest, never in another's place."""

import hashlib
import json
import tomllib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import tomli_w
from aiohttp import web

from rollouthub import BadRow
from rollouthub.errors import ConfigError
from tests.local_server import serving
from tests.mcp_servers.foreign import TASK, hosted, make

ROWS = json.dumps(TASK | {"id": "far"}).encode() + b"\n"
DIGEST = hashlib.sha256(ROWS).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where fetched files are kept, empty at first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rollouthub" / "tasks"


class Elsewhere:
    """A file server that counts what it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        if request.path == "/lost.jsonl":
            raise web.HTTPNotFound
        return web.Response(body=ROWS)


@asynccontextmanager
async def elsewhere() -> AsyncGenerator[Elsewhere]:
    """The server, on a port of its own."""
    server, app = Elsewhere(), web.Application()
    app.router.add_get("/{file}", server.answer)
    async with serving(app) as server.url:
        yield server


def declared(folder: Path, source: dict[str, Any]) -> Path:
    """An environment whose only split has a source."""
    file = make(folder / "notes")
    values = tomllib.loads(file.read_text())
    file.write_text(tomli_w.dumps(values | {"tasks": {"test": source}}))
    return file


async def task_ids(file: Path) -> list[str]:
    """The tasks, as a run finds them."""
    with anyio.fail_after(20):
        async with hosted(file) as host:
            cards = [card async for card in host.tasks("test", 0)]
    return [card.public.id for card in cards if not isinstance(card, BadRow)]


def kept(cache: Path) -> list[str]:
    """The names of the files in the cache."""
    return [entry.name for entry in cache.iterdir()]


def keep(cache: Path, name: str, content: bytes) -> None:
    """Put a file into the cache."""
    cache.mkdir(parents=True)
    (cache / name).write_bytes(content)


async def test_tasks_are_fetched_once(tmp_path: Path, cache: Path) -> None:
    async with elsewhere() as server:
        file = declared(tmp_path, {"url": f"{server.url}/rows.jsonl", "sha256": DIGEST})
        assert await task_ids(file) == ["far"]
        assert await task_ids(file) == ["far"]
        assert server.asked == 1
    assert kept(cache) == [f"{DIGEST}.jsonl"]


async def test_a_kept_file_that_was_changed_is_fetched_anew(tmp_path: Path, cache: Path) -> None:
    keep(cache, f"{DIGEST}.jsonl", ROWS.replace(b"far", b"own"))
    async with elsewhere() as server:
        file = declared(tmp_path, {"url": f"{server.url}/rows.jsonl", "sha256": DIGEST})
        assert await task_ids(file) == ["far"]


async def test_other_tasks_in_its_place_are_refused(tmp_path: Path, cache: Path) -> None:
    async with elsewhere() as server:
        file = declared(tmp_path, {"url": f"{server.url}/rows.jsonl", "sha256": "0" * 64})
        with pytest.raises(ConfigError, match=rf"tasks\.test: what http\S+ gives has the digest {DIGEST}, not"):
            await task_ids(file)
    assert kept(cache) == []


async def test_what_cannot_be_fetched_says_so(tmp_path: Path, cache: Path) -> None:
    async with elsewhere() as server:
        file = declared(tmp_path, {"url": f"{server.url}/lost.jsonl", "sha256": DIGEST})
        with pytest.raises(ConfigError, match=r"tasks\.test: http\S+ could not be fetched: HTTP Error 404"):
            await task_ids(file)
    assert kept(cache) == []


async def test_a_url_must_name_a_data_file(tmp_path: Path) -> None:
    file = declared(tmp_path, {"url": "https://example.org/rows", "sha256": DIGEST})
    with pytest.raises(ConfigError, match="names no data file; its path must end in"):
        await task_ids(file)


async def test_a_file_here_is_held_to_its_digest(tmp_path: Path) -> None:
    file = declared(tmp_path, {"file": "tasks.jsonl", "sha256": DIGEST})
    with pytest.raises(ConfigError, match=r"tasks\.test: .*tasks\.jsonl has the digest \w+, not the declared"):
        await task_ids(file)
    (file.parent / "tasks.jsonl").write_bytes(ROWS)
    assert await task_ids(file) == ["far"]


@pytest.mark.live
async def test_rows_come_from_a_hugging_face_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets", reason="datasets is not installed")
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "validation.jsonl").write_bytes(ROWS)
    monkeypatch.chdir(tmp_path)
    source = {"hf": "set", "split": "validation", "revision": "0" * 40}
    assert await task_ids(declared(tmp_path, source)) == ["far"]
