"""A plan whose environments and models are open: the tasks to play, and the players."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version

from pydantic import JsonValue

from rollouthub.engine.cost_limits import check_run_cost, priced
from rollouthub.engine.lock_check import check_hosted, lock_of
from rollouthub.engine.mixture import Share, Turns, shares
from rollouthub.engine.open_environment import OpenEnvironment, bundle_digests, hosted, with_bounds
from rollouthub.engine.opponent_pool import Opponent, OpponentPool
from rollouthub.engine.oracle_references import References
from rollouthub.engine.plan import Plan, with_named_agent
from rollouthub.engine.planned_seat import check_attended, check_seats
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.sample import Exposing, Sample, SampleContext, SeatPlayer
from rollouthub.engine.setting_files import setting_files
from rollouthub.engine.task_selection import chosen_tasks
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.generation import Model, Sampling
from rollouthub.models.batch_run import BatchRun
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.key_protection import erase_shown_secrets
from rollouthub.models.preflight import BudgetedModel, preflight
from rollouthub.models.prices import find_price
from rollouthub.models.resolve import open_model
from rollouthub.plugins.components import component
from rollouthub.plugins.lock import Lock
from rollouthub.protocols import Agent, ExposedAgent, HeldAgent, TaskCard
from rollouthub.rollout import AgentRef, EnvironmentRef, TaskRef
from rollouthub.task import BadRow
from rollouthub.tracing import Tracer


@dataclass(frozen=True)
class OpenPlan:
    """A plan with its environments, models and agents open, ready to play."""

    plan: Plan
    environments: tuple[OpenEnvironment, ...]
    model: Model | None
    roles: Mapping[str, Model]
    """Role → model that environments ask themselves, such as a judge."""
    agent: Agent
    """The plan's agent, open."""
    seats: Mapping[str, SeatPlayer] = field(default_factory=dict[str, SeatPlayer])
    """Seat → its own player, open; seats without one are played by `agent` and `model`."""
    gateway: Exposing | None = None
    tracer: Tracer | None = None
    """The tracer; None if the run is not traced."""
    is_priced: bool = True
    """Whether a cost limit can take effect: the prices of all models that play are known. True without a model."""
    shares: dict[str, Share] = field(default_factory=dict[str, Share])
    """Environment → its share of the mixture; filled by `count`."""

    def count_spent(self, spent: Mapping[str, float]) -> None:
        """Count the US dollars that each role's model cost before the run was resumed towards its budget."""
        for role, model in {"": self.model, **self.roles}.items():
            if isinstance(model, BudgetedModel):
                model.count_spent(spent.get(role, 0.0))

    def budgets_left(self) -> dict[str, float]:
        """US dollars left of each model's budget, by role; the role of the model that plays is the empty string."""
        left: dict[str, float] = {}
        for role, (config, model) in {
            "": (self.plan.model, self.model),
            **{role: (self.plan.request.roles[role], model) for role, model in self.roles.items()},
        }.items():
            if config is not None and config.budget is not None and isinstance(model, BudgetedModel):
                left[role] = max(0.0, config.budget - model.spent)
        return left

    @property
    def resolved(self) -> dict[str, JsonValue]:
        """The complete description of the run, without secrets; `hub run --config resolved.json` plays it again."""
        plan = self.plan
        files: list[dict[str, JsonValue]] = [
            # Of a server that others started, they are elsewhere.
            {} if planned.is_attached else {**setting_files(opened.host.info.config)}
            for planned, opened in zip(plan.environments, self.environments, strict=True)
        ]
        settings = {
            f"{opened.host.info.name}.{key}": value
            for planned, opened in zip(plan.environments, self.environments, strict=True)
            if not planned.is_attached
            for key, value in opened.host.info.config.items()
        }
        update = {"agent": plan.agent_name, "agent_set": plan.agent.config, "set": settings}
        request = plan.request.model_copy(update=update).model_dump(mode="json")
        # Only those the caller gave: the others are the environments' to suggest, then as now.
        request["deadlines"] = plan.request.deadlines.model_dump(mode="json", exclude_unset=True)
        if plan.model is not None and not plan.model.replicas:
            request["base_url"] = plan.model.base_url
        return {
            "hub_version": version("rollouthub"),
            "request": request,
            "environments": [
                {
                    **opened.host.info.model_dump(mode="json", include={"name", "version", "digest", "tools_digest"}),
                    **bundle_digests(planned.installation),
                    "split": opened.split,
                    "limits": opened.limits.model_dump(mode="json"),
                    "deadlines": opened.deadlines.model_dump(mode="json"),
                    "files": named,
                }
                for planned, opened, named in zip(plan.environments, self.environments, files, strict=True)
            ],
            "agent_version": plan.agent.version,
        }

    @property
    def lock(self) -> Lock:
        """The digests of everything the run plays, for a lock file."""
        return lock_of(
            (opened.host.info, planned.installation)
            for planned, opened in zip(self.plan.environments, self.environments, strict=True)
        )

    def contexts(self, run_id: str) -> Iterator[tuple[OpenEnvironment, SampleContext]]:
        """Each environment with the context of its samples."""
        plan = self.plan
        agent = AgentRef(name=plan.agent_name, version=plan.agent.version, config=plan.agent.config)
        for planned, opened in zip(plan.environments, self.environments, strict=True):
            info = opened.host.info
            yield (
                opened,
                SampleContext(
                    run_id=run_id,
                    host=opened.host,
                    environment=EnvironmentRef(
                        name=info.name,
                        version=info.version,
                        digest=info.digest,
                        **bundle_digests(planned.installation),
                    ),
                    agent=self.agent,
                    agent_ref=agent,
                    model=self.model,
                    sampling=plan.request.sampling,
                    limits=opened.limits,
                    deadlines=opened.deadlines,
                    gateway=self.gateway,
                    tracer=self.tracer,
                    tool_names=frozenset(tool.name for tool in info.tools),
                    seats=self.seats,
                ),
            )

    @property
    def weights(self) -> dict[str, float]:
        """Environment → weight in the mixture; empty if the run is no mixture."""
        plan = self.plan
        if not plan.request.weights or plan.subset is not None:
            return {}
        return {
            opened.host.info.name: plan.request.weights.get(planned.name, 1.0)
            for planned, opened in zip(plan.environments, self.environments, strict=True)
        }

    async def count(self) -> tuple[int, int]:
        """The number of planned rollouts, and the number of bad rows.

        Reads each task once, so that a bad row is found before the first episode.

        Raises:
            DataError: a row is not a valid task, and bad rows are not skipped.
            ConfigError: there is no task, two tasks have the same id, or some lack the reference that the oracle plays.
            UnknownNameError: no environment has a task of a given name.
        """
        good: dict[str, int] = {}
        bad = 0
        self.shares.clear()
        unknown: list[dict[str, UnknownNameError]] = []
        for opened in self.environments:
            taken: set[int] = set()
            unknown.append({})
            name = opened.host.info.name
            good[name] = 0
            references = References(name, self.agent)
            async for card in self.tasks(opened, unknown[-1]):
                if isinstance(card, BadRow):
                    bad += 1
                    continue
                good[name] += 1
                # A hash each, not the ids themselves: they may be long, and there may be a million.
                key = hash(card.public.id)
                if key in taken:
                    raise ConfigError(f"two tasks of {name} ({opened.split}) have the id {card.public.id!r}")
                taken.add(key)
                references.look(card)
            references.check()
        for task_name, error in unknown[0].items():
            if all(task_name in each for each in unknown):
                raise error
        if not any(good.values()):
            names = ", ".join(f"{opened.host.info.name} ({opened.split})" for opened in self.environments)
            raise ConfigError(f"there is no task to run in {names}" + (f"; {bad} rows are bad" if bad else ""))
        if self.weights:
            self.shares.update(shares(good, self.weights))
            good = {name: share.size for name, share in self.shares.items()}
        return sum(good.values()) * self.plan.repeats, bad

    async def tasks(
        self, opened: OpenEnvironment, missing: dict[str, UnknownNameError] | None = None, epoch: int = 0
    ) -> AsyncIterator[TaskCard | BadRow]:
        """The requested tasks of one environment; in a mixture, those of its share in this epoch.

        Names that match no task here are put into `missing`, because another environment may have them.

        Raises:
            UnknownNameError: a name matches no task, `missing` is not given, and the run has one environment.
        """
        subset = self.plan.subset
        unknown: dict[str, UnknownNameError] = {}
        if subset is not None:
            for task_id in subset.tasks[opened.host.info.name]:
                yield await opened.host.find_task(opened.split, task_id, self.plan.seed)
            return
        share, place = self.shares.get(opened.host.info.name), 0
        async with aclosing(
            chosen_tasks(opened.host, opened.split, self.plan.request, self.plan.seed, unknown)
        ) as chosen:
            async for card in chosen:
                if share is None or isinstance(card, BadRow) or share.has(place, epoch):
                    yield card
                place += not isinstance(card, BadRow)
        if missing is not None:
            missing |= unknown
        elif unknown and len(self.environments) == 1:
            raise next(iter(unknown.values()))

    async def items(self, run_id: str, *, in_turns: bool = False) -> AsyncGenerator[tuple[OpenEnvironment, Sample]]:
        """All samples to play, group by group: all of one environment, then all of the next.

        In a mixture, or with `in_turns`, consecutive groups alternate between environments in proportion to the
        weights.
        """
        async with AsyncExitStack() as streams:
            left = {
                context.environment.name: (
                    opened,
                    context,
                    await streams.enter_async_context(aclosing(self._cards(opened))),
                )
                for opened, context in self.contexts(run_id)
            }
            turns = Turns(self.weights or dict.fromkeys(left, 1.0)) if in_turns or self.weights else None
            while left:
                name = next(iter(left)) if turns is None else turns.next()
                opened, context, cards = left[name]
                card = await anext(cards, None)
                if card is not None:
                    for item in self.samples(context, card):
                        yield opened, item
                    continue
                del left[name]
                if turns is not None:
                    turns.leave(name)

    async def _cards(self, opened: OpenEnvironment) -> AsyncGenerator[TaskCard]:
        async for card in self.tasks(opened):
            if not isinstance(card, BadRow):
                yield card

    def samples(self, context: SampleContext, card: TaskCard) -> Iterator[Sample]:
        """The samples of one task. They share the environment's seed; each has its own seed for the model."""
        for number in range(self.plan.repeats):
            yield self.sample(context, card, number)

    def sample(
        self,
        context: SampleContext,
        card: TaskCard,
        number: int,
        seed: int | None = None,
        group_size: int | None = None,
    ) -> Sample:
        """One sample of a task. With `seed`, the environment gets this seed, and the group is that of the samples with
        it.

        The group has as many samples as the run plays of a task, unless `group_size` is given.
        """
        info, request, run_seed = context.host.info, self.plan.request, self.plan.seed
        task = f"{info.name}\0{card.split}\0{card.public.id}"
        group_id = _short_hash(task if seed is None else f"{task}\0{seed}")
        task_ref = TaskRef(split=card.split, id=card.public.id, digest=card.digest, source=card.public.source)
        policy_seed = None if request.seed is None else _seed(f"{run_seed}\0{task}\0{number}")
        if seed is None:
            seed = _seed(f"{run_seed}\0{task}")
        size = self.plan.repeats if group_size is None else group_size
        return Sample(context, card, task_ref, group_id, f"{group_id}-{number}", number, seed, policy_seed, size)


@asynccontextmanager
async def open_plan(
    plan: Plan, credentials: Credentials, model: Model | None = None, batches: BatchRun | None = None
) -> AsyncGenerator[OpenPlan]:
    """Open a plan's models, which are checked, and its environments; all are closed at the end of the context.

    `model` is the model object that the plan was made with, if any; `batches` keeps what batched models ask.

    Raises:
        UsageError: a model cannot be reached, an environment cannot be hosted, or a split or limit is not valid.
    """
    erase_shown_secrets()  # before anything that is not the hub's is started
    async with AsyncExitStack() as stack:
        tracer: Tracer | None = None
        if plan.request.traces is not None:
            tracer = await stack.enter_async_context(component("tracer")(plan.request.traces, credentials))
        check_run_cost(plan, credentials)
        is_given = model is not None
        if plan.model is not None:
            model = await stack.enter_async_context(open_model(plan.model, credentials, batches))
            await preflight(model, sampling=_asked_for(plan.request))
        roles: dict[str, Model] = {}
        for role, config in plan.request.roles.items():
            roles[role] = await stack.enter_async_context(open_model(config, credentials, batches))
            await preflight(roles[role], sampling=Sampling())
        environments = [
            await stack.enter_async_context(hosted(planned, plan, roles, credentials)) for planned in plan.environments
        ]
        if plan.lock is not None:
            for host in environments:
                check_hosted(host.info, plan.lock)
        names = [host.info.name for host in environments]
        if len(set(names)) != len(names):
            raise ConfigError(f"two environments have one name: {', '.join(names)}")
        is_given = is_given and plan.model is None
        prices = (find_price(*priced(config, credentials)) for config in plan.models)
        is_priced = not is_given and all(price is not None for price in prices)
        opened = tuple(with_bounds(host, plan.request, is_priced) for host in environments)
        plan = with_named_agent(plan, [host.info for host in environments])
        agent = plan.agent
        if isinstance(agent, HeldAgent):
            agent = await stack.enter_async_context(agent.held())
        for host in environments:
            is_played = plan.has_external_agents or model is not None
            check_seats(plan.request, host.info.name, host.info.seats, is_played=is_played)
        seats = await _open_seats(plan, model, credentials, stack)
        for host in environments:
            check_attended(host.info, {seat: seats[seat].agent if seat in seats else agent for seat in host.info.seats})
        is_exposed = any(isinstance(each, ExposedAgent) for each in (agent, *(seat.agent for seat in seats.values())))
        gateway = await stack.enter_async_context(component("gateway")()) if is_exposed else None
        yield OpenPlan(plan, opened, model, roles, agent, seats, gateway, tracer, is_priced)


async def _open_seats(
    plan: Plan, model: Model | None, credentials: Credentials, stack: AsyncExitStack
) -> dict[str, SeatPlayer]:
    """Open the players of single seats; seats of the same model share its connections and rate limits."""
    models: list[tuple[ModelConfig, Model]] = []
    players: dict[str, SeatPlayer] = {}

    async def opened_once(config: ModelConfig, sampling: Sampling) -> Model:
        own = next((opened for known, opened in models if known == config), None)
        if own is None:
            own = await stack.enter_async_context(open_model(config, credentials))
            await preflight(own, sampling=sampling)
            models.append((config, own))
        return own

    for name, seat in plan.seats.items():
        own, pool = model, None
        if seat.model is not None:
            own = await opened_once(seat.model, seat.sampling)
        if seat.pool:
            opponents = [
                Opponent(await opened_once(member.model, seat.sampling), member.version) for member in seat.pool
            ]
            own, pool = opponents[0].model, OpponentPool(name, opponents)
        agent = seat.agent
        if isinstance(agent, HeldAgent):
            agent = await stack.enter_async_context(agent.held())
        ref = AgentRef(name=seat.agent_name, version=agent.version, config=seat.agent.config)
        players[name] = SeatPlayer(agent, ref, own, seat.sampling, pool=pool)
    return players


def _asked_for(request: RunRequest) -> Sampling:
    """The sampling of the run's model calls, for the preflight check; samples differ from it only in the seed."""
    seeded = request.sampling.seed if request.seed is None else request.seed
    return request.sampling.model_copy(update={"seed": seeded})


def _short_hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _seed(text: str) -> int:
    """A seed of 31 bits, a range that every inference engine accepts."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little") >> 1
