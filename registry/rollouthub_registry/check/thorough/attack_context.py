"""`AttackContext`: the environment, its canary twins, both access points and the HTTP client that scans every byte."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from rollouthub import Deadlines, Message, Model
from rollouthub.engine.sample import Exposing
from rollouthub.errors import EpisodeError
from rollouthub.hosting.control_wire import OpenedEpisode
from rollouthub.protocols import TaskCard
from rollouthub_registry.check.thorough import raw_mcp
from rollouthub_registry.check.thorough.access_points import Door, OpenEpisode, at_gateway, at_server
from rollouthub_registry.check.thorough.attack import Vulnerability
from rollouthub_registry.check.thorough.leak_scan import Watch
from rollouthub_registry.check.thorough.raw_exchange import RawExchange
from rollouthub_registry.check.thorough.raw_http import Wire
from rollouthub_registry.check.thorough.target import Target

DOORS: tuple[Door, ...] = ("server", "gateway")
DEADLINES = Deadlines(model_call=60, agent=900, verify=120, close=30, episode=1200)
_WORLDS = 6


@dataclass(frozen=True)
class Tools:
    """Programs of others that some attacks need."""

    mcp1_python: Path | None = None
    """A Python with the MCP SDK's 1.x line."""
    node_tools: Path | None = None
    """A folder with the conformance suite and the Inspector in its `node_modules`."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of the caller's environment: where a Node.js may be found."""


@dataclass
class AttackContext:
    """One environment under attack: its server, canary twins, gateway and the scanning HTTP client."""

    target: Target
    twins: list[Target]
    """The same with canaries in its secrets, a field each; none where its source is not here."""
    no_twins: str | None
    """Why there are none."""
    gateway: Exposing
    gateway_url: str
    model: Model
    http: aiohttp.ClientSession
    watch: Watch
    methods: tuple[str, ...] = ()
    """Names of the environment class, to be guessed as tools."""
    tools: Tools = field(default_factory=Tools)
    doors: tuple[Door, ...] = DOORS
    is_own: bool = True
    """Whether nobody else uses the server."""
    is_local: bool = True
    """Whether the server runs on this machine."""
    wire: Wire = field(init=False)
    tokens: set[str] = field(default_factory=set[str])
    sighted: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Secrets, and where each was met: a leak is told once, by the first attack that met it."""
    problems: list[Vulnerability] = field(default_factory=list[Vulnerability])
    left_out: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.tokens.add(self.target.control_token)
        self.new_attack()

    def new_attack(self) -> None:
        """Forget what the attack before had."""
        self.wire = Wire(self.http, self.watch)
        self.problems, self.left_out = [], []

    def note(self, says: str, exchange: RawExchange | None = None) -> None:
        """Something broke."""
        self.problems.append(Vulnerability(says, exchange))

    def leave_out(self, what: str) -> None:
        """A part that cannot be tried, and why."""
        self.left_out.append(what)

    @property
    def deadlines(self) -> Deadlines:
        """Those of the environment, within ours."""
        return self.target.host.info.deadlines.model_copy(
            update={name: getattr(DEADLINES, name) for name in DEADLINES.model_fields_set}
        )

    @asynccontextmanager
    async def episode(
        self, door: Door = "server", *, target: Target | None = None, card: TaskCard | None = None
    ) -> AsyncGenerator[OpenEpisode]:
        """An episode at one of the doors."""
        at = target or self.target
        chosen = card or at.cards[0]
        async with AsyncExitStack() as stack:
            if door == "server":
                opened = await stack.enter_async_context(at_server(at, chosen, self.deadlines))
            else:
                way = at_gateway(at, chosen, self.deadlines, self.gateway, self.model)
                opened = await stack.enter_async_context(way)
            self.tokens.update(place.token for place in opened.places.values())
            yield opened

    async def at_doors(self) -> AsyncIterator[OpenEpisode]:
        """A fresh episode of the first task at each door, one after the other."""
        for door in self.doors:
            async with self.episode(door) as opened:
                yield opened

    async def worlds(self) -> AsyncIterator[OpenEpisode]:
        """Episodes to look for secrets in: each twin at the server, one at the gateway, and the real one at both."""
        for number, twin in enumerate(self.twins[:_WORLDS]):
            for door in self.doors if number == 0 else self.doors[:1]:
                try:
                    async with self.episode(door, target=twin) as opened:
                        yield opened
                except EpisodeError:
                    # A world that cannot be made of such a secret shows nothing of it either.
                    self.leave_out(f"no episode opens with a canary in {twin.field_planted!r}")
                    break
        if self.no_twins is not None:
            self.leave_out(self.no_twins)
        async for opened in self.at_doors():
            yield opened

    # --- speaking -----------------------------------------------------------------------------------------------

    async def call(self, opened: OpenEpisode, name: str, arguments: Any, seat: str | None = None) -> RawExchange:
        """Call a tool of an episode, as an agent of today does."""
        place = opened.place if seat is None else opened.places[seat]
        return await raw_mcp.call(self.wire, f"tool {name} at the {opened.door}", place.url, name, arguments)

    async def ask(self, opened: OpenEpisode, method: str, params: Mapping[str, Any] | None = None) -> RawExchange:
        """Any request of the sessionless era."""
        return await raw_mcp.modern(self.wire, f"{method} at the {opened.door}", opened.place.url, method, params)

    async def control(
        self, method: str, path: str, body: object = None, *, token: str | None = None, target: Target | None = None
    ) -> RawExchange:
        """A call of the control plane, by its own."""
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
        """An episode of the first task that only its server's own clock closes, unless it is asked to.

        Raises:
            EpisodeError: it does not open.
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
        """What the control plane says of an episode: open, sealed or closed."""
        answer = await self.control("GET", f"/v1/episodes/{opened.id}", target=opened.target)
        return str(answer.message.get("state"))

    async def reference(self, opened: OpenEpisode) -> tuple[Message, ...]:
        """The solution of its task; empty where there is none."""
        return tuple(await opened.episode.reference())

    def redact(self, text: str) -> str:
        """A text for the report: no token, and no secret."""
        for token in self.tokens:
            text = text.replace(token, f"{token[:3]}…")
        return self.watch.hide(text)
