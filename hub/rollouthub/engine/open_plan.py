"""A plan whose environments are up: what there is to play, and who plays it."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version

from pydantic import JsonValue

from rollouthub.engine.cost_limits import check_limits, check_run_cost, priced
from rollouthub.engine.lock_check import check_hosted, lock_of
from rollouthub.engine.oracle_references import References, check_references, is_reference_player
from rollouthub.engine.plan import Plan, PlannedEnvironment, with_named_agent
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.sample import Exposing, Sample, SampleContext
from rollouthub.engine.setting_files import setting_files
from rollouthub.engine.task_selection import chosen_tasks
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.hosting.launch import TOKEN_VARIABLE
from rollouthub.hosting.open_host import open_attached, open_in_process, open_installed, open_served
from rollouthub.hosting.role_endpoints import serve_roles
from rollouthub.limits import DEFAULT_LIMITS, Deadlines, Limits
from rollouthub.models.credentials import Credentials
from rollouthub.models.preflight import BudgetedModel, preflight
from rollouthub.models.prices import find_price
from rollouthub.models.resolve import open_model
from rollouthub.plugins.components import component
from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import Lock
from rollouthub.protocols import Agent, EnvironmentHost, ExposedAgent, HeldAgent, Model, Sampling, TaskCard
from rollouthub.rollout import AgentRef, EnvironmentRef, TaskRef
from rollouthub.task import BadRow
from rollouthub.tracing import Tracer


@dataclass(frozen=True)
class OpenEnvironment:
    """One environment of a run, hosted."""

    host: EnvironmentHost
    split: str
    limits: Limits
    """In force: the caller's, else the environment's, else the hub's."""
    deadlines: Deadlines
    """In force, likewise."""


@dataclass(frozen=True)
class OpenPlan:
    """A run about to be played."""

    plan: Plan
    environments: tuple[OpenEnvironment, ...]
    model: Model | None
    roles: Mapping[str, Model]
    """Those that environments ask themselves."""
    agent: Agent
    """The plan's, ready to play."""
    gateway: Exposing | None = None
    tracer: Tracer | None = None
    """None where the run is not traced."""
    is_priced: bool = True
    """Whether a limit of cost can be kept: the model has a price, or there is none."""

    def count_spent(self, spent: Mapping[str, float]) -> None:
        """Count what a run has cost before it was resumed, by role, towards its models' budgets."""
        for role, model in {"": self.model, **self.roles}.items():
            if isinstance(model, BudgetedModel):
                model.count_spent(spent.get(role, 0.0))

    def budgets_left(self) -> dict[str, float]:
        """US dollars left for each model that has a budget, by role; the policy's is empty."""
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
        """The complete, re-runnable description (`hub run --config resolved.json`); secrets are not in it."""
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
                    **_bytes_of(planned.installation),
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
        """What it plays, to the byte."""
        return lock_of(
            (opened.host.info, planned.installation)
            for planned, opened in zip(self.plan.environments, self.environments, strict=True)
        )

    def casts(self, run_id: str) -> Iterator[tuple[OpenEnvironment, SampleContext]]:
        """Who plays in each environment."""
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
                        **_bytes_of(planned.installation),
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
                ),
            )

    async def count(self) -> tuple[int, int]:
        """How many rollouts are planned, and how many rows make no task.

        Reads every task once, so that a bad row is met before the first episode, not an hour into the run.

        Raises:
            DataError: a row makes no task, and bad rows are not skipped.
            ConfigError: there is no task, two have the same id, or the oracle has nothing to play in some.
            UnknownNameError: a name of a task is nobody's.
        """
        good = bad = 0
        unknown: list[dict[str, UnknownNameError]] = []
        for opened in self.environments:
            taken: set[int] = set()
            unknown.append({})
            references = References(opened.host.info.name, self.agent)
            async for card in self.tasks(opened, unknown[-1]):
                if isinstance(card, BadRow):
                    bad += 1
                    continue
                good += 1
                # A hash each, not the ids themselves: they may be long, and there may be a million.
                key = hash(card.public.id)
                if key in taken:
                    name = opened.host.info.name
                    raise ConfigError(f"two tasks of {name} ({opened.split}) have the id {card.public.id!r}")
                taken.add(key)
                references.look(card)
            references.check()
        for name, error in unknown[0].items():
            if all(name in each for each in unknown):
                raise error
        if not good:
            names = ", ".join(f"{opened.host.info.name} ({opened.split})" for opened in self.environments)
            raise ConfigError(f"there is no task to run in {names}" + (f"; {bad} rows are bad" if bad else ""))
        return good * self.plan.repeats, bad

    async def tasks(
        self, opened: OpenEnvironment, missing: dict[str, UnknownNameError] | None = None
    ) -> AsyncIterator[TaskCard | BadRow]:
        """The tasks of one environment that were asked for.

        What names none of them goes into `missing`, where others may know it.

        Raises:
            UnknownNameError: a name is nobody's.
        """
        part = self.plan.part
        unknown: dict[str, UnknownNameError] = {}
        if part is not None:
            for task_id in part.tasks[opened.host.info.name]:
                yield await opened.host.find_task(opened.split, task_id, self.plan.seed)
            return
        async with aclosing(
            chosen_tasks(opened.host, opened.split, self.plan.request, self.plan.seed, unknown)
        ) as chosen:
            async for card in chosen:
                yield card
        if missing is not None:
            missing |= unknown
        elif unknown and len(self.environments) == 1:
            raise next(iter(unknown.values()))

    async def items(self, run_id: str, *, in_turns: bool = False) -> AsyncGenerator[tuple[OpenEnvironment, Sample]]:
        """Everything there is to play, group by group; `in_turns`, each environment's next group after the other's."""
        async with AsyncExitStack() as streams:
            left = [
                (opened, cast, await streams.enter_async_context(aclosing(self._cards(opened))))
                for opened, cast in self.casts(run_id)
            ]
            turn = 0
            while left:
                opened, cast, cards = left[turn]
                card = await anext(cards, None)
                if card is None:
                    del left[turn]
                else:
                    for item in self.samples(cast, card):
                        yield opened, item
                    turn += in_turns
                turn = turn % len(left) if left else 0

    async def _cards(self, opened: OpenEnvironment) -> AsyncGenerator[TaskCard]:
        async for card in self.tasks(opened):
            if not isinstance(card, BadRow):
                yield card

    def samples(self, cast: SampleContext, card: TaskCard) -> Iterator[Sample]:
        """The samples of one task. They share the environment's seed and differ in the policy's."""
        for number in range(self.plan.repeats):
            yield self.sample(cast, card, number)

    def sample(self, cast: SampleContext, card: TaskCard, number: int, seed: int | None = None) -> Sample:
        """One sample of a task; with a seed of its own for the environment, in a group with others of that seed."""
        info, request, run_seed = cast.host.info, self.plan.request, self.plan.seed
        task = f"{info.name}\0{card.split}\0{card.public.id}"
        group_id = _short_hash(task if seed is None else f"{task}\0{seed}")
        task_ref = TaskRef(split=card.split, id=card.public.id, digest=card.digest, source=card.public.source)
        policy_seed = None if request.seed is None else _seed(f"{run_seed}\0{task}\0{number}")
        if seed is None:
            seed = _seed(f"{run_seed}\0{task}")
        return Sample(cast, card, task_ref, group_id, f"{group_id}-{number}", number, seed, policy_seed)


@asynccontextmanager
async def open_plan(plan: Plan, credentials: Credentials, model: Model | None = None) -> AsyncGenerator[OpenPlan]:
    """Bring up what a plan needs: its models, checked, and its environments; all closed on the way out.

    `model` is the one the plan was made with, where that is an object.

    Raises:
        UsageError: a model cannot be reached, an environment cannot be hosted, a split or a limit does not hold.
    """
    async with AsyncExitStack() as stack:
        tracer: Tracer | None = None
        if plan.request.traces is not None:
            tracer = await stack.enter_async_context(component("tracer")(plan.request.traces, credentials))
        check_run_cost(plan, credentials)
        is_given = model is not None
        if plan.model is not None:
            model = await stack.enter_async_context(open_model(plan.model, credentials))
            await preflight(model, sampling=_asked_for(plan.request))
        roles: dict[str, Model] = {}
        for role, config in plan.request.roles.items():
            roles[role] = await stack.enter_async_context(open_model(config, credentials))
            await preflight(roles[role], sampling=Sampling())
        environments = [
            await stack.enter_async_context(_host(planned, plan, roles, credentials)) for planned in plan.environments
        ]
        if plan.lock is not None:
            for host in environments:
                check_hosted(host.info, plan.lock)
        names = [host.info.name for host in environments]
        if len(set(names)) != len(names):
            raise ConfigError(f"two environments have one name: {', '.join(names)}")
        is_priced = not is_given if plan.model is None else find_price(*priced(plan.model, credentials)) is not None
        opened = tuple(_opened(host, plan.request, is_priced) for host in environments)
        plan = with_named_agent(plan, [host.info for host in environments])
        agent = plan.agent
        if isinstance(agent, HeldAgent):
            agent = await stack.enter_async_context(agent.held())
        gateway = await stack.enter_async_context(component("gateway")()) if isinstance(agent, ExposedAgent) else None
        yield OpenPlan(plan, opened, model, roles, agent, gateway, tracer, is_priced)


@asynccontextmanager
async def _host(
    planned: PlannedEnvironment, plan: Plan, roles: Mapping[str, Model], credentials: Credentials
) -> AsyncGenerator[EnvironmentHost]:
    if planned.is_attached:
        async with open_attached(planned.target, credentials.key(TOKEN_VARIABLE)) as host:
            yield host
        return
    if not planned.is_served:
        assert planned.local is not None
        found, config = planned.local
        look = partial(check_references, plan) if is_reference_player(plan.agent) else None
        async with open_in_process(planned.name, found.environment, config, roles, look=look) as host:
            yield host
        return
    if planned.local is not None:
        found, config = planned.local
        roles = {role: roles[role] for role in found.environment.roles(config) if role in roles}
    async with serve_roles(roles) as endpoints:
        request = plan.request
        more = (planned.settings, endpoints, request.servers)
        if planned.installation is not None:
            opening = open_installed(planned.installation, *more, traces=request.traces)
        else:
            opening = open_served(planned.target, *more, traces=request.traces)
        async with opening as host:
            yield host


def _bytes_of(installation: Installation | None) -> dict[str, str]:
    """What names the bytes of an installed environment; empty of another."""
    if installation is None:
        return {}
    locked = installation.locked
    found = {"bundle": locked.bundle, "dependencies": locked.dependencies_digest}
    return {key: digest for key, digest in found.items() if digest is not None}


def _asked_for(request: RunRequest) -> Sampling:
    """What model calls will ask for, but for the seed's value, which is another one for each sample."""
    seeded = request.sampling.seed if request.seed is None else request.seed
    return request.sampling.model_copy(update={"seed": seeded})


def _opened(host: EnvironmentHost, request: RunRequest, is_priced: bool) -> OpenEnvironment:
    info = host.info
    split = request.split or info.splits[0]
    if split not in info.splits:
        raise UnknownNameError(f"split of {info.name}", split, info.splits)
    limits = request.limits.or_else(info.limits).or_else(DEFAULT_LIMITS)
    deadlines = request.deadlines.or_else(info.deadlines)
    check_limits(limits, deadlines, is_priced)
    return OpenEnvironment(host, split, limits, deadlines)


def _short_hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _seed(text: str) -> int:
    """A seed of 31 bits, which every engine takes."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little") >> 1
