"""The gateway: one address for the seats of many episodes, and for the models behind them."""

import math
from collections import OrderedDict
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup, TaskStatus

from rollouthub.engine.seat import EpisodeSeat
from rollouthub.gateway.closed_seat import answer_late
from rollouthub.gateway.exposed_seat import ExposedSeat
from rollouthub.gateway.forwarding import Forwarder, open_forwarder
from rollouthub.gateway.model_api.dialect import CallProblem
from rollouthub.gateway.model_api.model_api import UNAUTHORIZED, refuse, serve_model_api
from rollouthub.gateway.rate_limit import TokenBucket
from rollouthub.hosting.server.agent_plane import BUSY, NOT_FOUND, AgentPlaneApp, token_of
from rollouthub.hosting.server.served_episode import token_digest
from rollouthub.hosting.server.server_metrics import Metrics
from rollouthub.http.asgi import Application, Guard, Receive, Scope, Send, answer, header, note_holder
from rollouthub.http.listener import bind_tcp, listening
from rollouthub.http.loopback import LOOPBACK
from rollouthub.protocols import EnvironmentInfo, SeatAddress

REMEMBERED = 10_000
"""How many tokens of ended episodes are remembered, to answer late calls with "episode closed"."""
_MODEL_API = "/llm/"
_PRACTICE = "/practice/"


class Gateway:
    """An ASGI application: `/e/{token}/mcp` and `/llm/{token}/v1/…` of every exposed seat. `open_gateway` makes one."""

    def __init__(
        self,
        base_url: str,
        guard: Guard,
        forwarder: Forwarder,
        tasks: TaskGroup,
        requests_per_second: float | None = None,
    ) -> None:
        self.base_url = base_url
        self.metrics = Metrics()
        self.practice: Application | None = None
        """The application that serves `/practice/…`; None without practice."""
        self._per_second = requests_per_second
        self._guard, self._forwarder, self._tasks = guard, forwarder, tasks
        self._exposed_seats: dict[bytes, ExposedSeat] = {}
        """The exposed seats by the digest of their token."""
        self._over: OrderedDict[bytes, None] = OrderedDict()
        self._planes: dict[str, AgentPlaneApp] = {}
        self._opening = anyio.Lock()

    @property
    def exposed_seats(self) -> int:
        """How many seats are exposed now."""
        return len(self._exposed_seats)

    @asynccontextmanager
    async def expose(
        self, seat: EpisodeSeat, info: EnvironmentInfo, close_seconds: float
    ) -> AsyncGenerator[SeatAddress]:
        """Make a seat reachable from outside, within the context."""
        exposed = ExposedSeat(seat, info, self.metrics, close_seconds)
        if self._per_second is not None:
            exposed.bucket = TokenBucket(self._per_second)
        if exposed.forward_url is None:
            exposed.app = await self.plane_of(info)
        try:
            with self._at_its_token(exposed):
                yield self.address_of(exposed)
        finally:
            with anyio.CancelScope(shield=True):
                await exposed.end()
                if exposed.app is not None:
                    await exposed.served.episode.answered()
                    exposed.served.episode.closed.set()
                    await exposed.app.retire(exposed.served.episode)
                exposed.served.episode.seats.clear()  # a circle would keep all until the garbage is collected

    def address_of(self, exposed: ExposedSeat) -> SeatAddress:
        """The URLs and the token of a seat."""
        token, model = exposed.token, exposed.seat.model_name
        return SeatAddress(
            agent_url=f"{self.base_url}/e/{token}/mcp",
            llm_url=None if model is None else f"{self.base_url}{_MODEL_API}{token}/v1",
            api_key=token,
            model=model,
            over=exposed.seat.over,
        )

    @contextmanager
    def _at_its_token(self, exposed: ExposedSeat) -> Generator[None]:
        digest = token_digest(exposed.token)
        self._exposed_seats[digest] = exposed
        self.metrics.opened += 1
        self.metrics.open += 1
        try:
            yield
        finally:
            del self._exposed_seats[digest]
            self.metrics.open -= 1
            self._over[digest] = None
            while len(self._over) > REMEMBERED:
                self._over.popitem(last=False)

    async def plane_of(self, info: EnvironmentInfo) -> AgentPlaneApp:
        """The MCP application for a hosted environment, shared by all its episodes."""
        key = f"{info.name}\0{info.digest}\0{info.tools_digest}"
        plane = self._planes.get(key)
        if plane is None:
            async with self._opening:
                plane = self._planes.get(key)
                if plane is None:
                    plane = self._planes[key] = await self._tasks.start(_keep_serving, AgentPlaneApp(info, self._guard))
        return plane

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        path: str = scope["path"]
        if path == "/health":
            await answer(send, 200, b'{"status":"ok"}')
        elif path.startswith(_MODEL_API):
            await self._serve_model(path, scope, receive, send)
        elif self.practice is not None and path.startswith(_PRACTICE):
            refusal = self._guard.refusal(scope)
            await (self.practice(scope, receive, send) if refusal is None else answer(send, refusal))
        else:
            await self._serve_agent(scope, receive, send)

    async def _serve_agent(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = token_of(scope)
        digest = token_digest(token) if token else b""
        exposed = self._exposed_seats.get(digest)
        if exposed is None:
            if digest in self._over and self._guard.refusal(scope) is None:
                await answer_late(scope, receive, send)
            else:
                await answer(send, 404, NOT_FOUND)
            return
        note_holder(scope, digest)
        if (seconds := exposed.wait_seconds()) > 0:
            self.metrics.calls["refused"] += 1
            await answer(send, 429, BUSY, headers=[(b"retry-after", b"%d" % math.ceil(seconds))])
            return
        if exposed.app is not None:
            await exposed.app.serve_seat(exposed.served, scope, receive, send)
            return
        refusal = self._guard.refusal(scope)
        if refusal is not None:
            await answer(send, refusal)
            return
        await self._forwarder.serve(exposed, scope, receive, send)

    async def _serve_model(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        token, _, rest = path.removeprefix(_MODEL_API).partition("/")
        if token == "v1":  # the key alone says whose it is
            token, rest = _key_of(scope), f"v1/{rest}"
        digest = token_digest(token) if token else b""
        exposed = self._exposed_seats.get(digest)
        # Some clients are given the base with `/v1`, and add their own.
        rest = rest.removeprefix("v1/").removeprefix("v1/")
        refusal = self._guard.refusal(scope)
        if exposed is None:
            await refuse(rest, send, UNAUTHORIZED)
            return
        note_holder(scope, digest)
        if refusal is not None:
            await answer(send, refusal)
        elif (seconds := exposed.wait_seconds()) > 0:
            await refuse(
                rest, send, CallProblem("busy", 429, "too many requests", retry_after_seconds=math.ceil(seconds))
            )
        else:
            await serve_model_api(exposed, rest, scope, receive, send)


def _key_of(scope: Scope) -> str:
    given = header(scope, b"x-api-key")
    if given is None:
        bearer = header(scope, b"authorization") or b""
        given = bearer[7:] if bearer[:7].lower() == b"bearer " else b""
    return given.strip().decode("latin-1")


async def _keep_serving(plane: AgentPlaneApp, *, task_status: TaskStatus[AgentPlaneApp]) -> None:
    """Run an environment's agent plane until the gateway closes."""
    async with plane.serving(None):
        task_status.started(plane)
        await anyio.sleep_forever()


@asynccontextmanager
async def open_gateway(
    host: str = "127.0.0.1",
    port: int = 0,
    public_url: str | None = None,
    requests_per_second: float | None = None,
) -> AsyncGenerator[Gateway]:
    """Listen for agents. Port 0 picks a free port; `public_url` is the URL by which agents reach the gateway, if it
    differs.

    A seat may send `requests_per_second` requests on average, with bursts of twice as many.

    Raises:
        ConfigError: the address cannot be bound.
    """
    async with AsyncExitStack() as stack:
        bound = bind_tcp(host, port)
        stack.callback(bound.close)
        authority = f"[{host}]" if ":" in host else host
        base_url = (public_url or f"http://{authority}:{bound.getsockname()[1]}").rstrip("/")
        forwarder = await stack.enter_async_context(open_forwarder())
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        names = (*LOOPBACK, host, urlsplit(base_url).hostname or host)
        gateway = Gateway(base_url, Guard(names), forwarder, tasks, requests_per_second)
        await stack.enter_async_context(listening(gateway, bound))
        yield gateway
