"""Resolves a request into a plan: checks every name and setting before anything starts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import JsonValue

from rollouthub.engine.agent_kind import is_loop, needs_model
from rollouthub.engine.batch_rules import check_batches, with_batched_roles
from rollouthub.engine.lock_check import check_installed, held_lock, locked_target
from rollouthub.engine.mixture import check_weights
from rollouthub.engine.planned_seat import PlannedSeat, check_seats, planned_seat, with_earlier_players
from rollouthub.engine.policy_model import check_policy_model, policy_model
from rollouthub.engine.pool_options import RayOptions
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.task_band import band_of, tasks_within
from rollouthub.environment import Environment, EnvironmentConfig
from rollouthub.errors import ConfigError
from rollouthub.generation import Model
from rollouthub.hosting.launch import addresses, is_address
from rollouthub.hosting.open_host import configured
from rollouthub.models.config import ModelConfig
from rollouthub.plugins.agents import find_agent
from rollouthub.plugins.entry_points import AGENTS, ENVIRONMENTS, plugins
from rollouthub.plugins.environments import FoundEnvironment, find_environment
from rollouthub.plugins.installed import Installation, find_installation
from rollouthub.plugins.lock import Lock
from rollouthub.protocols import REFERENCE_AGENT, Agent, AttendedAgent, EnvironmentInfo


@dataclass(frozen=True)
class PlannedEnvironment:
    """One environment of a run, named and configured."""

    name: str
    """The name in rollouts; for a server that is already running, its address."""
    target: str
    """What the caller named: a name, a path, or the address of a server."""
    found: FoundEnvironment | None = None
    """The environment's class; None if its code must not be imported into this process."""
    installation: Installation | None = None
    """The installed bundle; None if the environment does not come from a bundle."""
    settings: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    config: EnvironmentConfig | None = None
    """The class's configuration, made from `settings`; None if `found` is."""
    is_served: bool = True
    """Whether the environment runs in a process of its own."""

    @property
    def local(self) -> tuple[FoundEnvironment, EnvironmentConfig] | None:
        """The environment's class and configuration; None if its code must not be imported into this process."""
        return None if self.found is None or self.config is None else (self.found, self.config)

    @property
    def is_attached(self) -> bool:
        """Whether the environment is a server that the hub neither started nor configured."""
        return is_address(self.target)


@dataclass(frozen=True)
class TaskSubset:
    """Some tasks of a plan, to be played before the rest or instead of it."""

    tasks: Mapping[str, tuple[str, ...]]
    """Environment → ids of tasks."""
    repeats: int
    """Number of samples of each task."""


@dataclass(frozen=True)
class Plan:
    """A resolved run: every name exists, and every setting that can be checked before hosting is valid."""

    request: RunRequest
    environments: tuple[PlannedEnvironment, ...]
    agent: Agent
    agent_name: str
    model: ModelConfig | None
    seats: Mapping[str, PlannedSeat] = field(default_factory=dict[str, PlannedSeat])
    """Seat → its own player; seats without one are played by `agent` and `model`."""
    lock: Lock | None = None
    """The lock that environments must match; None for no check."""
    subset: TaskSubset | None = None
    """The part of the tasks to play; None for all."""
    has_external_agents: bool = False
    """Whether external agents play the seats that have no player."""
    asks_for_agent: bool = False
    """Whether the agent is taken from the environments once they are hosted, because one cannot be asked before."""

    @property
    def models(self) -> tuple[ModelConfig, ...]:
        """The models that play: the run's own, those of seats, and those of pools."""
        own = () if self.model is None else (self.model,)
        return (*own, *(model for seat in self.seats.values() for model in seat.models))

    @property
    def repeats(self) -> int:
        """Number of samples of each task."""
        return self.request.repeats if self.subset is None else self.subset.repeats

    @property
    def seed(self) -> int:
        """The run's seed; 0 if none was given."""
        return self.request.seed or 0


def make_plan(request: RunRequest, model: Model | None = None, *, external_agents: bool = False) -> Plan:
    """Resolve a request. `model` is a model object of this process, which plays instead of a named model.

    With `external_agents`, external agents take the seats that have no player.

    Raises:
        UsageError: a name is not registered, a setting is not valid, or an agent lacks its model.
    """
    if not request.environments:
        raise ConfigError("name an environment to run, for example `hub run arithmetic`; `hub list` shows them all")
    if request.served and request.in_process:
        raise ConfigError("an environment is hosted either in a process of its own or in this one: served, in_process")
    lock = None if request.lock is None else held_lock(Path(request.lock))
    environments = _planned_environments(request, lock)
    check_weights(request.weights, [planned.name for planned in environments])
    request = _checked_request(request, environments, model, external_agents=external_agents)
    request = with_batched_roles(request)
    has_model = request.model is not None or model is not None
    default = _default_agent(environments)
    seats = {seat: planned_seat(seat, config, request, default, has_model) for seat, config in request.seats.items()}
    agent, agent_name = _chosen_agent(request, default, seats, has_model=has_model, external_agents=external_agents)
    for attended in (agent, *(seat.agent for seat in seats.values())):
        if request.pool == "ray" and isinstance(attended, AttendedAgent):
            raise ConfigError(f"agent {attended.name!r} plays at this terminal, not on a cluster; leave --pool ray out")
    hosts = {each.name: each.local for each in environments if not each.is_served}
    found = [each.name for each in environments if hosts.get(each.name) is None]
    most_seats = max((len(host[0].environment.seats) for host in hosts.values() if host is not None), default=1)
    check_batches(request, found, most_seats, agent)
    asks_for_agent = request.agent is None and has_model and any(planned.local is None for planned in environments)
    policy = policy_model(request)
    return Plan(
        request,
        environments,
        agent,
        agent_name,
        policy,
        seats,
        lock,
        asks_for_agent=asks_for_agent and not external_agents,
        has_external_agents=external_agents,
    )


def _checked_request(
    request: RunRequest, environments: Sequence[PlannedEnvironment], model: Model | None, *, external_agents: bool
) -> RunRequest:
    """The request as it is recorded: it names tasks instead of a band, and models instead of earlier runs."""
    if request.band is not None:  # kept by its tasks, which stay what they are when the earlier run is gone
        request = request.model_copy(update={"chosen": tasks_within(band_of(request.band)), "band": None})
    # Exactly these are asked for from here on, also by workers elsewhere and when the run is resumed.
    request = request.model_copy(update={"environments": tuple(each.target for each in environments), "lock": None})
    _check_pool(request)
    check_policy_model(request)
    _check_given(request, model)
    request = with_earlier_players(request)
    for planned in environments:
        if planned.local is not None:
            check_seats(
                request,
                planned.name,
                planned.local[0].environment.seats,
                is_played=external_agents or model is not None,
            )
    return request


def _chosen_agent(
    request: RunRequest, default: str, seats: Mapping[str, PlannedSeat], *, has_model: bool, external_agents: bool
) -> tuple[Agent, str]:
    """The agent of seats without a player of their own, and its registered name.

    Raises:
        ConfigError: the agent needs a model, or the environment names one that is no plain loop.
    """
    name = request.agent or (default if has_model else REFERENCE_AGENT)
    agent = find_agent(name, request.agent_set)
    if request.agent is None and has_model and not is_loop(agent):
        raise ConfigError(
            f"the environment names {name!r} as its agent, which does more than ask the model and call tools; "
            "choose one yourself with -a"
        )
    if seats and not has_model and not external_agents:  # every seat has a player of its own
        first = next(iter(seats.values()))
        return (first.agent, first.agent_name) if request.agent is None else (agent, name)
    if needs_model(agent) and not has_model:
        raise ConfigError(f"agent {name!r} needs a model; name one with -m, for example -m mock/solver")
    return agent, name


def _planned_environments(request: RunRequest, lock: Lock | None) -> tuple[PlannedEnvironment, ...]:
    found = [_find(target, request, lock) for target in request.environments]
    names = [each.name for each in found]
    if len(set(names)) != len(names):
        raise ConfigError(f"an environment is named twice: {', '.join(names)}")
    ours = [name for name, target in zip(names, request.environments, strict=True) if not is_address(target)]
    if not ours:
        _check_attached(request)
    settings = _settings(request.set, ours)
    environments = tuple(_configured(each, settings.get(each.name, {}), request) for each in found)
    if request.servers > 1 and not any(planned.is_served and not planned.is_attached for planned in environments):
        raise ConfigError(
            f"servers = {request.servers}, but no environment gets a process of its own here; ask for it with --served"
        )
    return environments


def with_named_agent(plan: Plan, hosted: Sequence[EnvironmentInfo]) -> Plan:
    """The plan with the agent that its hosted environments name, if the agent was left to them.

    Raises:
        ConfigError: an environment of another process names an agent that is not one of the hub's own loops.
    """
    if not plan.asks_for_agent:
        return plan
    for planned, info in zip(plan.environments, hosted, strict=True):
        # Another agent may run programs, or play what the model should: nobody elsewhere chooses that.
        if planned.local is None and not _is_own_loop(info.default_agent, plan.request):
            raise ConfigError(
                f"{info.name} names {info.default_agent!r} as its agent, and may only name one of the hub's own that "
                "does nothing but ask the model and call tools; choose one yourself with -a"
            )
    name = _agreed(info.default_agent for info in hosted)
    if name == plan.agent_name:
        return replace(plan, asks_for_agent=False)
    return replace(plan, agent=find_agent(name, plan.request.agent_set), agent_name=name, asks_for_agent=False)


def _is_own_loop(name: str, request: RunRequest) -> bool:
    plugin = plugins(AGENTS).get(name)
    return plugin is not None and plugin.is_shipped and is_loop(find_agent(name, request.agent_set))


def _default_agent(environments: Sequence[PlannedEnvironment]) -> str:
    """The agent that all environments of this process name, else the hub's default."""
    return _agreed(planned.local[0].environment.default_agent for planned in environments if planned.local is not None)


def _agreed(names: Iterable[str]) -> str:
    """The agent that all environments name; the hub's default, which can play any environment, if they differ."""
    named = set(names)
    return named.pop() if len(named) == 1 else Environment.default_agent


def _find(target: str, request: RunRequest, lock: Lock | None) -> PlannedEnvironment:
    if is_address(target):
        first = addresses(target)[0]
        name = urlsplit(first).netloc.rpartition("@")[2] or Path(first.removeprefix("unix:")).stem
        return PlannedEnvironment(name, target)
    if lock is not None:
        target = locked_target(target, lock)
    installation = find_installation(target)
    if lock is not None:
        check_installed(installation, target, lock)
    if installation is not None:
        if request.in_process:
            raise ConfigError(f"{target} is installed apart from the hub, and cannot be hosted in this process")
        return PlannedEnvironment(installation.name, installation.target, installation=installation)
    plugin = plugins(ENVIRONMENTS).get(target)
    if plugin is not None and not plugin.is_shipped and not request.in_process:
        return PlannedEnvironment(target, target)
    found = find_environment(target)
    return PlannedEnvironment(found.name, target, found)


def _configured(planned: PlannedEnvironment, settings: dict[str, JsonValue], request: RunRequest) -> PlannedEnvironment:
    if planned.found is None:
        return replace(planned, settings=settings)
    config = configured(planned.found, settings)
    return replace(planned, settings=settings, config=config, is_served=request.served)


def _settings(given: dict[str, JsonValue], names: list[str]) -> dict[str, dict[str, JsonValue]]:
    """Split `--set` by environment: `NAME.key` is for that environment, a key without a name for all."""
    settings: dict[str, dict[str, JsonValue]] = {name: {} for name in names}
    for key, value in given.items():
        owner = next((name for name in names if key.startswith(f"{name}.")), None)
        if owner is not None:
            settings[owner][key.removeprefix(f"{owner}.")] = value
        else:
            for name in names:
                settings[name].setdefault(key, value)
    return settings


def _check_attached(request: RunRequest) -> None:
    """Refuse settings and roles if all environments are servers that are already running."""
    for option, given in (("settings", request.set), ("roles", request.roles)):
        if given:
            raise ConfigError(
                f"{option} are given ({', '.join(given)}), but the environment's server is already running; "
                "give them to the command that starts it"
            )


def _check_pool(request: RunRequest) -> None:
    """Refuse settings of a Ray cluster in a run without one."""
    if request.pool == "ray":
        return
    if request.workers is not None or request.ray != RayOptions():
        given = "workers" if request.workers is not None else "ray"
        raise ConfigError(f"{given} is given, but the pool is this process alone; add --pool ray, or leave it out")


def _check_given(request: RunRequest, model: Model | None) -> None:
    """Refuse settings that contradict a model given as an object."""
    if model is None:
        return
    if request.model is not None:
        raise ConfigError(f"the model is given twice: as an object, {model.name!r}, and by name, {request.model!r}")
    if request.pool != "local":
        raise ConfigError(f"the model {model.name!r} is an object of this process; workers elsewhere cannot ask it")


def check_roles(plan: Plan) -> None:
    """Refuse roles that no environment asks. Not checked if an environment runs outside this process.

    Raises:
        ConfigError: no environment, as configured, has a given role.
    """
    asked: set[str] = set()
    for planned in plan.environments:
        if planned.local is None:
            return
        found, config = planned.local
        asked.update(found.environment.roles(config))
    for role in plan.request.roles:
        if role not in asked:
            names = " and ".join(planned.name for planned in plan.environments)
            roles = f"only {', '.join(sorted(asked))}" if asked else "none, as configured"
            raise ConfigError(f"{names} asks no model as its {role!r}: {roles}; leave the role out, or check --set")
