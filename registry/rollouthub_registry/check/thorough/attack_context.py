"""`AttackContext`: the environment, its canary twins, both access points and the HTTP client that scans every byte."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from rollouthub import Deadlines, Message, Model
from rollouthub.engine.sample import Exposing
from rollouthub.errors import EpisodeError, raise_first_error
from rollouthub.hosting.control_wire import OpenedEpisode
from rollouthub.protocols import TaskCard
from rollouthub_registry.check.thorough import raw_mcp
from rollouthub_registry.check.thorough.access_points import (
    AccessPoint,
    AttackedSeat,
    OpenEpisode,
    at_gateway,
    at_server,
)
from rollouthub_registry.check.thorough.attack import Vulnerability
from rollouthub_registry.check.thorough.leak_scan import Watch
from rollouthub_registry.check.thorough.raw_exchange import RawExchange
from rollouthub_registry.check.thorough.raw_http import ANSWER_SECONDS, Wire
from rollouthub_registry.check.thorough.target import Target

ACCESS_POINTS: tuple[AccessPoint, ...] = ("server", "gateway")
DEADLINES = Deadlines(model_call=60, agent=900, verify=120, close=30, episode=1200)
TURN_SECONDS = 2.0
"""Most seconds to wait for a tool call where seats take turns."""
_WORLDS = 6


@dataclass(frozen=True)
class Tools:
    """Third-party programs that some attacks need."""

    mcp1_python: Path | None = None
    """The interpreter of an environment with version 1.x of the MCP SDK."""
    node_tools: Path | None = None
    """A folder whose `node_modules` has the conformance suite and the Inspector."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables of the caller, used to find Node.js."""


@dataclass
class AttackContext:
    """One environment under attack: its server, canary twins, gateway and the scanning HTTP client."""

    target: Target
    twins: list[Target]
    """Copies of the environment, each with canaries in another field of its secrets; empty without its source."""
    no_twins: str | None
    """Why there are no twins; None if there are."""
    gateway: Exposing
    gateway_url: str
    model: Model
    http: aiohttp.ClientSession
    watch: Watch
    methods: tuple[str, ...] = ()
    """Names of attributes of the environment class, to be tried as tool names."""
    tools: Tools = field(default_factory=Tools)
    access_points: tuple[AccessPoint, ...] = ACCESS_POINTS
    is_own: bool = True
    """Whether the server was started for this check, so that no other client uses it."""
    is_local: bool = True
    """Whether the server runs on this machine."""
    wire: Wire = field(init=False)
    tokens: set[str] = field(default_factory=set[str])
    sighted: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Secrets already reported, and where: each leak is reported once, by the first attack that saw it."""
    problems: list[Vulnerability] = field(default_factory=list[Vulnerability])
    left_out: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.tokens.add(self.target.control_token)
        self.new_attack()

    def new_attack(self) -> None:
        """Discard the state of the previous attack."""
        self.wire = Wire(self.http, self.watch)
        self.problems, self.left_out = [], []

    def note(self, says: str, exchange: RawExchange | None = None) -> None:
        """Record a vulnerability."""
        self.problems.append(Vulnerability(says, exchange))

    def must_refuse(self, exchange: RawExchange, says: str) -> None:
        """Record a vulnerability, described by `says`, if the request was granted."""
        if exchange.is_granted:
            self.note(says, exchange)

    async def must_stay_open(self, opened: OpenEpisode, after: str) -> None:
        """Record a vulnerability if the episode is no longer open; `after` names what was done before."""
        if (state := await self.state_of(opened)) != "open":
            self.note(f"after {after} the episode at the {opened.access_point} is {state}")

    def leave_out(self, what: str) -> None:
        """Record a part that cannot be tried, and why."""
        self.left_out.append(what)

    @property
    def takes_turns(self) -> bool:
        """Whether a call of one seat may wait for what another seat does."""
        return self.target.host.info.takes_turns

    @property
    def deadlines(self) -> Deadlines:
        """The environment's deadlines, replaced by this check's own where it sets them."""
        return self.target.host.info.deadlines.model_copy(
            update={name: getattr(DEADLINES, name) for name in DEADLINES.model_fields_set}
        )

    @asynccontextmanager
    async def episode(
        self, access_point: AccessPoint = "server", *, target: Target | None = None, card: TaskCard | None = None
    ) -> AsyncGenerator[OpenEpisode]:
        """Open an episode at an access point, by default of the first task."""
        at = target or self.target
        chosen = card or at.cards[0]
        async with AsyncExitStack() as stack:
            if access_point == "server":
                opened = await stack.enter_async_context(at_server(at, chosen, self.deadlines))
            else:
                way = at_gateway(at, chosen, self.deadlines, self.gateway, self.model)
                opened = await stack.enter_async_context(way)
            self.tokens.update(place.token for place in opened.places.values())
            yield opened

    async def in_worlds(self, look: Callable[[OpenEpisode], Awaitable[None]]) -> None:
        """Call `look` with episodes to search for secrets: of each twin at the server (of the first also at the
        gateway), and of the original at both.
        """
        for number, twin in enumerate(self.twins[:_WORLDS]):
            for access_point in self.access_points if number == 0 else self.access_points[:1]:
                is_open = False
                try:
                    async with self.episode(access_point, target=twin) as opened:
                        is_open = True
                        await look(opened)
                except EpisodeError:
                    if is_open:
                        raise
                    # A world that cannot be made of such a secret shows nothing of it either.
                    self.leave_out(f"no episode opens with a canary in {twin.field_planted!r}")
                    break
        if self.no_twins is not None:
            self.leave_out(self.no_twins)
        for access_point in self.access_points:
            async with self.episode(access_point) as opened:
                await look(opened)

    async def at_seats(self, opened: OpenEpisode, act: Callable[[AttackedSeat], Coroutine[Any, Any, None]]) -> None:
        """Act at every seat of an episode; at all of them at once if seats take turns, so that calls which wait for
        another seat get their results.
        """
        seats = list(opened.places.values())
        if not self.takes_turns:
            for seat in seats:
                await act(seat)
            return
        async with raise_first_error(), anyio.create_task_group() as acting:
            for seat in seats:
                acting.start_soon(act, seat)

    # --- speaking -----------------------------------------------------------------------------------------------

    async def call(self, opened: OpenEpisode, name: str, arguments: Any, seat: str | None = None) -> RawExchange:
        """Call a tool of an episode with a sessionless request; a call that waits for another seat's turn is left after
        `TURN_SECONDS`.
        """
        place = opened.place if seat is None else opened.places[seat]
        where = f"tool {name} at the {opened.access_point}"
        seconds = TURN_SECONDS if self.takes_turns else ANSWER_SECONDS
        return await raw_mcp.call(self.wire, where, place.url, name, arguments, seconds=seconds)

    async def ask(self, opened: OpenEpisode, method: str, params: Mapping[str, Any] | None = None) -> RawExchange:
        """Make any sessionless MCP request."""
        return await raw_mcp.modern(
            self.wire, f"{method} at the {opened.access_point}", opened.place.url, method, params
        )

    async def session(self, opened: OpenEpisode, when: str = "") -> raw_mcp.Session:
        """Begin a session with an episode, as MCP's versions with a handshake do; `when` describes its requests."""
        where = f"{when}{when and ' '}at the {opened.access_point}"
        session = raw_mcp.Session(self.wire, where, opened.place.url)
        await session.begin()
        return session

    async def control(
        self, method: str, path: str, body: object = None, *, token: str | None = None, target: Target | None = None
    ) -> RawExchange:
        """Call the control plane with its own credential."""
        at = target or self.target
        headers = {"Authorization": f"Bearer {token or at.control_token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        return await self.wire.send(
            f"control plane, as the hub: {method} {path}",
            method,
            at.control_address(path),
            data,
            headers,
            http=at.control,
            is_privileged=True,
        )

    async def open_raw(self, **more: Any) -> OpenedEpisode:
        """Open an episode of the first task that is closed only on request or by its server's own deadline.

        Raises:
            EpisodeError: the episode does not open.
        """
        card = self.target.cards[0]
        task = {"id": card.public.id, "split": card.split, "seed": self.target.seed}
        answer = await self.control("POST", "/v1/episodes", {"task": task, **more})
        if answer.status != 200:
            raise EpisodeError(f"no episode opens: {answer.answer[:300]}")
        opened = OpenedEpisode.model_validate_json(answer.body)
        self.tokens.update(seat.token for seat in opened.seats)
        return opened

    async def state_of(self, opened: OpenEpisode) -> str:
        """The state of an episode according to the control plane: open, sealed or closed."""
        answer = await self.control("GET", f"/v1/episodes/{opened.id}", target=opened.target)
        return str(answer.message.get("state"))

    async def reference(self, opened: OpenEpisode) -> tuple[Message, ...]:
        """The reference solution of the episode's task; empty if it has none."""
        return tuple(await opened.episode.reference())

    def redact(self, text: str) -> str:
        """A text for the report, with tokens and secrets masked."""
        for token in self.tokens:
            text = text.replace(token, f"{token[:3]}…")
        return self.watch.hide(text)
