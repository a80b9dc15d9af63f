"""A rollout worker, for trainers that schedule by themselves: they say which task is played, and get its record."""

import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import anyio.to_thread

from rollouthub.engine.open_plan import OpenEnvironment, OpenPlan
from rollouthub.engine.sample import SampleContext
from rollouthub.errors import ConfigError, UnknownNameError, first_error
from rollouthub.protocols import Sampling, TaskCard
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter, open_run
from rollouthub.task import BadRow, Public
from rollouthub.trainers.stream.pending_group import PendingGroup, TaskPass, seed_of
from rollouthub.trainers.stream.sample_requests import SampleRequests
from rollouthub.trainers.stream.suspect_scores import trusted
from rollouthub.trainers.stream.weight_sync_gate import WeightSyncGate

_CARDS = 4096
"""Tasks' cards that are kept."""


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """One sample to be played."""

    task_id: str
    environment: str | None = None
    """None is the worker's only one."""
    split: str | None = None
    """None is the run's, or the environment's first."""
    group: str | None = None
    """Names the group within its task: members share the environment's seed. None makes a group of its own."""
    sample: int = 0
    """Which member it is; the same task, group and sample is played once."""
    sampling: Sampling | None = None
    """How the model is to sample, on top of the run's."""


class RolloutWorker:
    """Plays what it is asked for; every record is in its run's store, too. Made by `rollout_worker`."""

    def __init__(
        self,
        directory: Path,
        opened: OpenPlan,
        writer: RunWriter,
        orders: SampleRequests,
        gate: WeightSyncGate,
        casts: Iterable[tuple[OpenEnvironment, SampleContext]],
        *,
        suspect: bool = False,
    ) -> None:
        self.directory = directory
        """The run's: every record is there, too."""
        self._opened, self._writer, self._orders, self._gate = opened, writer, orders, gate
        self._suspect = suspect
        self._casts: Mapping[str, tuple[OpenEnvironment, SampleContext]] = {
            cast.environment.name: (each, cast) for each, cast in casts
        }
        for _, cast in self._casts.values():
            writer.add_tools(cast.host.info.tools_digest, cast.host.info.tools)
        self._cards: OrderedDict[tuple[str, str, str], TaskCard] = OrderedDict()

    @property
    def policy_version(self) -> int:
        """Of the weights that generate now; what is generated from now on is stamped with it."""
        return self._orders.policy.version

    @policy_version.setter
    def policy_version(self, version: int) -> None:
        if version != self.policy_version:
            self._orders.policy.advance(version)

    @property
    def environments(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._casts)

    def pause(self) -> None:
        """Hold every model call from now on; those in flight go on."""
        self._gate.shut()

    def resume(self) -> None:
        """Go on."""
        self._gate.open()

    async def tasks(self, environment: str | None = None, split: str | None = None) -> AsyncIterator[Public]:
        """The public halves of an environment's tasks, in order, up to the run's `limit`.

        Raises:
            UsageError: there is no such environment or split, or a row makes no task.
        """
        opened, _ = self._cast(environment)
        if split is not None:
            opened = replace(opened, split=split)
        async for card in self._opened.tasks(opened):
            if not isinstance(card, BadRow):
                yield card.public

    async def play(self, wanted: SampleRequest) -> Rollout:
        """Play one sample, with the attempts that the run's `retries` allow; its record, scored or not.

        One that came to its result before is read from the store; one that broke is tried again. Where whoever asks is
        cancelled, and nobody else waits for the same sample, the episode is cancelled too, and recorded as such.

        Raises:
            UnknownNameError: there is no such environment, split or task.
            SupplyError: the run has ended: a limit of it was reached.
            StoreError: records cannot be kept any more.
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
        """The id that the record of a sample will have, where `wanted` names its group.

        Raises:
            UnknownNameError: there is no such environment, split or task.
        """
        return (await self._unit(wanted)).rollout_ids[0]

    async def play_all(self, wanted: Iterable[SampleRequest]) -> list[Rollout]:
        """Play several at once; their records in the order they were asked for.

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

    def _cast(self, environment: str | None) -> tuple[OpenEnvironment, SampleContext]:
        if environment is None:
            if len(self._casts) > 1:
                raise ConfigError(f"name the environment that is wanted: {', '.join(self._casts)}")
            return next(iter(self._casts.values()))
        if environment not in self._casts:
            raise UnknownNameError("environment of this worker", environment, self._casts)
        return self._casts[environment]

    async def _unit(self, wanted: SampleRequest) -> PendingGroup:
        opened, cast = self._cast(wanted.environment)
        card = await self._card(cast, wanted.split or opened.split, wanted.task_id)
        if wanted.sampling is not None:
            cast = replace(cast, sampling=wanted.sampling.over(cast.sampling))
        ticket = TaskPass(cast, card, sample=wanted.sample)
        mark = wanted.group if wanted.group is not None else uuid.uuid4().hex
        seed = seed_of("\0".join((str(self._opened.plan.seed), *ticket.task, mark)))
        item = self._opened.sample(cast, card, wanted.sample, seed)
        if item.policy_seed is not None:
            item = replace(item, policy_seed=seed_of(f"{item.policy_seed}\0{mark}"))
        return PendingGroup(ticket, [item], is_group=False)

    async def _card(self, cast: SampleContext, split: str, task_id: str) -> TaskCard:
        key = cast.environment.name, split, task_id
        card = self._cards.get(key)
        if card is None:
            card = self._cards[key] = await cast.host.find_task(split, task_id, self._opened.plan.seed)
            if len(self._cards) > _CARDS:
                self._cards.popitem(last=False)
        return card


def _read(directory: Path, rollout_id: str) -> Rollout:
    with open_run(directory) as reader:
        return reader.rollout(rollout_id)
