"""The agent plane: MCP alone, for clients that hold a seat's token."""

from collections.abc import AsyncGenerator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from rollouthub.event_loop import LARGE_BYTES, MOST_VALUES
from rollouthub.hosting.server.mcp_server import SEAT, SESSION_HEADER, EnvironmentServer
from rollouthub.hosting.server.plain_call import PlainCalls
from rollouthub.hosting.server.served_episode import ServedEpisode, ServedSeat, token_digest
from rollouthub.hosting.server.served_episodes import Episodes
from rollouthub.http.asgi import (
    Guard,
    Receive,
    Scope,
    Send,
    TooCrowded,
    TooLarge,
    again,
    answer,
    header,
    note_holder,
    read_message,
)
from rollouthub.http.event_stream import STREAM, EventStream
from rollouthub.protocols import EnvironmentInfo

MAX_BODY_BYTES = 4 * 2**20
MOST_REQUESTS = 256
"""HTTP requests of one seat at once; further ones are refused."""
MOST_SESSIONS = 32
"""Legacy sessions of one seat; opening another ends the oldest. Some clients open one per call."""
SESSIONS = 20_000
IDLE_SECONDS = 900
"""A legacy session without a request is ended after this; longer than a model may think."""

_SESSION = SESSION_HEADER.encode()
NOT_FOUND = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Not Found"}}'
BUSY = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Too many requests at once"}}'
TOO_LARGE = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"The message is too large."}}'
CROWDED = (
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":'
    b'"The message holds more than %s values; give fewer at a time, or as text."}}' % f"{MOST_VALUES:,}".encode()
)


def new_user(episode_id: str, seat: str) -> AuthenticatedUser:
    """Whom the SDK takes a seat's requests to come from: its sessions are that seat's alone."""
    return AuthenticatedUser(AccessToken(token="", client_id=episode_id, scopes=[], subject=seat))


def token_of(scope: Scope) -> str:
    """The token a request gives, in its path or as `Bearer`; empty where it gives none."""
    path: str = scope["path"]
    if path.startswith("/e/") and path.endswith("/mcp"):
        return path[3:-4]
    if path == "/mcp":
        given = header(scope, b"authorization") or b""
        if given[:7].lower() == b"bearer ":
            return given[7:].strip().decode("latin-1")
    return ""


class AgentPlaneApp:
    """An ASGI application: `POST` and `DELETE` of `/e/{token}/mcp`, and of `/mcp` with the token as `Bearer`."""

    def __init__(self, info: EnvironmentInfo, guard: Guard) -> None:
        self._guard = guard
        self._episodes: Episodes | None = None
        server = EnvironmentServer(info)
        security = TransportSecuritySettings(
            allowed_hosts=[pattern for host in guard.hosts for pattern in _any_port(host)],
            allowed_origins=[
                f"{scheme}://{pattern}"
                for host in guard.hosts
                for pattern in _any_port(host)
                for scheme in ("http", "https")
            ],
        )
        self._manager = StreamableHTTPSessionManager(
            server,
            json_response=True,
            security_settings=security,
            session_idle_timeout=IDLE_SECONDS,
            max_request_body_size=MAX_BODY_BYTES,
            max_sessions=SESSIONS,
        )
        # For what a legacy client still asks when its episode is sealed and its session ended.
        self._afterwards = StreamableHTTPSessionManager(
            server,
            json_response=True,
            stateless=True,
            security_settings=security,
            max_request_body_size=MAX_BODY_BYTES,
        )
        self._plain = PlainCalls(server, security.allowed_hosts, MAX_BODY_BYTES)
        self._own_host = guard.hosts[0].encode()

    @asynccontextmanager
    async def serving(self, episodes: Episodes | None) -> AsyncGenerator[None]:
        """Serve these episodes within the block; with None, requests are served only through `serve_seat`."""
        self._episodes = episodes
        async with self._manager.run(), self._afterwards.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or self._episodes is None:
            return
        token = token_of(scope)
        digest = token_digest(token) if token else b""
        seat = self._episodes.seat(digest)
        if seat is None:
            await answer(send, 404, NOT_FOUND)
        else:
            note_holder(scope, digest)
            await self.serve_seat(seat, scope, receive, send)

    async def serve_seat(self, seat: ServedSeat, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of a client that holds this seat's token."""
        refusal = self._guard.refusal(scope)
        if refusal is not None:
            await answer(send, refusal)
            return
        if scope["method"] not in ("POST", "DELETE"):
            # Nothing is ever streamed to a client that has not asked, so there is no stream to GET.
            await answer(send, 405, headers=[(b"allow", b"POST, DELETE")])
            return
        if seat.requests >= MOST_REQUESTS:
            await answer(send, 429, BUSY, headers=[(b"retry-after", b"1")])
            return
        seat.requests += 1
        try:
            await self._serve(seat, scope, receive, send)
        finally:
            seat.requests -= 1
            seat.episode.request_ended()
            if seat.episode.is_sealed:
                await self.retire(seat.episode)

    async def _serve(self, seat: ServedSeat, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a plain call; hand any other request to the SDK: with the seat and its user, without the token."""
        if scope["method"] == "POST" and _may_be_large(scope):
            try:
                receive = again(await read_message(scope, receive, MAX_BODY_BYTES), receive)
            except TooLarge as error:
                await answer(send, 413, refusal_of(error))
                return
        if not seat.episode.is_sealed:
            remaining = await self._plain.serve(seat, scope, receive, send)
            if remaining is None:
                return
            receive = remaining
        send = stream = EventStream(send)
        inner: dict[str, Any] = {
            **scope,
            "path": "/mcp",
            "raw_path": b"/mcp",
            "headers": [pair for pair in scope["headers"] if pair[0] != b"authorization"],
            "user": seat.user,
            SEAT: seat,
            STREAM: stream,
        }
        if seat.episode.is_sealed:
            await self._afterwards.asgi_app(inner, receive, send)
        elif scope["method"] == "DELETE":
            seat.sessions.pop((header(scope, _SESSION) or b"").decode("latin-1"), None)
            await self._manager.asgi_app(inner, receive, send)
        elif header(scope, _SESSION) is not None:
            await self._manager.asgi_app(inner, receive, send)
        else:
            await self._manager.asgi_app(inner, receive, _noting_sessions(seat, send))
            await self._end_oldest(seat)

    async def _end_oldest(self, seat: ServedSeat) -> None:
        while len(seat.sessions) > MOST_SESSIONS:
            await self._end_session(seat, next(iter(seat.sessions)))

    async def retire(self, episode: ServedEpisode) -> None:
        """End the legacy sessions of a sealed episode's seats, each once its last request is answered."""
        for seat in episode.seats.values():
            if not seat.requests or episode.closed.is_set():
                while seat.sessions:
                    await self._end_session(seat, next(iter(seat.sessions)))

    async def _end_session(self, seat: ServedSeat, session_id: str) -> None:
        """End a session the way its client would: with a DELETE."""
        seat.sessions.pop(session_id, None)
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": "DELETE",
            "scheme": "http",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "query_string": b"",
            "headers": [(b"host", self._own_host), (_SESSION, session_id.encode())],
            "user": seat.user,
            SEAT: seat,
        }
        await self._manager.asgi_app(scope, _nothing_more, _nowhere)


def refusal_of(error: TooLarge) -> bytes:
    """The error for a client whose message is too large to be read."""
    return CROWDED if isinstance(error, TooCrowded) else TOO_LARGE


def _may_be_large(scope: Scope) -> bool:
    """Whether a request's body may be one to look at before it is decoded."""
    length = header(scope, b"content-length") or b""
    return not length.isdigit() or int(length) > LARGE_BYTES


def _any_port(host: str) -> tuple[str, str]:
    name = f"[{host}]" if ":" in host else host
    return name, f"{name}:*"


def _noting_sessions(seat: ServedSeat, send: Send) -> Send:
    """A `send` that notes the session a response opens."""

    async def noting(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start" and message["status"] < 400:
            for key, value in message["headers"]:
                if key == _SESSION:
                    seat.sessions[value.decode("ascii")] = None
        await send(message)

    return noting


async def _nothing_more() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _nowhere(message: MutableMapping[str, Any]) -> None:
    return
