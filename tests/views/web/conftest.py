"""Pages of runs, served as `hub view` serves them, and visitors with and without its token."""

import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.web.view_server import ViewOptions, ViewServer, view_served
from tests.live.control.conftest import runtime, watch

__all__ = ["Visit", "runtime", "served", "watch"]


class Visit:
    """A server, and a browser that was let in."""

    def __init__(self, server: ViewServer, client: httpx.AsyncClient) -> None:
        self.server, self.client = server, client

    @property
    def base(self) -> str:
        """The address of the list of runs, without the token."""
        return self.server.guard.origin + self.server.guard.place

    @property
    def key(self) -> dict[str, str]:
        """The cookie of a browser that was let in."""
        return {"Cookie": f"{self.server.guard.cookie}={self.server.guard.token}"}

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """A page, asked for as a browser does."""
        return await self.client.get(self.base + path, headers=self.key | dict(headers or {}))

    async def post(
        self, path: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """A form, sent as a browser does."""
        own = self.key | {"Origin": self.server.guard.origin}
        return await self.client.post(self.base + path, data=dict(form), headers=own | dict(headers or {}))


@asynccontextmanager
async def served(
    *runs: Path, roots: tuple[Path, ...] = (), environ: Mapping[str, str] | None = None, expression: str = ""
) -> AsyncGenerator[Visit]:
    """The server of these runs."""
    options = ViewOptions(runs, roots, dict(environ or {}), Plainness(lambda text: text), filter=expression)
    async with view_served(options) as server, httpx.AsyncClient(follow_redirects=False, timeout=60) as client:
        yield Visit(server, client)


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the hubs of whoever runs it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
