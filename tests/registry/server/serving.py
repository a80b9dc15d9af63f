"""A registry served on a free port, and a client of it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from rollouthub_registry.server.access_control import Rates
from rollouthub_registry.server.atomic_write import open_layout
from rollouthub_registry.server.http_server import RegistryService, serve_registry
from rollouthub_registry.server.token_hashes import Scope, Tokens
from tests.ports import free_port
from tests.registry.server.publishers import Offer


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Any
    body: bytes
    json: Any


@dataclass(frozen=True)
class Served:
    """A server that is up."""

    url: str
    directory: Path
    session: aiohttp.ClientSession

    async def ask(self, method: str, path: str, **more: Any) -> Answer:
        """One request; `path` is sent as it stands."""
        from yarl import URL

        async with self.session.request(method, URL(self.url + path, encoded=True), **more) as answer:
            body = await answer.read()
            is_json = "json" in answer.headers.get("content-type", "")
            return Answer(
                answer.status, answer.headers, body, await answer.json(content_type=None) if is_json else None
            )

    async def get(self, path: str, **more: Any) -> Answer:
        """A GET."""
        return await self.ask("GET", path, **more)

    async def publish(self, offer: Offer, token: str) -> Answer:
        """Publish an offer."""
        form = aiohttp.FormData()
        form.add_field("statement", offer.envelope, filename="statement", content_type="application/json")
        form.add_field("bundle", offer.bundle.path.read_bytes(), filename="b", content_type="application/octet-stream")
        return await self.ask("POST", "/envhub/v1/packages", data=form, headers=bearer(token))

    def token(self, namespace: str = "lab", *scopes: Scope) -> str:
        """A new token."""
        tokens = Tokens(open_layout(self.directory).tokens)
        return tokens.create(namespace, scopes or ("publish", "yank"))[1]


def bearer(token: str) -> dict[str, str]:
    """The header that carries a token."""
    return {"Authorization": f"Bearer {token}"}


@asynccontextmanager
async def served(directory: Path, rates: Rates | None = None, public_url: str | None = None) -> AsyncGenerator[Served]:
    """Serve a registry."""
    up, leave = anyio.Event(), anyio.Event()
    said: list[str] = []

    def ready(url: str) -> None:
        said.append(url)
        up.set()

    port = 0 if public_url is None else free_port()  # it does not say then which it took
    service = RegistryService(directory, port=port, rates=rates or Rates(), public_url=public_url)
    async with anyio.create_task_group() as tasks, aiohttp.ClientSession() as session:
        tasks.start_soon(serve_registry, service, ready, leave.wait)
        with anyio.fail_after(60):
            await up.wait()
        try:
            yield Served(f"http://127.0.0.1:{port}" if port else said[0], directory, session)
        finally:
            leave.set()
