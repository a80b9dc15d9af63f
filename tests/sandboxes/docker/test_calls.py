"""What is asked of an engine: a few calls that Debian's stock 20.10 knows, no command line client and no compose."""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rollouthub.sandbox import SandboxSpec
from rollouthub_sandboxes.docker.provider import docker_provider
from rollouthub_sandboxes.engine.engine import Engine

CALL = re.compile(rb"(?m)^(GET|HEAD|POST|PUT|DELETE) (?:/v(1\.\d+))?(/\S*) HTTP/1\.1\r$")
NAMED = re.compile(
    r"^(\w+ /(?:containers|images|volumes)/)(?!json$|create$)(.+?)(/(?:json|start|attach|archive|changes|kill))?$"
)
ALLOWED = {
    "GET /_ping",
    "GET /version",
    "GET /info",
    "GET /events",
    "GET /containers/json",
    "POST /containers/create",
    "POST /containers/*/start",
    "POST /containers/*/attach",
    "GET /containers/*/json",
    "GET /containers/*/archive",
    "PUT /containers/*/archive",
    "GET /containers/*/changes",
    "POST /containers/*/kill",
    "DELETE /containers/*",
    "POST /commit",
    "GET /images/json",
    "GET /images/*/json",
    "DELETE /images/*",
    "GET /networks",
    "POST /volumes/create",
    "GET /volumes/*",
}
"""All of the API since 1.25 or earlier."""


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[None]:
    """No `docker`, `docker-compose` or anything else is found."""
    monkeypatch.setenv("PATH", str(tmp_path))
    yield


@asynccontextmanager
async def overheard(engine: Engine, path: Path) -> AsyncGenerator[set[tuple[str, str]]]:
    """A socket that passes everything on to an engine; versions and calls are noted."""
    heard: set[tuple[str, str]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        socket = engine.address.url.removeprefix("unix://")
        answers, asking = await asyncio.open_unix_connection(socket)
        asked = asyncio.create_task(send(reader, asking, True))
        try:
            await send(answers, writer, False)
        finally:
            asked.cancel()
            for each in (asking, writer):
                each.close()
            await asyncio.gather(asked, asking.wait_closed(), writer.wait_closed(), return_exceptions=True)

    async def send(source: asyncio.StreamReader, target: asyncio.StreamWriter, is_asked: bool) -> None:
        try:
            while data := await source.read(65536):
                if is_asked:
                    for method, version, target_path in CALL.findall(data):
                        heard.add((version.decode(), f"{method.decode()} {target_path.decode().partition('?')[0]}"))
                target.write(data)
                await target.drain()
            target.write_eof()
        except OSError:
            pass

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        carried.add(asyncio.create_task(carry(reader, writer)))

    # asyncio's own streams: a socket of anyio that is cancelled while it becomes readable raises in the loop
    carried: set[asyncio.Task[None]] = set()
    async with await asyncio.start_unix_server(accept, path):
        yield heard
    for each in carried:
        each.cancel()
    await asyncio.gather(*carried, return_exceptions=True)


async def test_a_stock_engine_and_no_program_of_its_own_are_enough(
    engine: Engine, spec: SandboxSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_programs: None
) -> None:
    path = tmp_path / "overheard.sock"
    async with overheard(engine, path) as heard:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        async with docker_provider() as provider:
            rooted = spec.model_copy(update={"profile": "root-compat"})
            for each in (spec, rooted):
                await provider.prepare(each)
                async with provider.open(each) as sandbox:
                    await sandbox.write_file("kept", b"1")
                    snapshot = await sandbox.snapshot()
                async with provider.open(each, snapshot=snapshot) as sandbox:
                    assert await sandbox.read_file("kept") == b"1"
    asked = {NAMED.sub(r"\1*\3", call) for _, call in heard}
    assert {"POST /containers/create", "POST /containers/*/attach", "POST /containers/*/start"} <= asked
    assert asked <= ALLOWED
    served = str(engine.api.version().get("ApiVersion", ""))
    assert {version for version, _ in heard} <= {"", served}
    if engine.name.startswith("docker 20.10"):
        assert served == "1.41"
    assert os.environ["PATH"] == str(tmp_path)
