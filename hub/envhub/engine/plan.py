"""From what was asked to what will be done: every name and setting checked before anything starts."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from pydantic import JsonValue, ValidationError

from envhub.engine.item import Cast, Item
from envhub.engine.request import RunRequest
from envhub.environment import EnvironmentConfig
from envhub.errors import ConfigError, HubError, UnknownNameError
from envhub.hosting import InProcessHost
from envhub.hosting.episode import describe
from envhub.limits import DEFAULT_LIMITS, Limits
from envhub.models.config import ModelConfig
from envhub.plugins import FoundEnvironment, check_config, find_agent, find_environment
from envhub.protocols import Agent, Model, TaskCard
from envhub.rollout import AgentRef, EnvironmentRef, TaskRef
from envhub.task import BadRow

HARMLESS = frozenset(
    {"concurrency", "retries", "deadlines", "limit", "repeats", "skip_bad", "max_tries", "base_url", "hub_version"}
)
"""Settings that may change when a run is resumed: they do not change what a rollout means."""
IN_FORCE = frozenset({"request.split", "request.limits", "request.in_process"})
"""Settings judged by what comes of them, which stands with each environment, and not by how they were asked for."""


@dataclass(frozen=True)
class PlannedEnvironment:
    """One environment of a run, hosted and configured."""

    host: InProcessHost
    split: str
    config: dict[str, JsonValue]


@dataclass(frozen=True)
class Plan:
    """A run, resolved: everything named exists, every setting holds."""

    request: RunRequest
    environments: tuple[PlannedEnvironment, ...]
    agent: Agent
    agent_name: str
    model: ModelConfig | None

    @property
    def resolved(self) -> dict[str, JsonValue]:
        """The complete, re-runnable description (`hub run --config resolved.json`); secrets are not in it."""
        settings = {
            f"{planned.host.info.name}.{key}": value
            for planned in self.environments
            for key, value in planned.config.items()
        }
        update = {"agent": self.agent_name, "agent_set": self.agent.config, "set": settings}
        return {
            "hub_version": version("envhub"),
            "request": {
                **self.request.model_copy(update=update).model_dump(mode="json"),
                "base_url": self.model.base_url if self.model else None,
            },
            "environments": [
                {
                    **planned.host.info.model_dump(mode="json", include={"name", "version", "digest", "tools_digest"}),
                    "split": planned.split,
                    "limits": self.limits(planned).model_dump(mode="json"),
                }
                for planned in self.environments
            ],
            "agent_version": self.agent.version,
        }

    def limits(self, planned: PlannedEnvironment) -> Limits:
        """The limits in force: the caller's, else the environment's, else the hub's."""
        return self.request.limits.or_else(planned.host.info.limits).or_else(DEFAULT_LIMITS)

    def casts(self, run_id: str, model: Model | None) -> Iterator[tuple[PlannedEnvironment, Cast]]:
        """Who plays in each environment."""
        agent = AgentRef(name=self.agent_name, version=self.agent.version, config=self.agent.config)
        for planned in self.environments:
            info = planned.host.info
            yield (
                planned,
                Cast(
                    run_id=run_id,
                    host=planned.host,
                    environment=EnvironmentRef(name=info.name, version=info.version, digest=info.digest),
                    agent=self.agent,
                    agent_ref=agent,
                    model=model,
                    sampling=self.request.sampling,
                    limits=self.limits(planned),
                    deadlines=self.request.deadlines,
                ),
            )

    def count(self) -> tuple[int, int]:
        """How many rollouts are planned, and how many rows make no task.

        Reads every task once, so that a bad row is met before the first episode, not an hour into the run.

        Raises:
            DataError: a row makes no task, and bad rows are not skipped.
            ConfigError: there is no task, or two have the same id.
        """
        good = bad = 0
        for planned in self.environments:
            taken: set[int] = set()
            for card in self.tasks(planned):
                if isinstance(card, BadRow):
                    bad += 1
                    continue
                good += 1
                # A hash each, not the ids themselves: they may be long, and there may be a million.
                key = hash(card.public.id)
                if key in taken:
                    name = planned.host.info.name
                    raise ConfigError(f"two tasks of {name} ({planned.split}) have the id {card.public.id!r}")
                taken.add(key)
        if not good:
            names = ", ".join(f"{planned.host.info.name} ({planned.split})" for planned in self.environments)
            raise ConfigError(f"there is no task to run in {names}" + (f"; {bad} rows are bad" if bad else ""))
        return good * self.request.repeats, bad

    def tasks(self, planned: PlannedEnvironment) -> Iterator[TaskCard | BadRow]:
        """The tasks of one environment, up to the limit; bad rows among them do not count towards it."""
        count = 0
        for card in planned.host.tasks(planned.split, self.seed):
            if isinstance(card, BadRow):
                if not self.request.skip_bad:
                    raise card.error
                yield card
                continue
            yield card
            count += 1
            if count == self.request.limit:
                return

    @property
    def seed(self) -> int:
        """The run's seed; 0 unless one was given."""
        return self.request.seed or 0

    def items(self, cast: Cast, card: TaskCard) -> Iterator[Item]:
        """The samples of one task. They share the environment's seed and differ in the policy's."""
        info, request = cast.host.info, self.request
        task = f"{info.name}\0{card.split}\0{card.public.id}"
        group_id = _short_hash(task)
        task_ref = TaskRef(split=card.split, id=card.public.id, digest=card.digest, source=card.public.source)
        seed = _seed(f"{self.seed}\0{task}")
        for sample in range(request.repeats):
            policy_seed = None if request.seed is None else _seed(f"{self.seed}\0{task}\0{sample}")
            yield Item(cast, card, task_ref, group_id, f"{group_id}-{sample}", sample, seed, policy_seed)


def make_plan(request: RunRequest) -> Plan:
    """Resolve a request.

    Raises:
        UsageError: a name nobody registered, a setting that does not hold, an agent without its model.
    """
    if not request.environments:
        raise ConfigError("name an environment to run, for example `hub run arithmetic`; `hub list` shows them all")
    found = [find_environment(name) for name in request.environments]
    names = [environment.name for environment in found]
    if len(set(names)) != len(names):
        raise ConfigError(f"an environment is named twice: {', '.join(names)}")
    settings = _settings(request.set, names)
    environments = tuple(_host(environment, settings[environment.name], request) for environment in found)
    _check_server(request)
    agent_name = request.agent or ("tool_loop" if request.model else "oracle")
    agent = find_agent(agent_name, request.agent_set)
    if agent_name in ("tool_loop", "react", "single_turn") and request.model is None:
        raise ConfigError(f"agent {agent_name!r} needs a model; name one with -m, for example -m mock/solver")
    plan = Plan(request, environments, agent, agent_name, _model(request))
    for planned in environments:
        _check_limits(request, plan.limits(planned))
    return plan


def _check_limits(request: RunRequest, limits: Limits) -> None:
    """Refuse a limit that could never be the one to stop an episode."""
    deadlines = request.deadlines
    if limits.max_seconds is not None and limits.max_seconds > min(deadlines.agent, deadlines.episode):
        raise ConfigError(
            f"max_seconds = {limits.max_seconds:g} is past a deadline (deadlines.agent = {deadlines.agent:g}, "
            f"deadlines.episode = {deadlines.episode:g}), which would count as a fault; raise those in a --config file"
        )
    is_priced = request.price_prompt is not None or request.price_output is not None
    if limits.max_cost is not None and request.model is not None and not is_priced:
        raise ConfigError(
            f"max_cost = {limits.max_cost:g} cannot be kept without a price: "
            "give price_prompt and price_output (US dollars per million tokens) in a --config file"
        )


def changed_settings(stored: dict[str, JsonValue], now: dict[str, JsonValue]) -> list[str]:
    """What changed between a stored run and a request to resume it, harmless settings left out; a line each."""
    return [
        line
        for line in _differences({**stored, "request": _completed(stored.get("request"))}, now)
        if (path := line.partition(":")[0].split("."))[0] not in HARMLESS
        and not (path[0] == "request" and path[1] in HARMLESS)
        and ".".join(path[:2]) not in IN_FORCE
    ]


def _completed(request: JsonValue) -> JsonValue:
    """A stored request with the defaults of settings that its version of the hub did not know."""
    try:
        return RunRequest.model_validate(request).model_dump(mode="json")
    except ValidationError:
        return request


def _differences(before: JsonValue, after: JsonValue, path: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from _differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, f"{path}.{place}")
    elif before != after:
        yield f"{path}: {before!r} → {after!r}"


def _settings(given: dict[str, JsonValue], names: list[str]) -> dict[str, dict[str, JsonValue]]:
    """Split `--set` by environment: `NAME.key` is that one's, a bare key everyone's."""
    settings: dict[str, dict[str, JsonValue]] = {name: {} for name in names}
    for key, value in given.items():
        owner, dot, rest = key.partition(".")
        if dot and owner in settings:
            settings[owner][rest] = value
        else:
            for name in names:
                settings[name].setdefault(key, value)
    return settings


def _host(found: FoundEnvironment, settings: dict[str, JsonValue], request: RunRequest) -> PlannedEnvironment:
    if not found.is_trusted and not request.in_process:
        raise ConfigError(
            f"environment {found.name!r} is not shipped with the hub; "
            "add --in-process to run its code inside this process"
        )
    values = {**found.defaults, **settings}
    config: EnvironmentConfig = check_config(
        found.environment.config_type, values, f"environment {found.name!r}", "--set"
    )
    try:
        host = InProcessHost(found.name, found.environment, config)
    except HubError:
        raise
    except Exception as error:
        raise ConfigError(f"environment {found.name!r} cannot be hosted: {describe(error)}") from error
    split = request.split or host.info.splits[0]
    if split not in host.info.splits:
        raise UnknownNameError(f"split of {found.name}", split, host.info.splits)
    return PlannedEnvironment(host, split, config.model_dump(mode="json"))


def _check_server(request: RunRequest) -> None:
    """Refuse a server that would not be used: whoever names one means to use it."""
    if request.base_url is None:
        return
    if request.model is None:
        raise ConfigError("a base URL is given, but no model; name it with -m hosted_vllm/NAME")
    if request.model.startswith("mock/"):
        raise ConfigError(
            f"{request.model!r} answers in this process and uses no server; for the one at {request.base_url} "
            f"name it hosted_vllm/{request.model}, or leave the base URL out"
        )


def _model(request: RunRequest) -> ModelConfig | None:
    if request.model is None:
        return None
    values: dict[str, Any] = {
        "name": request.model,
        "base_url": request.base_url,
        "max_tries": request.max_tries,
        "price_prompt": request.price_prompt,
        "price_output": request.price_output,
    }
    return ModelConfig(**values)


def _short_hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _seed(text: str) -> int:
    """A seed of 31 bits, which every engine takes."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "little") >> 1
