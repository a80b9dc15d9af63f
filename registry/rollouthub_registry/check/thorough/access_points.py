"""Opens an episode at the environment's own server or at the hub's gateway, as an agent would reach it."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio
from mcp_types import Tool

from rollouthub import Deadlines, Limits, Model, Sampling, Score
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.episode_seed import episode_seed
from rollouthub.engine.sample import Exposing, Sample, SampleContext
from rollouthub.engine.seat import EpisodeSeat
from rollouthub.errors import EpisodeError, TaskError, raise_first_error
from rollouthub.protocols import AgentPlane, Episode, Seat, SeatAddress, ServedPlane, TaskCard
from rollouthub.rollout import AgentRef, EnvironmentRef, Rollout, Stop, TaskRef
from rollouthub.score import Submission
from rollouthub_registry.check.thorough.target import Target

AccessPoint = Literal["server", "gateway"]
END_SECONDS = 60.0


@dataclass(frozen=True)
class AttackedSeat:
    """A seat of an episode, with the addresses and credentials that its agent has."""

    name: str
    url: str
    token: str = field(repr=False)
    tools: tuple[Tool, ...]
    llm_url: str | None = None

    @property
    def base(self) -> str:
        """Scheme, host and port of the seat's URL."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def tool(self, name: str) -> Tool | None:
        """The definition of the seat's tool with this name; None if it has none."""
        return next((tool for tool in self.tools if tool.name == name), None)


@dataclass(frozen=True)
class EpisodeResult:
    """The result of an episode."""

    score: Score | None
    answer: str | None
    problem: str | None = None
    """Why there is no score."""

    @property
    def reward(self) -> float | None:
        """The episode's reward; None where there is no score."""
        return None if self.score is None else self.score.reward


class OpenEpisode:
    """An open episode at one access point."""

    def __init__(
        self,
        access_point: AccessPoint,
        target: Target,
        card: TaskCard,
        episode: Episode,
        places: Mapping[str, AttackedSeat],
    ) -> None:
        self.access_point, self.target, self.card, self.episode = access_point, target, card, episode
        self.places = dict(places)
        self.id = episode.id

    @property
    def place(self) -> AttackedSeat:
        """The episode's first seat."""
        return next(iter(self.places.values()))

    @property
    def submits(self) -> bool:
        """Whether the first seat has a `submit` tool."""
        return self.place.tool("submit") is not None

    async def end(self) -> EpisodeResult:
        """End the episode for its agent, and score it."""
        try:
            score = await self.episode.conclude(Submission(answer=self.episode.answer))
        except EpisodeError as error:
            return EpisodeResult(None, self.episode.answer, str(error))
        faults = "; ".join(fault.message for fault in self.episode.faults)
        return EpisodeResult(score, self.episode.answer, None if score is not None else faults or "no score")


@asynccontextmanager
async def at_server(target: Target, card: TaskCard, deadlines: Deadlines) -> AsyncGenerator[OpenEpisode]:
    """Open an episode at the environment's own server; it is closed on exit."""
    async with target.host.open(card, seed=_seed(target, card), deadlines=deadlines) as episode:
        places = {
            name: AttackedSeat(name, _url(plane), plane.token, tuple(plane.tools))
            for name, plane in episode.seats.items()
        }
        yield OpenEpisode("server", target, card, episode, places)


def _url(plane: AgentPlane) -> str:
    assert isinstance(plane, ServedPlane), "a target is served"
    return plane.url


def _seed(target: Target, card: TaskCard) -> int:
    return episode_seed(target.seed, target.name, card.split, card.public.id)


class _OutsideAgent:
    """An external agent that passes on its seats' addresses and stays until it is told to leave."""

    name, version = "check", "1"
    config: dict[str, Any] = {}

    def __init__(self, seats: int) -> None:
        self.seats: dict[str, tuple[Seat, SeatAddress]] = {}
        self._awaited = seats
        self.ready, self.leave = anyio.Event(), anyio.Event()

    async def play(self, seat: Seat) -> Stop:
        """Never called: this agent only plays from outside."""
        raise AssertionError

    async def play_listening(self, seat: Seat, address: SeatAddress) -> Stop:
        """Record the seat's address, and keep its access point open until `leave` is set.

        Listening, because every seat must be open from the start, also where seats take turns.
        """
        self.seats[seat.name] = seat, address
        if len(self.seats) == self._awaited:
            self.ready.set()
        await self.leave.wait()
        return Stop.FINISHED


class _Exposed(OpenEpisode):
    """An episode behind the gateway, played and scored by the engine."""

    def __init__(self, *arguments: Any, agent: _OutsideAgent, done: anyio.Event, rollouts: list[Rollout]) -> None:
        super().__init__(*arguments)
        self._agent, self._done, self._rollouts = agent, done, rollouts

    async def end(self) -> EpisodeResult:
        """Let the agent leave, and wait for the engine's record of the episode."""
        self._agent.leave.set()
        with anyio.fail_after(END_SECONDS):
            await self._done.wait()
        if not self._rollouts:
            return EpisodeResult(None, None, "the episode left no record")
        rollout = self._rollouts[0]
        told = "; ".join(fault.message for fault in rollout.faults) or str(rollout.outcome)
        return EpisodeResult(rollout.score, rollout.answer, None if rollout.score is not None else told)


def _item(
    target: Target, card: TaskCard, deadlines: Deadlines, gateway: Exposing, model: Model | None, agent: _OutsideAgent
) -> Sample:
    """The sample that the engine plays: as in a run, but without limits."""
    info = target.host.info
    cast = SampleContext(
        run_id="check",
        host=target.host,
        environment=EnvironmentRef(name=info.name, version=info.version, digest=info.digest),
        agent=agent,
        agent_ref=AgentRef(name=agent.name, version=agent.version),
        model=model,
        sampling=Sampling(),
        limits=Limits(),
        deadlines=deadlines,
        gateway=gateway,
    )
    task = TaskRef(split=card.split, id=card.public.id, digest=card.digest)
    return Sample(cast, card, task, "group", "group-0", 0, _seed(target, card), None)


@asynccontextmanager
async def at_gateway(
    target: Target, card: TaskCard, deadlines: Deadlines, gateway: Exposing, model: Model | None
) -> AsyncGenerator[OpenEpisode]:
    """Open an episode at the hub's gateway, with a model behind its model API; it is scored and closed on exit.

    Raises:
        TaskError: the episode does not open.
    """
    agent, done, rollouts = _OutsideAgent(len(target.host.info.seats)), anyio.Event(), list[Rollout]()
    item = _item(target, card, deadlines, gateway, model, agent)

    async def play() -> None:
        try:
            rollouts.append(await Attempt(item, 0, 0.0, lambda _: None).play())
        finally:
            done.set()
            agent.ready.set()

    async with raise_first_error(), anyio.create_task_group() as tasks:
        tasks.start_soon(play)
        try:
            await agent.ready.wait()
            if done.is_set():
                told = "; ".join(fault.message for rollout in rollouts for fault in rollout.faults)
                raise TaskError(f"an episode of {target.name} did not open: {told}")
            seat = next(iter(agent.seats.values()))[0]
            assert isinstance(seat, EpisodeSeat)
            episode, places = seat.episode, dict[str, AttackedSeat]()
            for name, (_, address) in agent.seats.items():
                tools = episode.seats[name].tools
                places[name] = AttackedSeat(name, address.agent_url, address.api_key, tools, address.llm_url)
            yield _Exposed("gateway", target, card, episode, places, agent=agent, done=done, rollouts=rollouts)
        finally:
            agent.leave.set()
