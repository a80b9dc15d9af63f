"""Starts what attacks need: the environment's server, a server with canaries, a gateway and a model."""

import secrets
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import anyio

from rollouthub import BadRow, Model
from rollouthub.errors import ConfigError, EpisodeError, HubError, describe, raise_first_error
from rollouthub.gateway.gateway import open_gateway
from rollouthub.hosting.launch import is_address
from rollouthub.hosting.open_host import configured
from rollouthub.hosting.role_endpoints import serve_roles
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.resolve import open_model
from rollouthub.plugins.environments import FoundEnvironment, find_environment
from rollouthub.plugins.installed import find_installation
from rollouthub_registry.check.thorough.attack_context import AttackContext, Tools
from rollouthub_registry.check.thorough.canary_twin import fields_of, write_twin
from rollouthub_registry.check.thorough.leak_scan import Watch, Watched
from rollouthub_registry.check.thorough.target import Target, answers_of, in_own_process, local_tasks, reach, secrets_of

CARDS = 2
MODEL = "mock/say?text=I+do+not+know."
_TWIN_TASKS = 1
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class AttackRequest:
    """The environment to attack, and the options."""

    target: str
    """A name, a file, an `env.toml`, or the address of a server."""
    split: str | None = None
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    roles: Mapping[str, str] = field(default_factory=dict[str, str])
    tools: Tools = field(default_factory=Tools)
    control_token: str | None = field(default=None, repr=False)
    """The control credential of a server given by its address."""
    credentials: Credentials = field(default_factory=lambda: Credentials({}), repr=False)


@asynccontextmanager
async def open_attack_context(order: AttackRequest) -> AsyncGenerator[AttackContext]:
    """Start everything that attacks need; it is stopped on exit.

    Raises:
        UsageError: the environment cannot be served with these options.
        TaskError: its server does not start.
    """
    async with raise_first_error(), AsyncExitStack() as stack:
        open_it = _attached if is_address(order.target) else _served
        yield await open_it(order, stack)


async def _attached(order: AttackRequest, stack: AsyncExitStack) -> AttackContext:
    if order.control_token is None:
        raise ConfigError(f"the server at {order.target} wants its control credential; set ROLLOUTHUB_CONTROL_TOKEN")
    target = await stack.enter_async_context(reach(order.target, order.control_token, order.split, order.seed, CARDS))
    why = "its source is not here, so no canary could be planted and its answers are not known"
    context = await attack_context_of(stack, target, [], why, order.tools)
    host = urlsplit(order.target).hostname
    context.is_local, context.is_own = host in _LOOPBACK or order.target.startswith("unix:"), False
    return context


async def _served(order: AttackRequest, stack: AsyncExitStack) -> AttackContext:
    if find_installation(order.target) is not None:
        raise ConfigError(
            f"{order.target} is installed, and its class is not here to be looked into; serve it with `hub serve env "
            f"{order.target}`, and attack its address: `hub check --thorough http://HOST:PORT`"
        )
    found = find_environment(order.target)
    config = configured(found, order.settings)
    wanted = found.environment.roles(config)
    models: dict[str, Model] = {}
    for role, name in order.roles.items():
        if role in wanted:
            opened = open_model(ModelConfig(name=name), order.credentials)
            models[role] = await stack.enter_async_context(opened)
    endpoints = await stack.enter_async_context(serve_roles(models))
    settings = {**found.defaults, **order.settings}
    target = await _start(order, order.target, settings, endpoints, stack, order.seed)
    watched, twins, why = list[Watched](), list[Target](), None
    try:
        await found.environment.prepare(config)
        tasks = local_tasks(found.environment, config, target.split, order.seed, CARDS)
        watched = secrets_of(tasks, found.environment, config)
        target.answers = answers_of(tasks)
        twins, why = await _twins(order, found, target, settings, endpoints, stack)
    except HubError:
        raise
    except Exception as error:
        why = f"its tasks cannot be made here, so no canary could be planted: {describe(error)}"
    target.watched += watched
    context = await attack_context_of(stack, target, twins, why, order.tools)
    context.methods = tuple(name for name in dir(found.environment) if not name.startswith("__"))
    return context


async def _start(
    order: AttackRequest, name: str, settings: Mapping[str, Any], roles: Any, stack: AsyncExitStack, seed: int
) -> Target:
    token = secrets.token_urlsafe(32)
    ready = await stack.enter_async_context(in_own_process(name, settings, roles, token))
    return await stack.enter_async_context(reach(ready.control_url, token, order.split, seed, CARDS, ready.pid))


async def _twins(
    order: AttackRequest,
    found: FoundEnvironment,
    target: Target,
    settings: Mapping[str, Any],
    roles: Any,
    stack: AsyncExitStack,
) -> tuple[list[Target], str | None]:
    """Start a server with canaries, and give a target for each planted field; or why there is none."""
    key = secrets.token_hex(16)
    config = configured(found, order.settings)
    tasks = local_tasks(found.environment, config, target.split, order.seed, _TWIN_TASKS)
    fields = fields_of(tasks[0], key) if tasks else []
    if not fields:
        return [], "its tasks keep nothing secret from every seat, so there is nowhere to plant a canary"
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollouthub-check-")))
    name = str(await anyio.Path(order.target).absolute()) if await anyio.Path(order.target).exists() else order.target
    try:
        first = await _start(order, write_twin(folder, name, key, order.seed), settings, roles, stack, order.seed)
        return await twins_at(first, [(field, canary) for field, canary, _ in fields]), None
    except (EpisodeError, ConfigError) as error:
        return [], f"no twin with canaries can be served: {error}"


async def twins_at(first: Target, fields: Sequence[tuple[str, str]]) -> list[Target]:
    """A target for each planted field of a server with canaries; each field has its own seed."""
    return [await _seen(first, number, *planted) for number, planted in enumerate(fields)]


async def _seen(first: Target, number: int, name: str, canary: str) -> Target:
    """The target for the tasks with a canary in one field."""
    target = first if number == 0 else replace(first, seed=first.seed + number, watched=[], cards=[])
    if number:
        async for card in target.host.tasks(target.split, target.seed):
            if not isinstance(card, BadRow):
                target.cards.append(card)
                break
    target.field_planted = name
    target.watched = [*target.watched, Watched(f"the canary in the secret's {name!r}", canary, is_planted=True)]
    return target


async def attack_context_of(
    stack: AsyncExitStack, target: Target, twins: list[Target], why: str | None, tools: Tools
) -> AttackContext:
    """The context of attacks on `target`, with a gateway and a model started for it."""
    gateway = await stack.enter_async_context(open_gateway())
    http = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar(), skip_auto_headers=["User-Agent"]
    )
    await stack.enter_async_context(http)
    watch = Watch(item for each in [target, *twins] for item in each.watched)
    model = MockModel(ModelConfig(name=MODEL))
    context = AttackContext(target, twins, why, gateway, gateway.base_url, model, http, watch, tools=tools)
    context.tokens.update(twin.control_token for twin in twins)
    return context
