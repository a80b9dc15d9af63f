"""The service: opens episodes for agents outside, finds them again, and ends them all."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from rollouthub.engine.cost_limits import check_limits
from rollouthub.engine.open_plan import OpenEnvironment, OpenPlan
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
    """As many episodes are open as may be."""


@dataclass(frozen=True)
class Served:
    """An environment that episodes are opened in."""

    opened: OpenEnvironment
    cast: SampleContext
    dealer: TaskPicker
    practice: TaskPicker
    """Deals what is practised, so that practice moves nothing that is scored."""

    @property
    def card(self) -> EnvironmentCard:
        """As clients are told of it."""
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
    """What an idempotency key opened."""

    fingerprint: bytes
    visit: AgentSession | None = None
    """Until it has ended; the store has it then."""
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
        """By name."""
        self.reaper = SessionExpiry()
        self._opened, self._player, self._writer = opened, player, writer
        self._visits: dict[AgentSession, None] = {}
        self._practising: set[AgentSession] = set()
        self._by_id: dict[str, AgentSession] = {}
        self._keys: dict[bytes, _Keyed] = {}
        self._samples: dict[str, int] = {}
        """The next free sample of a group."""
        self._gone = anyio.Event()

    # --- looking ----------------------------------------------------------------------------------------------------

    @property
    def visits(self) -> tuple[AgentSession, ...]:
        """The episodes that have not ended, oldest first."""
        return tuple(self._by_id.values())

    @property
    def is_stopping(self) -> bool:
        """Whether it opens no more."""
        return self._player.is_stopping

    def environment(self, name: str | None) -> Served:
        """A served environment; the only one, where none is named.

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
        """An episode that has not ended."""
        return self._by_id.get(episode_id)

    async def report(self, episode_id: str) -> EpisodeReport:
        """How an episode stands, or ended.

        Raises:
            UnknownNameError: there never was one.
        """
        visit = self._by_id.get(episode_id)
        if visit is not None:
            return visit.report()
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

        Where the request's idempotency key opened one before, it is that one: open, or ended with a verdict. One that
        broke or was cut short is tried again.

        Raises:
            HubError: it cannot be opened as asked.
        """
        keyed = self._keyed(request)
        if keyed is not None and keyed.visit is not None:
            await keyed.visit.opened()
            return keyed.visit
        served = self.environment(request.environment)
        ttl = min(request.ttl_seconds or self.rules.ttl_seconds, self.rules.ttl_seconds)
        cast = replace(served.cast, limits=self._limits(request, served, ttl))
        return await self._open(request, AgentSession(ttl, self.reaper.expect), served, cast, keyed)

    async def practise(self, environment: str, gateway: Exposing) -> AgentSession:
        """Open an episode whose seats `gateway` has, without a model, and which is never scored.

        Raises:
            HubError: it cannot be opened.
        """
        served = self.environment(environment)
        agent = AgentRef(name=PRACTICE, version=served.cast.agent_ref.version)
        cast = replace(served.cast, agent_ref=agent, model=None, gateway=gateway)
        visit = AgentSession(self.rules.ttl_seconds, self.reaper.expect, is_practice=True)
        return await self._open(EpisodeRequest(environment=environment), visit, served, cast, None)

    async def _open(
        self, request: EpisodeRequest, visit: AgentSession, served: Served, cast: SampleContext, keyed: _Keyed | None
    ) -> AgentSession:
        self._admit(visit)
        self._visits[visit] = None
        if visit.is_practice:
            self._practising.add(visit)
        if keyed is not None:
            keyed.visit = visit
        try:
            again = await self._stored(keyed.rollout_id) if keyed is not None and keyed.rollout_id else None
            if again is not None and again.outcome in _DECIDED:
                self._forget(visit, keyed)
                visit.end(again)
                return visit
            if visit.is_practice:
                card = await served.practice.following(None)
                item = self._practice_item(cast, card, served.practice.seed)
            else:
                card = await self._deal(request, served, again)
                item = self._item(cast, card, request.seed, again)
            self._play(visit, item, 0 if again is None else again.attempt + 1, request, keyed)
            await visit.opened()
        except BaseException as error:
            if visit.attempt is None:
                self._forget(visit, keyed)
                visit.end(None, error if isinstance(error, HubError) else TaskError("who asked for it has left"))
            elif keyed is None:  # nobody will ever know its id
                visit.cancel(hub_fault("OpenerLeft", "who asked for this episode left before it was open", "setup"))
            raise
        return visit

    def _keyed(self, request: EpisodeRequest) -> _Keyed | None:
        if request.idempotency_key is None:
            return None
        fingerprint = _fingerprint(request)
        keyed = self._keys.setdefault(_digest(request.idempotency_key), _Keyed(fingerprint))
        if keyed.fingerprint != fingerprint:
            raise Conflict("this idempotency key was used for another request; send a new key with a new request")
        return keyed

    def _admit(self, visit: AgentSession) -> None:
        if self.is_stopping:
            raise TaskError("the hub is about to leave, and opens no more episodes")
        if visit.is_practice:
            if len(self._practising) >= self.rules.most_practising:
                raise TooMany(f"{self.rules.most_practising} episodes are open for practice, the most at once")
        elif len(self._visits) - len(self._practising) >= self.rules.most_open:
            raise TooMany(f"{self.rules.most_open} episodes are open, which is the most this hub allows at once")

    def _limits(self, request: EpisodeRequest, served: Served, ttl: float) -> Limits:
        limits = request.limits.or_else(served.cast.limits)
        check_limits(limits, served.cast.deadlines, self._opened.is_priced)
        if limits.max_seconds is not None and limits.max_seconds > ttl:
            raise ConfigError(
                f"max_seconds = {limits.max_seconds:g} is past the episode's TTL of {ttl:g} s, which ends it unscored"
            )
        return limits

    async def _deal(self, request: EpisodeRequest, served: Served, again: Rollout | None) -> TaskCard:
        if again is not None:
            return await served.dealer.find(again.task.split, again.task.id)
        if request.task is not None:
            return await served.dealer.find(request.split, request.task)
        deal = served.dealer.any if request.pick == "random" else served.dealer.following
        return await deal(request.split)

    def _item(self, cast: SampleContext, card: TaskCard, seed: int | None, again: Rollout | None) -> Sample:
        """The next free sample of a task; or one that was begun before."""
        if again is not None:
            item = self._opened.sample(cast, card, again.sample)
            return replace(item, group_id=again.group_id, rollout_id=again.rollout_id, seed=again.seed)
        item = self._opened.sample(cast, card, 0, seed)
        return self._opened.sample(cast, card, self._next_sample(item.group_id), seed)

    def _practice_item(self, cast: SampleContext, card: TaskCard, seed: int) -> Sample:
        """The next sample of a task for practice: in a group of its own, with a seed that no scored one has."""
        item = self._opened.sample(cast, card, 0)
        group_id = f"{PRACTICE}-{item.group_id}"
        number = self._next_sample(group_id)
        seed = practice_seed(f"{seed}\0{item.seed}")
        return replace(item, group_id=group_id, rollout_id=f"{group_id}-{number}", sample=number, seed=seed)

    def _next_sample(self, group_id: str) -> int:
        number = self._samples.get(group_id, 0)
        self._samples[group_id] = number + 1
        return number

    def _play(
        self, visit: AgentSession, item: Sample, number: int, request: EpisodeRequest, keyed: _Keyed | None
    ) -> None:
        asked = IdempotencyKey()
        if keyed is not None:
            keyed.rollout_id = item.rollout_id
            asked = IdempotencyKey(request.idempotency_key, keyed.fingerprint.hex())
        self._by_id[item.rollout_id] = visit
        self._player.begin(visit, item, number, asked, lambda: self._forget(visit, keyed))

    def _forget(self, visit: AgentSession, keyed: _Keyed | None) -> None:
        self._visits.pop(visit, None)
        self._practising.discard(visit)
        if visit.attempt is not None:
            self._by_id.pop(visit.id, None)
        if keyed is not None and keyed.visit is visit:
            keyed.visit = None
        self._gone.set()
        self._gone = anyio.Event()

    # --- before and after -------------------------------------------------------------------------------------------

    def remember(self, entry: OpenAttempt) -> None:
        """Take over what was begun before the hub was started again."""
        self._samples[entry.group_id] = max(self._samples.get(entry.group_id, 0), entry.sample + 1)
        if entry.key is not None and entry.fingerprint is not None:
            keyed = _Keyed(bytes.fromhex(entry.fingerprint), None, entry.rollout_id)
            self._keys[_digest(entry.key)] = keyed

    async def drain(self) -> None:
        """Open no more, and wait until what is open has ended."""
        self._player.is_stopping = True
        while self._visits:
            await self._gone.wait()

    async def stop(self, seconds: float) -> bool:
        """Open no more, and end what is open, unscored; whether that was done in time."""
        self._player.is_stopping = True
        for visit in tuple(self._visits):
            visit.cancel(hub_fault("HubStopped", "the hub was stopped while this episode was open", "agent"))
        with anyio.move_on_after(seconds) as patience:
            while self._visits:
                await self._gone.wait()
        if patience.cancelled_caught:
            logger.warning("%d episodes were not closed within %g s; leaving them", len(self._by_id), seconds)
            for visit in self.visits:
                await self._player.keep_as_it_is(visit)
            await self._writer.flush()
        return not patience.cancelled_caught


def hub_fault(kind: str, message: str, phase: Phase) -> Fault:
    """Why the hub cut an episode short."""
    return Fault(boundary="hub", phase=phase, type=kind, message=message)


def practice_seed(seed: int | str) -> int:
    """The seed of practice, which tells nothing of the one it follows from."""
    return int.from_bytes(_digest(f"{PRACTICE}\0{seed}")[:4], "little") >> 1


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()


def _fingerprint(request: EpisodeRequest) -> bytes:
    """Tells requests apart that carry one key."""
    return _digest(request.model_dump_json(exclude={"idempotency_key"}))
