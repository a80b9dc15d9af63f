"""The served environment under attack, and the secrets of it that no agent may see."""

import inspect
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import aiohttp
import anyio
from pydantic import JsonValue

from rollouthub import BadRow, Message, Public, Secret, Task
from rollouthub.environment import AnyEnvironment, EnvironmentConfig
from rollouthub.errors import ConfigError, UnknownNameError, raise_first_error
from rollouthub.hosting.client.server_process import start
from rollouthub.hosting.launch import RoleEndpoint, ServeOrder, ServerReady
from rollouthub.hosting.local.toolbox import Toolbox
from rollouthub.hosting.open_host import open_attached
from rollouthub.hosting.server.control_socket import authority
from rollouthub.hosting.server_program import OURS, ServerProgram
from rollouthub.hosting.wall.walled_start import server_start
from rollouthub.http.byte_forward import forwarding
from rollouthub.http.listener import bind_tcp
from rollouthub.protocols import EnvironmentHost, TaskCard
from rollouthub_registry.check.thorough.leak_scan import SHORTEST, Watched

TTL_SECONDS = 3600.0
_LONGEST_LINE = 24
"""Shortest line of a grader's source, in characters, that is unique enough to search for."""


@dataclass
class Target:
    """A served environment under attack."""

    name: str
    host: EnvironmentHost
    control_url: str
    control_token: str = field(repr=False)
    control: aiohttp.ClientSession = field(repr=False)
    split: str
    seed: int
    cards: list[TaskCard]
    """Cards of the first tasks."""
    pid: int | None = None
    """Process id of its server, if it was started here; else None."""
    watched: list[Watched] = field(default_factory=list[Watched])
    """Secrets that agents must not see."""
    answers: dict[str, str] = field(default_factory=dict[str, str])
    """Expected answers by task id, where they are known here."""
    writable: Path | None = None
    """A folder that its server can write to at the same path, if it runs behind a wall; else any that this user can."""
    field_planted: str | None = None
    """Name of the secret field that holds canaries; None if there are none."""

    def control_address(self, path: str) -> str:
        """The URL for a path of the control plane."""
        base = "http://control" if self.control_url.startswith("unix:") else self.control_url
        return base + path


@asynccontextmanager
async def reach(
    address: str,
    token: str,
    split: str | None,
    seed: int,
    limit: int,
    pid: int | None = None,
    agent_url: str | None = None,
) -> AsyncGenerator[Target]:
    """Connect to a server's control plane and read its first tasks; with `agent_url`, no seat may be elsewhere.

    Raises:
        UsageError: no server answers, or it has no such split.
    """
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(open_attached(address, token, agent_url=agent_url))
        unix = address.removeprefix("unix:") if address.startswith("unix:") else None
        connector = aiohttp.TCPConnector(limit=0) if unix is None else aiohttp.UnixConnector(unix, limit=0)
        session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        control = await stack.enter_async_context(session)
        info = host.info
        chosen = split or info.splits[0]
        if chosen not in info.splits:
            raise UnknownNameError(f"split of {info.name}", chosen, info.splits)
        cards = await _first(host, chosen, seed, limit)
        if not cards:
            raise ConfigError(f"environment {info.name!r} has no task in split {chosen!r}")
        secret = Watched("the control plane's credential", token, is_planted=True)
        yield Target(
            info.name, host, address.rstrip("/"), token, control, chosen, seed, cards, pid, [secret]
        )  # fmt: skip


async def _first(host: EnvironmentHost, split: str, seed: int, limit: int) -> list[TaskCard]:
    cards: list[TaskCard] = []
    async for card in host.tasks(split, seed):
        if not isinstance(card, BadRow):
            cards.append(card)
        if len(cards) == limit:
            break
    return cards


@asynccontextmanager
async def in_own_process(
    name: str,
    settings: Mapping[str, JsonValue],
    roles: Mapping[str, RoleEndpoint],
    token: str,
    program: ServerProgram = OURS,
) -> AsyncGenerator[ServerReady]:
    """Start a server process for an environment, as a run does; it ends with the context.

    Raises:
        UsageError: the environment or its configuration is invalid.
        TaskError: the server does not start.
    """
    order = ServeOrder(
        environment=name,
        python=program.python,
        is_strangers=program.is_strangers,
        config=dict(settings),
        roles=dict(roles),
        control_token=token,
        ttl_seconds=TTL_SECONDS,
    )
    async with AsyncExitStack() as stack:
        agents, control = (bind_tcp("127.0.0.1", 0) for _ in range(2))
        stack.callback(agents.close)
        stack.callback(control.close)
        if program.wall is not None:
            order = order.model_copy(update={"agent_url": f"http://{authority('127.0.0.1', agents)}"})
        prepared = await stack.enter_async_context(server_start(program, order))
        process = await start(name, program, prepared)
        try:
            async with raise_first_error(), anyio.create_task_group() as tasks:
                tasks.start_soon(process.hear)
                ready = await process.greet(prepared.order)
                tasks.start_soon(process.drain)
                async with _forwarded(ready, prepared.order, control, agents) as reached:
                    yield reached
                tasks.cancel_scope.cancel()
        finally:
            await process.end()
            await process.finish()


@asynccontextmanager
async def _forwarded(
    ready: ServerReady, order: ServeOrder, control: socket.socket, agents: socket.socket
) -> AsyncGenerator[ServerReady]:
    """Where a server is reached: attacks use TCP, and one behind a wall listens on sockets in a folder."""
    if order.control_socket is None or order.agent_socket is None:
        yield ready
        return
    async with forwarding(control, Path(order.control_socket)), forwarding(agents, Path(order.agent_socket)):
        control_url = f"http://{authority('127.0.0.1', control)}"
        yield ready.model_copy(update={"control_url": control_url, "agent_url": order.agent_url})


def secrets_of(
    tasks: Sequence[Task[Public, Secret]], environment: AnyEnvironment, config: EnvironmentConfig
) -> list[Watched]:
    """The secrets in an environment's tasks and code, where these are on this machine.

    Texts that every agent may read are left out: the public half of the tasks, and the names, descriptions and schemas
    of tools. A task's answer stays a secret even if a description contains it.
    """
    found: list[Watched] = []
    tools = [tool.model_dump(mode="json") for tool in Toolbox(environment, config).tools]
    names = [[tool["name"], tool["input_schema"]] for tool in tools]
    public = [*_words(names), *(word for task in tasks for word in _words(task.public.model_dump(mode="json")))]
    shown_beside_answers, shown = "\n".join(public), "\n".join([*public, *_words(tools)])
    for task in tasks:
        for name in type(task.secret).model_fields:
            if name in task.secret.of_seats:
                continue  # seats may be told it; the attacks of other seats look for what one of them alone is told
            value = getattr(task.secret, name)
            texts = _texts(value) if name != "reference" else []
            # A short text may be met anywhere; a long one is this task's.
            allowed = shown_beside_answers if name == "answer" else shown
            found += [Watched(f"the secret's {name!r}", text, allowed_in=allowed) for text in texts]
    return found + grader_lines(environment)


def answers_of(tasks: Sequence[Task[Public, Secret]]) -> dict[str, str]:
    """Expected answers by task id that a task listing could leak, without those that the prompt contains anyway."""
    found: dict[str, str] = {}
    for task in tasks:
        answer, public = task.secret.answer, task.public
        if isinstance(answer, str | int | float) and not isinstance(answer, bool):
            text = str(answer)
            if len(text) >= SHORTEST and text not in f"{public.prompt} {public.system}":
                found[task.id] = text
    return found


def _words(value: Any) -> list[str]:
    """Every key and text in a JSON value."""
    if isinstance(value, Mapping):
        entries = cast(Mapping[str, Any], value).items()
        return [word for key, item in entries for word in (key, *_words(item))]
    if isinstance(value, list):
        return [word for item in cast("list[Any]", value) for word in _words(item)]
    return [] if value is None else [str(value)]


def _texts(value: Any) -> list[str]:
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, str | int | float):
        return [str(value)]
    if isinstance(value, Mapping):
        values = cast(Mapping[Any, Any], value).values()
    elif isinstance(value, list | tuple):
        values = cast("Sequence[Any]", value)
    else:
        return []
    return [text for item in values if not isinstance(item, Message) for text in _texts(item)]


def grader_lines(environment: AnyEnvironment) -> list[Watched]:
    """Distinctive lines of the verifier's source, and the path of its file."""
    try:
        source = inspect.getsource(environment.verify)
        file = inspect.getfile(environment)
    except (OSError, TypeError):
        return []
    lines = [line.strip() for line in source.splitlines()[1:]]
    kept = [line for line in lines if len(line) >= _LONGEST_LINE and not line.startswith(('"', "#", "@"))]
    return [
        *(Watched("a line of the verifier's source", line) for line in kept),
        Watched("the path of the environment's source", file),
    ]


def local_tasks(
    environment: AnyEnvironment, config: EnvironmentConfig, split: str, seed: int, limit: int
) -> list[Task[Public, Secret]]:
    """The first tasks with both halves, made in this process."""
    found: list[Task[Public, Secret]] = []
    for task in environment.tasks(config, split, seed):
        if not isinstance(task, BadRow):
            found.append(task)
        if len(found) == limit:
            break
    return found
