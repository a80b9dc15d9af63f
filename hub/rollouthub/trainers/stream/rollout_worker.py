"""A rollout worker, for trainers that schedule by themselves: they request samples by task and get their rollouts."""

import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.sample import SampleContext
from rollouthub.errors import ConfigError, UnknownNameError, first_error
from rollouthub.generation import Sampling
from rollouthub.protocols import TaskCard
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter, open_run
from rollouthub.task import BadRow, Public
from rollouthub.trainers.stream.pending_group import PendingGroup, TaskPass, seed_of
from rollouthub.trainers.stream.sample_requests import SampleRequests
from rollouthub.trainers.stream.suspect_scores import trusted
from rollouthub.trainers.stream.weight_sync_gate import WeightSyncGate

_CARDS = 4096
"""Most task cards in the cache."""


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """A request to play one sample of a task."""

    task_id: str
    environment: str | None = None
    """The environment's name; None if the worker has only one."""
    split: str | None = None
    """The split; None is the run's, or the environment's first."""
    group: str | None = None
    """Name of the group within its task: members share the environment's seed. None makes a new group."""
    sample: int = 0
    """The member's number. A sample, by task, group and number, is played only once."""
    sampling: Sampling | None = None
    """Sampling settings that override the run's."""


class RolloutWorker:
    """Plays requested samples; every record is also in its run's store. Made by `rollout_worker`."""

    def __init__(
        self,
        directory: Path,
        opened: OpenPlan,
        writer: RunWriter,
        orders: SampleRequests,
        gate: WeightSyncGate,
        contexts: Iterable[tuple[OpenEnvironment, SampleContext]],
        *,
        suspect: bool = False,
    ) -> None:
        self.directory = directory
        """The run's directory, which holds every record."""
        self._opened, self._writer, self._orders, self._gate = opened, writer, orders, gate
        self._suspect = suspect
        self._contexts: Mapping[str, tuple[OpenEnvironment, SampleContext]] = {
            context.environment.name: (each, context) for each, context in contexts
        }
        for _, context in self._contexts.values():
            writer.add_tools(context.host.info.tools_digest, context.host.info.tools)
        self._cards: OrderedDict[tuple[str, str, str], TaskCard] = OrderedDict()

    @property
    def policy_version(self) -> int:
        """The version of the weights that generate now. Setting it stamps later generations with the new version."""
        return self._orders.policy.version

    @policy_version.setter
    def policy_version(self, version: int) -> None:
        if version != self.policy_version:
            self._orders.policy.advance(version)

    @property
    def environments(self) -> tuple[str, ...]:
        """The environments' names."""
        return tuple(self._contexts)

    def pause(self) -> None:
        """Hold every further model call; calls in flight continue."""
        self._gate.shut()

    def resume(self) -> None:
        """Let model calls through again."""
        self._gate.open()

    async def tasks(self, environment: str | None = None, split: str | None = None) -> AsyncIterator[Public]:
        """The public parts of an environment's tasks, in order, up to the run's `limit`.

        Raises:
            UsageError: there is no such environment or split, or a row makes no task.
        """
        opened, _ = self._context(environment)
        if split is not None:
            opened = replace(opened, split=split)
        async for card in self._opened.tasks(opened):
            if not isinstance(card, BadRow):
                yield card.public

    async def play(self, wanted: SampleRequest) -> Rollout:
        """Play one sample, with the attempts that the run's `retries` allow. Returns its record, scored or not.

        If the sample already has a final result, that is read from the store; a sample that failed by a fault is tried
        again. If the caller is cancelled and no other caller waits for the same sample, the episode is cancelled too,
        and recorded as cancelled.

        Raises:
            UnknownNameError: there is no such environment, split or task.
            SupplyError: the run has ended, for example by one of its limits.
            StoreError: records can no longer be stored.
        """
        rollout = await self._played(wanted)
        return trusted(rollout) if self._suspect else rollout

    async def _played(self, wanted: SampleRequest) -> Rollout:
        unit = await self._unit(wanted)
        rollout_id = unit.rollout_ids[0]
        if self._writer.is_done(rollout_id) or self._orders.is_decided(rollout_id):
            return await anyio.to_thread.run_sync(_read, self.directory, rollout_id)
        return await self._orders.ask(unit)

    async def rollout_id(self, wanted: SampleRequest) -> str:
        """The rollout id that the sample's record will have. The request must name its group.

        Raises:
            UnknownNameError: there is no such environment, split or task.
        """
        return (await self._unit(wanted)).rollout_ids[0]

    async def play_all(self, wanted: Iterable[SampleRequest]) -> list[Rollout]:
        """Play several samples at once. Returns their records in the order of the requests.

        Raises:
            UnknownNameError, SupplyError, StoreError: as `play`.
        """
        asked = list(wanted)
        records: list[Rollout | None] = [None] * len(asked)

        async def play(place: int) -> None:
            records[place] = await self.play(asked[place])

        try:
            async with anyio.create_task_group() as tasks:
                for place in range(len(asked)):
                    tasks.start_soon(play, place)
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        return [record for record in records if record is not None]

    def _context(self, environment: str | None) -> tuple[OpenEnvironment, SampleContext]:
        if environment is None:
            if len(self._contexts) > 1:
                raise ConfigError(f"name the environment that is wanted: {', '.join(self._contexts)}")
            return next(iter(self._contexts.values()))
        if environment not in self._contexts:
            raise UnknownNameError("environment of this worker", environment, self._contexts)
        return self._contexts[environment]

    async def _unit(self, wanted: SampleRequest) -> PendingGroup:
        opened, context = self._context(wanted.environment)
        card = await self._card(context, wanted.split or opened.split, wanted.task_id)
        if wanted.sampling is not None:
            context = replace(context, sampling=wanted.sampling.over(context.sampling))
        ticket = TaskPass(context, card, sample=wanted.sample)
        mark = wanted.group if wanted.group is not None else uuid.uuid4().hex
        seed = seed_of("\0".join((str(self._opened.plan.seed), *ticket.task, mark)))
        sample = self._opened.sample(context, card, wanted.sample, seed)
        if sample.policy_seed is not None:
            sample = replace(sample, policy_seed=seed_of(f"{sample.policy_seed}\0{mark}"))
        return PendingGroup(ticket, [sample], is_group=False)

    async def _card(self, context: SampleContext, split: str, task_id: str) -> TaskCard:
        key = context.environment.name, split, task_id
        card = self._cards.get(key)
        if card is None:
            card = self._cards[key] = await context.host.find_task(split, task_id, self._opened.plan.seed)
            if len(self._cards) > _CARDS:
                self._cards.popitem(last=False)
        return card


def _read(directory: Path, rollout_id: str) -> Rollout:
    with open_run(directory) as reader:
        return reader.rollout(rollout_id)
