"""The HTTP endpoint of a run's Prometheus metrics, on the loopback unless another address is given."""

import hmac
import ipaddress
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from rollouthub.engine.run import Observer
from rollouthub.engine.run_control import LiveRun
from rollouthub.errors import ConfigError
from rollouthub.hosting.server.control_socket import authority
from rollouthub.http.asgi import Guard, Receive, Scope, Send, answer, header
from rollouthub.http.listener import bind_tcp, listening
from rollouthub.http.loopback import LOOPBACK
from rollouthub.telemetry.metrics.exposition import RunFigures, expose
from rollouthub.telemetry.metrics.run_monitor import RunMonitor

TOKEN_VARIABLE = "ROLLOUTHUB_METRICS_TOKEN"
"""Environment variable with a token; if it is set, a scraper must send it as `Authorization: Bearer`."""
_TEXT = b"text/plain; charset=utf-8"
_WILDCARDS = ("0.0.0.0", "::")
_BACKLOG = 64


def metrics_address(given: str) -> tuple[str, int]:
    """Parse `[HOST:]PORT` to a host and a port.

    Raises:
        ConfigError: the text has neither form.
    """
    host, _, port = given.rpartition(":")
    if not (port.isdecimal() and port.isascii() and int(port) <= 65535) or (":" in host and host[:1] != "["):
        raise ConfigError(f"--metrics {given!r} is no [HOST:]PORT, for example 9400 or 0.0.0.0:9400")
    return host.strip("[]") or LOOPBACK[0], int(port)


class _OwnAddresses(Guard):
    """Accepted Host headers of a listener on all addresses: any numeric address, and this machine's name.

    Other names are refused, against DNS rebinding.
    """

    def _is_ours(self, value: bytes, scheme: bytes) -> bool:
        if super()._is_ours(value, scheme):
            return True
        try:
            parts = urlsplit("//" + value.decode("ascii"))
            ipaddress.ip_address(parts.hostname or "")
        except ValueError:
            return False
        return not scheme and not parts.path and parts.username is None


class MetricsPage:
    """An ASGI application: `GET /metrics`, and nothing else."""

    def __init__(self, look: Callable[[], RunFigures], guard: Guard, token: str | None) -> None:
        self._look, self._guard = look, guard
        self._credential = None if token is None else b"Bearer " + token.encode()
        # One scrape at a time is written, off the loop.
        self._thread = anyio.CapacityLimiter(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        refusal = self._guard.refusal(scope)
        if refusal is not None or header(scope, b"origin") is not None:
            await answer(send, refusal or 403)  # no page of a browser has any business here
        elif self._credential is not None and not hmac.compare_digest(
            header(scope, b"authorization") or b"", self._credential
        ):
            text = f"these metrics need the token in {TOKEN_VARIABLE}, as Authorization: Bearer\n"
            await answer(send, 401, text.encode(), _TEXT, [(b"www-authenticate", b"Bearer")])
        elif scope["path"] != "/metrics":
            await answer(send, 404, b"the metrics are at /metrics\n", _TEXT)
        elif scope["method"] not in ("GET", "HEAD"):
            await answer(send, 405, headers=[(b"allow", b"GET, HEAD")])
        else:
            accept = (header(scope, b"accept") or b"").decode("latin-1")
            figures = self._look()
            body, kind = await anyio.to_thread.run_sync(expose, figures, accept, limiter=self._thread)
            await answer(send, 200, b"" if scope["method"] == "HEAD" else body, kind.encode())


@asynccontextmanager
async def open_metrics(address: str, monitor: RunMonitor, *, token: str | None = None) -> AsyncGenerator[str]:
    """Expose a run's metrics within the block; yields their URL.

    Raises:
        ConfigError: the address is invalid, or cannot be bound.
    """
    host, port = metrics_address(address)
    bound = bind_tcp(host, port)
    problem: Exception | None = None
    try:
        try:
            bound.listen(_BACKLOG)  # at once: two may bind one port, and only one can listen
        except OSError as error:
            raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        guard = _OwnAddresses([*LOOPBACK, *_names()]) if host in _WILDCARDS else Guard([*LOOPBACK, host])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(monitor.lag.watch)
            async with listening(MetricsPage(monitor.look, guard, token), bound):
                try:
                    yield f"http://{authority(host, bound)}/metrics"
                except Exception as error:
                    problem = error  # raised below, outside the task groups, so that it arrives as it is
            tasks.cancel_scope.cancel()
    finally:
        bound.close()
    if problem is not None:
        raise problem


def _names() -> tuple[str, ...]:
    name = socket.gethostname().lower()
    return name, name.partition(".")[0]


@asynccontextmanager
async def monitored(
    address: str,
    live: LiveRun,
    observer: Observer | None,
    *,
    token: str | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[RunMonitor]:
    """Monitor a run and expose its metrics within the block; `note` is called with a message about the URL. Yields the
    run's observer.

    Raises:
        ConfigError: as `open_metrics`.
    """
    monitor = RunMonitor(live, observer)
    async with open_metrics(address, monitor, token=token) as url:
        monitor.url = url
        note(f"metrics at {url}")
        yield monitor
