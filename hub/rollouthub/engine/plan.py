"""From what was asked to what will be done: every name and setting checked before anything starts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import JsonValue

from rollouthub.engine.agent_kind import is_loop, needs_model
from rollouthub.engine.lock_check import check_installed, held_lock, locked_target
from rollouthub.engine.pool_options import RayOptions
from rollouthub.engine.run_request import RunRequest
from rollouthub.environment import Environment, EnvironmentConfig
from rollouthub.errors import ConfigError
from rollouthub.hosting.launch import addresses, is_address
from rollouthub.hosting.open_host import configured
from rollouthub.models.config import ModelConfig
from rollouthub.plugins.entry_points import (
    AGENTS,
    ENVIRONMENTS,
    FoundEnvironment,
    find_agent,
    find_environment,
    plugins,
)
from rollouthub.plugins.installed import Installation, find_installation
from rollouthub.plugins.lock import Lock
from rollouthub.protocols import REFERENCE_AGENT, Agent, AttendedAgent, EnvironmentInfo, Model

_OF_THE_MODEL = (
    "base_url",
    "lane",
    "fallbacks",
    "requests_per_minute",
    "tokens_per_minute",
    "budget",
    "price_prompt",
    "price_output",
)


@dataclass(frozen=True)
class PlannedEnvironment:
    """One environment of a run, named and configured."""

    name: str
    """As rollouts carry it; of an attached one, where it is."""
    target: str
    """As the caller named it: a name, a path, or the address of its server."""
    found: FoundEnvironment | None = None
    """Its class; None where its code is not to be run in this process."""
    installation: Installation | None = None
    """Where it was installed from a bundle."""
    settings: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    config: EnvironmentConfig | None = None
    """The class's configuration, made from the settings."""
    is_served: bool = True
    """Whether it has a process of its own."""

    @property
    def local(self) -> tuple[FoundEnvironment, EnvironmentConfig] | None:
        """Its class and configuration; None where its code is not to be run in this process."""
        return None if self.found is None or self.config is None else (self.found, self.config)

    @property
    def is_attached(self) -> bool:
        """Whether somebody else started its server, and configured it."""
        return is_address(self.target)


@dataclass(frozen=True)
class Part:
    """A part of a plan that is played by itself, before the rest or in its place."""

    tasks: Mapping[str, tuple[str, ...]]
    """Ids, by environment."""
    repeats: int
    """Samples of each."""


@dataclass(frozen=True)
class Plan:
    """A run, resolved: everything named exists, every setting that can be checked from here holds."""

    request: RunRequest
    environments: tuple[PlannedEnvironment, ...]
    agent: Agent
    agent_name: str
    model: ModelConfig | None
    lock: Lock | None = None
    """What environments must be; None is as they are."""
    part: Part | None = None
    """What of it is played; None is all."""
    asks_for_agent: bool = False
    """Whether environments that cannot be asked before they are up have yet to name the agent."""

    @property
    def repeats(self) -> int:
        """Samples of each task that are played."""
        return self.request.repeats if self.part is None else self.part.repeats

    @property
    def seed(self) -> int:
        """The run's seed; 0 unless one was given."""
        return self.request.seed or 0


def make_plan(request: RunRequest, model: Model | None = None) -> Plan:
    """Resolve a request. `model` plays in place of one that is named: a trainer's own, within this process.

    Raises:
        UsageError: a name nobody registered, a setting that does not hold, an agent without its model.
    """
    if not request.environments:
        raise ConfigError("name an environment to run, for example `hub run arithmetic`; `hub list` shows them all")
    if request.served and request.in_process:
        raise ConfigError("an environment is hosted either in a process of its own or in this one: served, in_process")
    lock = None if request.lock is None else held_lock(Path(request.lock))
    found = [_find(target, request, lock) for target in request.environments]
    names = [each.name for each in found]
    if len(set(names)) != len(names):
        raise ConfigError(f"an environment is named twice: {', '.join(names)}")
    ours = [name for name, target in zip(names, request.environments, strict=True) if not is_address(target)]
    if not ours:
        _check_attached(request)
    settings = _settings(request.set, ours)
    environments = tuple(_configured(each, settings.get(each.name, {}), request) for each in found)
    # Exactly these are asked for from here on, also by workers elsewhere and when the run is resumed.
    request = request.model_copy(update={"environments": tuple(each.target for each in found), "lock": None})
    if request.servers > 1 and not any(planned.is_served and not planned.is_attached for planned in environments):
        raise ConfigError(
            f"servers = {request.servers}, but no environment gets a process of its own here; ask for it with --served"
        )
    _check_pool(request)
    _check_model(request)
    _check_given(request, model)
    has_model = request.model is not None or model is not None
    agent_name = request.agent or (_default_agent(environments) if has_model else REFERENCE_AGENT)
    agent = find_agent(agent_name, request.agent_set)
    if needs_model(agent) and not has_model:
        raise ConfigError(f"agent {agent_name!r} needs a model; name one with -m, for example -m mock/solver")
    if request.pool == "ray" and isinstance(agent, AttendedAgent):
        raise ConfigError(f"agent {agent_name!r} plays at this terminal, not on a cluster; leave --pool ray out")
    asks_for_agent = request.agent is None and has_model and any(planned.local is None for planned in environments)
    return Plan(request, environments, agent, agent_name, policy_model(request), lock, asks_for_agent=asks_for_agent)


def with_named_agent(plan: Plan, hosted: Sequence[EnvironmentInfo]) -> Plan:
    """The plan, played by the agent that its environments name, now that they are up.

    Raises:
        ConfigError: one that is not of this process names an agent that is no loop of the hub's.
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
    """The one that all of them name, those left out that cannot be asked here."""
    return _agreed(planned.local[0].environment.default_agent for planned in environments if planned.local is not None)


def _agreed(names: Iterable[str]) -> str:
    """The agent that all name; the default, which can play any, where they do not agree."""
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
    """Split `--set` by environment: `NAME.key` is that one's, a bare key everyone's."""
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
    """Refuse what only a server that is started here could be told."""
    for option, given in (("settings", request.set), ("roles", request.roles)):
        if given:
            raise ConfigError(
                f"{option} are given ({', '.join(given)}), but the environment's server is already running; "
                "give them to whoever starts it"
            )


def _check_pool(request: RunRequest) -> None:
    """Refuse what only a cluster would use, where none is asked for."""
    if request.pool == "ray":
        return
    if request.workers is not None or request.ray != RayOptions():
        given = "workers" if request.workers is not None else "ray"
        raise ConfigError(f"{given} is given, but the pool is this process alone; add --pool ray, or leave it out")


def _check_given(request: RunRequest, model: Model | None) -> None:
    """Refuse what a model that is given as an object contradicts."""
    if model is None:
        return
    if request.model is not None:
        raise ConfigError(f"the model is given twice: as an object, {model.name!r}, and by name, {request.model!r}")
    if request.pool != "local":
        raise ConfigError(f"the model {model.name!r} is an object of this process; workers elsewhere cannot ask it")


def _check_model(request: RunRequest) -> None:
    """Refuse what would not be used, such as a server: whoever names one means to use it."""
    if request.model is None:
        if given := [name for name in _OF_THE_MODEL if getattr(request, name) not in (None, ())]:
            raise ConfigError(f"{', '.join(given)} is given, but no model; name one: -m hosted_vllm/NAME")
        return
    longest, tokens = request.sampling.max_tokens, request.tokens_per_minute
    if longest is not None and tokens is not None and longest > tokens:
        raise ConfigError(f"an answer of max_tokens = {longest} never fits into tokens_per_minute = {tokens}; lower it")
    if request.base_url and request.model.startswith("mock/"):
        shown = ", ".join(request.base_url)
        raise ConfigError(
            f"{request.model!r} answers in this process and uses no server; for the one at {shown} "
            f"name it hosted_vllm/{request.model}, or leave the base URL out"
        )


def check_roles(plan: Plan) -> None:
    """Refuse roles nobody asks for. What others' environments ask for, they alone know.

    Raises:
        ConfigError: a role is given that no environment has as it is configured.
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


def policy_model(request: RunRequest) -> ModelConfig | None:
    """The model that plays, as the request describes it."""
    if request.model is None:
        return None
    return ModelConfig(
        name=request.model,
        base_url=next(iter(request.base_url), None),
        replicas=request.base_url[1:],
        lane=request.lane,
        fallbacks=request.fallbacks,
        requests_per_minute=request.requests_per_minute,
        tokens_per_minute=request.tokens_per_minute,
        budget=request.budget,
        max_tries=request.max_tries,
        price_prompt=request.price_prompt,
        price_output=request.price_output,
    )
