"""Delivers spans to an OTLP collector, which may be slow, down or hanging without delaying the run."""

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread

from rollouthub.errors import ConfigError
from rollouthub.http.exchange import HttpPool
from rollouthub.http.no_answer import NoAnswer
from rollouthub.telemetry.traces.otlp import encode
from rollouthub.telemetry.traces.spans import AttemptNote, Span

logger = logging.getLogger(__name__)

MOST_WAITING = 4096
"""Most notes (of attempts, or single spans) that wait for delivery; beyond that the oldest are dropped."""
BATCH = 128
GATHER_SECONDS = 1.0
POST_SECONDS = 5.0
FAREWELL_SECONDS = 2.0
"""Most seconds that the end of a run waits for the last spans."""
LONGEST_PAUSE_SECONDS = 30.0
HEADER_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
_PATH = "/v1/traces"


class OtlpDelivery:
    """Queues notes without blocking, and delivers them when the collector accepts them."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        resource: Mapping[str, str],
        version: str,
        *,
        gather_seconds: float = GATHER_SECONDS,
        farewell_seconds: float = FAREWELL_SECONDS,
    ) -> None:
        """Notes are gathered for `gather_seconds` before they are sent; `end` takes at most `farewell_seconds`."""
        self.dropped = 0
        """How many spans were dropped without being delivered."""
        self.delivered = 0
        self._url, self._headers, self._resource, self._version = url, dict(headers), resource, version
        self._gather_seconds, self._farewell_seconds = gather_seconds, farewell_seconds
        self._waiting: deque[AttemptNote | Span] = deque()
        self._work = anyio.Event()
        self._has_warned = False
        # A thread of its own: those that everyone shares may all be held by environments that block.
        self._thread = anyio.CapacityLimiter(1)

    def take(self, note: AttemptNote | Span) -> None:
        """Queue a note for delivery."""
        if len(self._waiting) >= MOST_WAITING:
            self.dropped += _count(self._waiting.popleft())
        self._waiting.append(note)
        if len(self._waiting) == 1:
            self._work.set()

    async def run(self, pool: HttpPool) -> None:
        """Deliver until cancelled."""
        pause = 0.0
        while True:
            if not self._waiting:
                self._work = anyio.Event()
                await self._work.wait()
            await anyio.sleep(pause or self._gather_seconds)
            problem = await self._deliver_all(pool)
            pause = 0.0 if problem is None else min(LONGEST_PAUSE_SECONDS, max(self._gather_seconds, 2 * pause))

    async def end(self, pool: HttpPool) -> None:
        """Try once to deliver the queue, for at most `farewell_seconds`; the rest is dropped."""
        with anyio.move_on_after(self._farewell_seconds, shield=True):
            await self._deliver_all(pool)
        self.dropped += sum(map(_count, self._waiting))
        self._waiting.clear()

    async def _deliver_all(self, pool: HttpPool) -> str | None:
        """Deliver the queue; returns the problem if the collector does not accept it."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            problem: str | None = "cut short"
            try:
                body = await anyio.to_thread.run_sync(
                    encode, batch, self._resource, self._version, limiter=self._thread, abandon_on_cancel=True
                )
                problem, may_pass = await self._post(pool, body)
                if problem is not None and not may_pass:
                    self.dropped += sum(map(_count, batch))  # it will never take these
                    batch = []
            finally:
                if problem is not None:
                    self._put_back(batch)
            if problem is not None:
                self._warn(problem)
                return problem
            self.delivered += sum(map(_count, batch))
        self._has_warned = False
        return None

    def _put_back(self, batch: Sequence[AttemptNote | Span]) -> None:
        for note in reversed(batch):
            if len(self._waiting) < MOST_WAITING:
                self._waiting.appendleft(note)
            else:
                self.dropped += _count(note)

    async def _post(self, pool: HttpPool, body: bytes) -> tuple[str | None, bool]:
        """Send a batch: returns the problem, None if it was accepted, and whether a retry may succeed."""
        headers = {**self._headers, "Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        try:
            status = (await pool.exchange("POST", self._url, body, headers, seconds=POST_SECONDS)).status
            return (None if status < 300 else f"HTTP {status}"), status in (408, 429) or status >= 500
        except (NoAnswer, ValueError) as error:
            return str(error), True

    def _warn(self, problem: str) -> None:
        """Log a problem once per outage, because a collector that is down is tried many times."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning("traces are not delivered to %s: %s; the run goes on without", self._url, problem)


def _count(note: AttemptNote | Span) -> int:
    return note.count if isinstance(note, AttemptNote) else 1


def traces_url(given: str) -> str:
    """The URL to which spans are posted.

    Raises:
        ConfigError: the text is not an HTTP URL, or has a credential or a query.
    """
    try:
        parts = urlsplit(given)
        _ = parts.port  # raises on what is no port
    except ValueError as error:
        raise ConfigError(f"--traces {given!r} is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"--traces {given!r} is no address of an OTLP collector, for example http://127.0.0.1:4318")
    if parts.username is not None or parts.query:
        raise ConfigError(
            f"--traces: the address of {parts.hostname} holds a credential or a query, and a run's settings are "
            f"recorded; put credentials into {HEADER_VARIABLES[1]} (name=value,name=value)"
        )
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith(_PATH) else path + _PATH}"


def traces_headers(given: str | None) -> dict[str, str]:
    """Parse headers as in OpenTelemetry's variables: `name=value,name=value`, values percent-encoded.

    Raises:
        ConfigError: the text has another form. The message does not repeat it, because it may be secret.
    """
    headers: dict[str, str] = {}
    for pair in (given or "").split(","):
        name, equals, value = pair.partition("=")
        name, value = name.strip(), unquote(value.strip())
        if not pair.strip():
            continue
        if not equals or not name.isascii() or not value.isprintable():
            raise ConfigError(f"{HEADER_VARIABLES[1]} is not name=value,name=value")
        headers[name] = value
    return headers
