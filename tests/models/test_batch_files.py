"""The files of a run's batches, where others wrote to its folder, and outputs that unpack without end."""

import os
import zlib
from pathlib import Path

import anyio
import pytest
from aiohttp import web

from rollouthub import ModelError
from rollouthub.errors import StoreError
from rollouthub.models.openai import batch_queue
from rollouthub.models.openai.batch_answers import find_answers
from rollouthub.models.openai.batch_journal import BatchJournal, read_batches
from tests.models.openai_server import OpenAIServer
from tests.models.test_batches import Batches, answers, echo, texts

MARK = "0123456789abcdef"
BEGUN = f'{{"batch": "{MARK}", "path": "/chat/completions", "custom_ids": ["call-0"], "created": 1}}\n'


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_queue, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(batch_queue, "FIRST_POLL_SECONDS", 0.02)
    monkeypatch.setattr(batch_queue, "SHORT_PATIENCE_SECONDS", 0.1)


def plant(path: Path, kind: str) -> None:
    """Put something else in a file's place."""
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a folder":
        path.mkdir()
    else:
        secret = path.parent.parent / "secret"
        secret.write_text(BEGUN)
        path.symlink_to(secret if kind == "a link" else "/dev/zero")


@pytest.mark.parametrize("kind", ["a link", "a link to a device", "a pipe", "a folder"])
def test_what_lies_in_the_place_of_a_journal_is_not_read(tmp_path: Path, kind: str) -> None:
    (tmp_path / "model").mkdir(mode=0o700)
    plant(tmp_path / "model" / "journal.jsonl", kind)
    with pytest.raises(StoreError, match=r"journal\.jsonl cannot be read"):
        read_batches(tmp_path)
    with pytest.raises(StoreError):
        BatchJournal(tmp_path / "model").open()


def test_a_line_without_an_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with (tmp_path / "model" / "journal.jsonl").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(StoreError, match="longer than a journal"):
        read_batches(tmp_path)


@pytest.mark.parametrize("place", ["batches", "batches/model"])
def test_a_folder_of_batches_that_is_a_link_or_everybodys_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder = tmp_path / place
    folder.parent.mkdir(mode=0o700, exist_ok=True)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is a link"):
        BatchJournal(tmp_path / "batches" / "model").open()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    folder.unlink()
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(StoreError, match="other users may write"):
        BatchJournal(tmp_path / "batches" / "model").open()


async def test_a_link_in_the_place_of_requests_is_not_uploaded(tmp_path: Path) -> None:
    """Who takes up a run from elsewhere would send its server any file of theirs."""
    server, batches = OpenAIServer(echo), Batches(tmp_path / "batches")
    async with server.serve() as url:
        server.is_down = True
        batches.is_waiting = False
        async with batches.open(url) as model:
            await answers(model, "hi")
        (requests,) = (tmp_path / "batches").glob("*/*-requests.jsonl")
        secret = tmp_path / "id_rsa"
        secret.write_text("my key")
        requests.unlink()
        requests.symlink_to(secret)
        server.is_down = False
        async with batches.open(url) as model:
            (error,) = await answers(model, "hi")
    assert isinstance(error, ModelError)
    assert server.files == {}


async def test_an_output_that_unpacks_without_end_is_cut_off(tmp_path: Path) -> None:
    """As many bytes are taken as the batch's answers may have."""
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join([*(packer.compress(b"\n" * 2**20) for _ in range(80)), packer.flush()])

    class Bombs(OpenAIServer):
        async def _content(self, request: web.Request) -> web.StreamResponse:
            return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    server, batches = Bombs(echo), Batches(tmp_path / "batches")
    async with server.serve() as url, batches.open(url) as model:
        with anyio.fail_after(60):
            (error,) = await answers(model, "hi")
    assert isinstance(error, ModelError)
    assert "67,108,864 bytes" in str(error)
    assert all(file.stat().st_size <= 64 * 2**20 for file in (tmp_path / "batches").glob("*/*"))


async def test_a_packed_output_is_read(tmp_path: Path) -> None:
    class Packs(OpenAIServer):
        async def _content(self, request: web.Request) -> web.StreamResponse:
            packer = zlib.compressobj(wbits=31)
            body = packer.compress(self.files[request.match_info["id"]]) + packer.flush()
            return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    server, batches = Packs(echo), Batches(tmp_path / "batches")
    async with server.serve() as url, batches.open(url) as model:
        assert texts(await answers(model, "a", "b")) == ["a", "b"]


def test_millions_of_lines_that_nobody_asked_for_are_not_read_to_their_end(tmp_path: Path) -> None:
    file = tmp_path / "output.jsonl"
    file.write_bytes(b"\n" * 10**6 + b'{"custom_id": "a"}\n')
    assert find_answers([file], ["a"]).places == {}
    file.write_bytes(b"{}\n" * 5000 + b'{"custom_id": "a"}\n')
    assert set(find_answers([file], ["a"]).places) == {"a"}


def test_a_link_in_the_place_of_an_output_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text('{"custom_id": "a"}\n')
    (tmp_path / "output.jsonl").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="symbolic"):
        find_answers([tmp_path / "output.jsonl"], ["a"])


async def test_a_servers_words_for_a_batch_drive_no_terminal(tmp_path: Path) -> None:
    server, batches = OpenAIServer(echo), Batches(tmp_path / "batches")
    said = {"message": "\x1b]0;x\x07no\n\x1b[2J"}
    server.end = {"status": "failed", "errors": {"object": "list", "data": [said]}, "output_file_id": None}
    async with server.serve() as url, batches.open(url) as model:
        (error,) = await answers(model, "hi")
    assert isinstance(error, ModelError)
    assert all(text.isprintable() for text in [str(error), *batches.notes])
