"""A rollout worker, for trainers that schedule by themselves: they request samples by task and get their rollouts."""

import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import anyio
import anyio.to_thread

from rollouthub.engine.group_scoring import GroupScoring
from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.sample import SampleContext
from rollouthub.engine.session import Session
from rollouthub.errors import ConfigError, UnknownNameError, raise_first_error
from rollouthub.generation import Sampling
from rollouthub.protocols import TaskCard
from rollouthub.rollout import Rollout
from rollouthub.task import BadRow, Public
from rollouthub.trainers.stream.pending_group import PendingGroup, TaskPass, seed_of
from rollouthub.trainers.stream.requested_groups import RequestedGroups, read_stored
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
    group_size: int | None = None
    """How many members the group has. An environment that scores groups needs it, see `RolloutWorker.play_group`."""


class RolloutWorker:
    """Plays requested samples; every record is also in its run's store. Made by `rollout_worker`."""

    def __init__(
        self,
        session: Session,
        opened: OpenPlan,
        orders: SampleRequests,
        gate: WeightSyncGate,
        *,
        suspect: bool = False,
        scoring: GroupScoring | None = None,
    ) -> None:
        """`scoring` scores groups, for environments that score whole groups; None if no environment does."""
        writer, contexts = session.writer, opened.contexts(session.writer.run_id)
        self.directory = session.directory
        """The run's directory, which holds every record."""
        self._opened, self._writer, self._orders, self._gate = opened, writer, orders, gate
        self._suspect = suspect
        self._groups = None if scoring is None else RequestedGroups(scoring, writer, orders, session.directory)
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

    def scores_groups(self, environment: str | None = None) -> bool:
        """Whether an environment scores all samples of a task together.

        Raises:
            UsageError: there is no such environment.
        """
        return self._context(environment)[1].host.info.scores_groups

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

    async def play(self, wanted: SampleRequest, *, on_waiting: Callable[[], None] | None = None) -> Rollout:
        """Play one sample, with the attempts that the run's `retries` allow. Returns its record, scored or not.

        If the sample already has a final result, that is read from the store; a sample that failed by a fault is tried
        again. If the caller is cancelled and no other caller waits for the same sample, the episode is cancelled too,
        and recorded as cancelled.

        A sample of an environment that scores groups is returned with its verdict, once all members of its group are
        over; `on_waiting` is called when this one is. Request them all at once, as `play_group` and `play_all` do, or
        none is ever returned.

        Raises:
            ConfigError: the environment scores groups, and the request does not say how many members the group has.
            UnknownNameError: there is no such environment, split or task.
            SupplyError: the run has ended, for example by one of its limits.
            StoreError: records can no longer be stored.
        """
        rollout = await self._played(wanted, on_waiting)
        return trusted(rollout) if self._suspect else rollout

    async def _played(self, wanted: SampleRequest, on_waiting: Callable[[], None] | None) -> Rollout:
        unit = await self._unit(wanted)
        rollout_id = unit.rollout_ids[0]
        if self._groups is not None and self.scores_groups(wanted.environment):
            if wanted.group is None or wanted.group_size is None:
                raise ConfigError(
                    f"environment {unit.environment.name!r} scores all samples of a task together, and one was asked "
                    "for by itself; give the request `group` and `group_size`, and ask for all members at once, as "
                    "RolloutWorker.play_group does"
                )
            return await self._groups.play(unit, on_waiting)
        if self._writer.is_done(rollout_id) or self._orders.is_decided(rollout_id):
            return await anyio.to_thread.run_sync(read_stored, self.directory, rollout_id)
        return await self._orders.ask(unit)

    async def rollout_id(self, wanted: SampleRequest) -> str:
        """The rollout id that the sample's record will have. The request must name its group.

        Raises:
            UnknownNameError: there is no such environment, split or task.
        """
        return (await self._unit(wanted)).rollout_ids[0]

    async def play_group(self, wanted: SampleRequest, size: int) -> list[Rollout]:
        """Play `size` samples of a task as one group, numbered from 0. Returns their records in order; those of an
        environment that scores groups have its verdict.

        Raises:
            UnknownNameError, SupplyError, StoreError: as `play`.
        """
        group = wanted.group if wanted.group is not None else uuid.uuid4().hex
        return await self.play_all(
            [replace(wanted, group=group, sample=number, group_size=size) for number in range(size)]
        )

    async def play_all(self, wanted: Iterable[SampleRequest]) -> list[Rollout]:
        """Play several samples at once. Returns their records in the order of the requests.

        For an environment that scores groups, requests with equal task and group are a group, which must be whole.

        Raises:
            ConfigError: a group of such an environment has other members than its requests say.
            UnknownNameError, SupplyError, StoreError: as `play`.
        """
        asked = self._in_groups(list(wanted))
        records: list[Rollout | None] = [None] * len(asked)

        async def play(place: int) -> None:
            records[place] = await self.play(asked[place])

        async with raise_first_error(), anyio.create_task_group() as tasks:
            for place in range(len(asked)):
                tasks.start_soon(play, place)
        return [record for record in records if record is not None]

    def _in_groups(self, wanted: list[SampleRequest]) -> list[SampleRequest]:
        """The requests with the sizes of their groups, for environments that score groups.

        Raises:
            ConfigError: a group does not have as many members as its requests say.
        """
        if self._groups is None:
            return wanted
        named = [each if each.group is not None else replace(each, group=uuid.uuid4().hex) for each in wanted]
        members: dict[tuple[str | None, ...], set[int]] = {}
        for each in named:
            members.setdefault(self._group_of(each), set()).add(each.sample)
        made: list[SampleRequest] = []
        for each in named:
            count = len(members[self._group_of(each)])
            if self.scores_groups(each.environment):
                if each.group_size not in (None, count):
                    raise ConfigError(
                        f"task {each.task_id!r}: {count} of the {each.group_size} members of group {each.group!r} are "
                        "asked for, and the environment scores whole groups; have one process ask for all of a group"
                    )
                each = replace(each, group_size=count)
            made.append(each)
        return made

    def _group_of(self, wanted: SampleRequest) -> tuple[str | None, ...]:
        opened, context = self._context(wanted.environment)
        return context.environment.name, wanted.split or opened.split, wanted.task_id, wanted.group

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
        sample = self._opened.sample(context, card, wanted.sample, seed, group_size=wanted.group_size)
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
