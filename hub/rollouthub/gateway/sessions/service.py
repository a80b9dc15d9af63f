"""The service: opens episodes for agents outside the hub, finds them by id, and ends them all."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from rollouthub.engine.cost_limits import check_limits
from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.sample import Exposing, Sample, SampleContext
from rollouthub.errors import ConfigError, HubError, StoreError, TaskError, UnknownNameError
from rollouthub.gateway.gateway import Gateway
from rollouthub.gateway.sessions.expiry import SessionExpiry
from rollouthub.gateway.sessions.external_agent import PRACTICE
from rollouthub.gateway.sessions.open_sessions_log import OpenAttempt
from rollouthub.gateway.sessions.service_rules import ServiceRules
from rollouthub.gateway.sessions.session import AgentSession, report_of
from rollouthub.gateway.sessions.session_player import IdempotencyKey, SessionPlayer
from rollouthub.gateway.sessions.sessions_wire import EnvironmentCard, EpisodeReport, EpisodeRequest
from rollouthub.gateway.sessions.task_picker import TaskPicker
from rollouthub.hosting.server.served_episodes import Conflict
from rollouthub.limits import Limits
from rollouthub.protocols import TaskCard
from rollouthub.rollout import AgentRef, Fault, Outcome, Phase, Rollout
from rollouthub.store import RunWriter, open_run

logger = logging.getLogger(__name__)

_DECIDED = (Outcome.SCORED, Outcome.AGENT_FAILED)
_DIGEST_BYTES = 16


class TooMany(HubError):
    """The maximum of open episodes is reached."""


@dataclass(frozen=True)
class Served:
    """An environment in which the service opens episodes."""

    opened: OpenEnvironment
    context: SampleContext
    task_picker: TaskPicker
    practice: TaskPicker
    """Picks tasks for practice, separately, so that practice does not change which tasks are scored."""

    @property
    def card(self) -> EnvironmentCard:
        """The environment's description for clients."""
        info = self.opened.host.info
        return EnvironmentCard(
            name=info.name,
            version=info.version,
            digest=info.digest,
            splits=info.splits,
            split=self.opened.split,
            seats=info.seats,
            tools=info.tools,
            tools_digest=info.tools_digest,
            limits=self.opened.limits,
        )


@dataclass(slots=True)
class _Keyed:
    """The episode that an idempotency key has opened."""

    fingerprint: bytes
    session: AgentSession | None = None
    """The running session; None once it has ended and is in the store."""
    rollout_id: str | None = None


class HubService:
    """Opens episodes for agents outside, and keeps their records; `open_service` makes one."""

    def __init__(
        self,
        opened: OpenPlan,
        served: Mapping[str, Served],
        gateway: Gateway,
        directory: Path,
        rules: ServiceRules,
        player: SessionPlayer,
        writer: RunWriter,
    ) -> None:
        self.gateway, self.directory, self.rules = gateway, directory, rules
        self.run_id = writer.run_id
        self.served = served
        """The environments by name."""
        self.expiry = SessionExpiry()
        self._opened, self._player, self._writer = opened, player, writer
        self._sessions: dict[AgentSession, None] = {}
        self._practising: set[AgentSession] = set()
        self._by_id: dict[str, AgentSession] = {}
        self._keys: dict[bytes, _Keyed] = {}
        self._samples: dict[str, int] = {}
        """The next free sample number by group id."""
        self._gone = anyio.Event()

    # --- looking ----------------------------------------------------------------------------------------------------

    @property
    def sessions(self) -> tuple[AgentSession, ...]:
        """The episodes that have not ended, oldest first."""
        return tuple(self._by_id.values())

    @property
    def is_stopping(self) -> bool:
        """Whether the service opens no more episodes."""
        return self._player.is_stopping

    def environment(self, name: str | None) -> Served:
        """A served environment by name; without a name, the only one.

        Raises:
            UsageError: there is none of this name, or several to choose from.
        """
        if name is None:
            if len(self.served) > 1:
                raise ConfigError(f"say which environment: {', '.join(self.served)}")
            return next(iter(self.served.values()))
        if name not in self.served:
            raise UnknownNameError("served environment", name[:100], self.served)
        return self.served[name]

    def find(self, episode_id: str) -> AgentSession | None:
        """An episode that has not ended; None if there is none with this id."""
        return self._by_id.get(episode_id)

    async def report(self, episode_id: str) -> EpisodeReport:
        """The state of an episode, or how it ended.

        Raises:
            UnknownNameError: there is no such episode.
        """
        session = self._by_id.get(episode_id)
        if session is not None:
            return session.report()
        rollout = await self._stored(episode_id)
        if rollout is None:
            raise UnknownNameError("episode", episode_id[:100], self._by_id)
        return report_of(rollout)

    async def _stored(self, rollout_id: str) -> Rollout | None:
        def read() -> Rollout | None:
            try:
                with open_run(self.directory) as reader:
                    rollout = reader.rollout(rollout_id)
            except HubError as error:
                if isinstance(error, StoreError):
                    raise
                return None
            return rollout if rollout.rollout_id == rollout_id else None

        return await anyio.to_thread.run_sync(read)

    # --- opening ----------------------------------------------------------------------------------------------------

    async def open(self, request: EpisodeRequest) -> AgentSession:
        """Open an episode; once this returns, its seats wait for their agents.

        If the request's idempotency key opened an episode before, that episode is returned, open or ended with a
        result. An episode that failed by a fault or was cut short is tried again.

        Raises:
            HubError: the episode cannot be opened.
        """
        keyed = self._keyed(request)
        if keyed is not None and keyed.session is not None:
            await keyed.session.opened()
            return keyed.session
        served = self.environment(request.environment)
        ttl = min(request.ttl_seconds or self.rules.ttl_seconds, self.rules.ttl_seconds)
        context = replace(served.context, limits=self._limits(request, served, ttl))
        session = AgentSession(ttl, self.expiry.expect, turn_seconds=self.rules.turn_seconds)
        return await self._open(request, session, served, context, keyed)

    async def practise(self, environment: str, gateway: Exposing) -> AgentSession:
        """Open an unscored practice episode without a model, whose seats `gateway` exposes.

        Raises:
            HubError: the episode cannot be opened.
        """
        served = self.environment(environment)
        agent = AgentRef(name=PRACTICE, version=served.context.agent_ref.version)
        context = replace(served.context, agent_ref=agent, model=None, gateway=gateway)
        session = AgentSession(self.rules.ttl_seconds, self.expiry.expect, is_practice=True)
        return await self._open(EpisodeRequest(environment=environment), session, served, context, None)

    async def _open(
        self,
        request: EpisodeRequest,
        session: AgentSession,
        served: Served,
        context: SampleContext,
        keyed: _Keyed | None,
    ) -> AgentSession:
        self._admit(session)
        self._sessions[session] = None
        if session.is_practice:
            self._practising.add(session)
        if keyed is not None:
            keyed.session = session
        try:
            again = await self._stored(keyed.rollout_id) if keyed is not None and keyed.rollout_id else None
            if again is not None and again.outcome in _DECIDED:
                self._forget(session, keyed)
                session.end(again)
                return session
            if session.is_practice:
                card = await served.practice.following(None)
                sample = self._practice_sample(context, card, served.practice.seed)
            else:
                card = await self._assign(request, served, again)
                sample = self._sample(context, card, request.seed, again)
            self._play(session, sample, 0 if again is None else again.attempt + 1, request, keyed)
            await session.opened()
        except BaseException as error:
            if session.attempt is None:
                self._forget(session, keyed)
                session.end(None, error if isinstance(error, HubError) else TaskError("who asked for it has left"))
            elif keyed is None:  # nobody will ever know its id
                session.cancel(hub_fault("OpenerLeft", "who asked for this episode left before it was open", "setup"))
            raise
        return session

    def _keyed(self, request: EpisodeRequest) -> _Keyed | None:
        if request.idempotency_key is None:
            return None
        fingerprint = _fingerprint(request)
        keyed = self._keys.setdefault(_digest(request.idempotency_key), _Keyed(fingerprint))
        if keyed.fingerprint != fingerprint:
            raise Conflict("this idempotency key was used for another request; send a new key with a new request")
        return keyed

    def _admit(self, session: AgentSession) -> None:
        if self.is_stopping:
            raise TaskError("the hub is about to leave, and opens no more episodes")
        if session.is_practice:
            if len(self._practising) >= self.rules.most_practising:
                raise TooMany(f"{self.rules.most_practising} episodes are open for practice, the most at once")
        elif len(self._sessions) - len(self._practising) >= self.rules.most_open:
            raise TooMany(f"{self.rules.most_open} episodes are open, which is the most this hub allows at once")

    def _limits(self, request: EpisodeRequest, served: Served, ttl: float) -> Limits:
        limits = request.limits.or_else(served.context.limits)
        check_limits(limits, served.context.deadlines, self._opened.is_priced)
        if limits.max_seconds is not None and limits.max_seconds > ttl:
            raise ConfigError(
                f"max_seconds = {limits.max_seconds:g} is past the episode's TTL of {ttl:g} s, which ends it unscored"
            )
        return limits

    async def _assign(self, request: EpisodeRequest, served: Served, again: Rollout | None) -> TaskCard:
        if again is not None:
            return await served.task_picker.find(again.task.split, again.task.id)
        if request.task is not None:
            return await served.task_picker.find(request.split, request.task)
        assign = served.task_picker.any if request.pick == "random" else served.task_picker.following
        return await assign(request.split)

    def _sample(self, context: SampleContext, card: TaskCard, seed: int | None, again: Rollout | None) -> Sample:
        """The next free sample of a task; or the sample of the earlier attempt `again`."""
        if again is not None:
            sample = self._opened.sample(context, card, again.sample)
            return replace(sample, group_id=again.group_id, rollout_id=again.rollout_id, seed=again.seed)
        sample = self._opened.sample(context, card, 0, seed)
        return self._opened.sample(context, card, self._next_sample(sample.group_id), seed)

    def _practice_sample(self, context: SampleContext, card: TaskCard, seed: int) -> Sample:
        """The next practice sample of a task, in a separate group and with a seed that no scored sample has."""
        sample = self._opened.sample(context, card, 0)
        group_id = f"{PRACTICE}-{sample.group_id}"
        number = self._next_sample(group_id)
        seed = practice_seed(f"{seed}\0{sample.seed}")
        return replace(sample, group_id=group_id, rollout_id=f"{group_id}-{number}", index=number, seed=seed)

    def _next_sample(self, group_id: str) -> int:
        number = self._samples.get(group_id, 0)
        self._samples[group_id] = number + 1
        return number

    def _play(
        self, session: AgentSession, sample: Sample, number: int, request: EpisodeRequest, keyed: _Keyed | None
    ) -> None:
        asked = IdempotencyKey()
        if keyed is not None:
            keyed.rollout_id = sample.rollout_id
            asked = IdempotencyKey(request.idempotency_key, keyed.fingerprint.hex())
        self._by_id[sample.rollout_id] = session
        self._player.begin(session, sample, number, asked, lambda: self._forget(session, keyed))

    def _forget(self, session: AgentSession, keyed: _Keyed | None) -> None:
        self._sessions.pop(session, None)
        self._practising.discard(session)
        if session.attempt is not None:
            self._by_id.pop(session.id, None)
        if keyed is not None and keyed.session is session:
            keyed.session = None
        self._gone.set()
        self._gone = anyio.Event()

    # --- before and after -------------------------------------------------------------------------------------------

    def remember(self, entry: OpenAttempt) -> None:
        """Restore one log entry of an earlier process: its sample number and idempotency key."""
        self._samples[entry.group_id] = max(self._samples.get(entry.group_id, 0), entry.sample + 1)
        if entry.key is not None and entry.fingerprint is not None:
            keyed = _Keyed(bytes.fromhex(entry.fingerprint), None, entry.rollout_id)
            self._keys[_digest(entry.key)] = keyed

    async def drain(self) -> None:
        """Open no more episodes, and wait until the open ones have ended."""
        self._player.is_stopping = True
        while self._sessions:
            await self._gone.wait()

    async def stop(self, seconds: float) -> bool:
        """Open no more episodes, and end the open ones, unscored. Returns whether that was done within `seconds`."""
        self._player.is_stopping = True
        for session in tuple(self._sessions):
            session.cancel(hub_fault("HubStopped", "the hub was stopped while this episode was open", "agent"))
        with anyio.move_on_after(seconds) as patience:
            while self._sessions:
                await self._gone.wait()
        if patience.cancelled_caught:
            logger.warning("%d episodes were not closed within %g s; leaving them", len(self._by_id), seconds)
            for session in self.sessions:
                await self._player.keep_as_it_is(session)
            await self._writer.flush()
        return not patience.cancelled_caught


def hub_fault(kind: str, message: str, phase: Phase) -> Fault:
    """A fault of the hub, as the reason why it cut an episode short."""
    return Fault(boundary="hub", phase=phase, type=kind, message=message)


def practice_seed(seed: int | str) -> int:
    """A seed for practice, from which the run's own seed cannot be derived."""
    return int.from_bytes(_digest(f"{PRACTICE}\0{seed}")[:4], "little") >> 1


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _fingerprint(request: EpisodeRequest) -> bytes:
    """A hash of a request, to detect that an idempotency key is reused for a different one."""
    return _digest(request.model_dump_json(exclude={"idempotency_key"}))
