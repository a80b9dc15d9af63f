"""Serves a registry: its API and its pages on one guarded listener."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from rollouthub.errors import ConfigError, UsageError
from rollouthub.hosting.server.control_socket import authority
from rollouthub.http.asgi import Guard
from rollouthub.http.listener import bind_tcp, listening
from rollouthub.http.loopback import LOOPBACK
from rollouthub_registry.server.access_control import AccessControl, Rates, address_of
from rollouthub_registry.server.api import Api
from rollouthub_registry.server.pages import Pages
from rollouthub_registry.server.registry import Registry, open_registry
from rollouthub_registry.server.responses import broken, problem, refused, unserved
from rollouthub_registry.server.server_error import RegistryRequestRefused
from rollouthub_registry.server.token_hashes import Tokens

_WILDCARDS = ("0.0.0.0", "::")


@dataclass(frozen=True)
class RegistryService:
    """The options of a registry's server."""

    directory: Path
    host: str = "127.0.0.1"
    port: int = 8800
    """Port to listen on; 0 takes a free one."""
    public_url: str | None = None
    """URL under which clients reach it, if that is not the address it listens on; else None."""
    rates: Rates = field(default_factory=Rates)


class _Gate:
    """Lets in requests for the server's own host names, up to the rate limit of each address."""

    def __init__(self, application: ASGIApp, guard: Guard, access: AccessControl) -> None:
        self._application, self._guard, self._access = application, guard, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (status := self._guard.refusal(scope)) is not None:
            said = "this registry is not served under that name; see --public-url" if status == 421 else "not from here"
            await problem(status, said)(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            self._access.count(address_of(request))
        except RegistryRequestRefused as error:
            await (await refused(request, error))(scope, receive, send)
            return
        await self._application(scope, receive, send)


def registry_application(registry: Registry, tokens: Tokens, rates: Rates, url: str, guard: Guard) -> ASGIApp:
    """A registry as an ASGI application; clients reach it under `url`."""
    access = AccessControl(tokens, rates)
    routes = [*Api(registry, access, url).routes(), *Pages(registry, url).routes()]
    handlers = {UsageError: refused, HTTPException: unserved, Exception: broken}
    return _Gate(Starlette(routes=routes, exception_handlers=handlers), guard, access)


async def serve_registry(
    service: RegistryService, ready: Callable[[str], None], stopped: Callable[[], Awaitable[None]]
) -> None:
    """Serve a registry until `stopped` returns; `ready` is called with its URL.

    Raises:
        UsageError: the directory or an address is invalid.
        StoreError: the index cannot be opened.
    """
    opened = open_registry(service.directory)
    registry = await to_thread.run_sync(opened.__enter__)
    try:
        bound = bind_tcp(service.host, service.port)
        try:
            url = (service.public_url or f"http://{authority(service.host, bound)}").rstrip("/")
            guard = Guard(_hosts(service, url))
            tokens = Tokens(registry.layout.tokens)
            application = registry_application(registry, tokens, service.rates, url, guard)
            async with listening(application, bound):
                ready(url)
                await stopped()
        finally:
            bound.close()
    finally:
        opened.__exit__(None, None, None)


def _hosts(service: RegistryService, url: str) -> tuple[str, ...]:
    """Host names under which clients may call the server."""
    if service.public_url is None and service.host in _WILDCARDS:
        raise ConfigError(f"clients cannot reach {service.host}: say how they do, with --public-url http://HOST:PORT")
    public = urlsplit(url)
    if public.hostname is None or public.scheme not in ("http", "https"):
        raise ConfigError(f"--public-url {url!r} is no http URL")
    return (*LOOPBACK, service.host, public.hostname)
