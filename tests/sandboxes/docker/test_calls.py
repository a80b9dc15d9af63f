"""What is asked of an engine: a few calls that Debian's stock 20.10 knows, no command line client and no compose."""

import os
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import pytest

from envhub.sandbox import SandboxSpec
from envhub_sandboxes.docker.engine import Engine
from envhub_sandboxes.docker.provider import docker_provider

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

    async def carry(caller: anyio.abc.SocketStream) -> None:
        connecting = anyio.connect_unix(engine.address.url.removeprefix("unix://"))
        async with caller, await connecting as other, anyio.create_task_group() as group:
            group.start_soon(send, caller, other, True)
            await send(other, caller, False)
            group.cancel_scope.cancel()

    async def send(source: anyio.abc.SocketStream, target: anyio.abc.SocketStream, is_asked: bool) -> None:
        try:
            async for data in source:
                if is_asked:
                    for method, version, target_path in CALL.findall(data):
                        heard.add((version.decode(), f"{method.decode()} {target_path.decode().partition('?')[0]}"))
                await target.send(data)
            await target.send_eof()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass

    async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, carry)
        yield heard
        group.cancel_scope.cancel()


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
