"""Several servers of one environment as one host: an episode goes to the least busy, and what one breaks is its own."""

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import anyio
from pydantic import JsonValue

from rollouthub.errors import ConfigError, ServerGone, first_error
from rollouthub.hosting.client.program import OURS, ServerProgram
from rollouthub.hosting.client.remote_host import RemoteHost, RestartableServer
from rollouthub.hosting.client.served_process import ServedProcess, new_order
from rollouthub.hosting.client.server_connection import ServerConnection
from rollouthub.hosting.launch import RoleEndpoint
from rollouthub.limits import Deadlines
from rollouthub.protocols import EnvironmentHost, EnvironmentInfo, Episode, TaskCard
from rollouthub.score import Score, Submission


class WatchedServer(RestartableServer, Protocol):
    """A server that somebody looks after, and that may be down for a while or for good."""

    @property
    def is_up(self) -> bool:
        """Whether it can be used now, as far as is known."""
        ...


class ServerReplica:
    """One of several servers, and how much it has to do."""

    def __init__(self, info: EnvironmentInfo, server: WatchedServer) -> None:
        self.server, self.host = server, RemoteHost(info, server)
        self.busy = 0
        """Episodes that are open there, or about to be."""

    @contextmanager
    def occupied(self) -> Generator[None]:
        """Count something more that it does."""
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1


class _AnyOf:
    """Whichever server answers, as one: for what all of them know, such as the tasks there are."""

    def __init__(self, replicas: Sequence[ServerReplica]) -> None:
        self._replicas = replicas

    async def connection(self) -> ServerConnection:
        """The first that is up, so that the pages of a listing come from one; else the first that comes back.

        Raises:
            ServerGone: all are gone for good.
        """
        for replica in self._replicas:
            if replica.server.is_up:
                return await replica.server.connection()
        return await (await self.first_back()).server.connection()

    async def least_busy(self) -> ServerReplica:
        """Of those that are up, the one with the fewest episodes.

        Raises:
            ServerGone: all are gone for good.
        """
        up = [replica for replica in self._replicas if replica.server.is_up]
        return min(up, key=lambda replica: replica.busy) if up else await self.first_back()

    async def first_back(self) -> ServerReplica:
        """The first that can be used again.

        Raises:
            ServerGone: all are gone for good.
        """
        back: list[ServerReplica] = []
        gone: list[str] = []
        async with anyio.create_task_group() as tasks:

            async def wait(replica: ServerReplica) -> None:
                try:
                    await replica.server.connection()
                except ServerGone as error:
                    gone.append(str(error))
                else:
                    back.append(replica)
                    tasks.cancel_scope.cancel()

            for replica in self._replicas:
                tasks.start_soon(wait, replica)
        if not back:
            raise ServerGone(f"all {len(gone)} servers are gone; the last: {gone[-1]}")
        return back[0]


class ReplicatedHost(RemoteHost):
    """The control plane of one environment that several servers serve."""

    def __init__(self, infos: Mapping[str, EnvironmentInfo], servers: Sequence[WatchedServer]) -> None:
        """What each server says of its environment, by the server's name, and the servers.

        Raises:
            ConfigError: they serve different environments, or versions or configurations of one.
        """
        (first, info), *others = infos.items()
        for name, other in others:
            _check_same(first, info, name, other)
        self.replicas = [ServerReplica(info, server) for server in servers]
        self._any = _AnyOf(self.replicas)
        super().__init__(info, self._any)

    @property
    def servers_up(self) -> Sequence[bool]:
        """Of each server, whether it can be used now."""
        return [replica.server.is_up for replica in self.replicas]

    @asynccontextmanager
    async def open(
        self, task: TaskCard, *, seed: int, deadlines: Deadlines, state: JsonValue = None
    ) -> AsyncGenerator[Episode]:
        """Open an episode on the least busy server; it stays there, and is closed on the way out.

        Raises:
            TaskError: setup failed or took too long, or the servers are gone.
            NotOffered: a state was given, and the environment restores none.
        """
        replica = await self._any.least_busy()
        with replica.occupied():
            async with replica.host.open(task, seed=seed, deadlines=deadlines, state=state) as episode:
                yield episode

    async def score(self, task: TaskCard, submission: Submission, *, seed: int, deadlines: Deadlines) -> Score:
        """Score a submission without an episode, on the least busy server.

        Raises:
            NotOffered: the verifier needs the world an episode leaves behind.
            VerifierError: there is no score.
        """
        try:
            replica = await self._any.least_busy()
        except ServerGone:
            return await super().score(task, submission, seed=seed, deadlines=deadlines)  # which tells it should
        with replica.occupied():
            return await replica.host.score(task, submission, seed=seed, deadlines=deadlines)


def _check_same(first: str, info: EnvironmentInfo, name: str, other: EnvironmentInfo) -> None:
    if other == info:
        return
    here, there = info.model_dump(mode="json"), other.model_dump(mode="json")
    differing = [field for field in here if here[field] != there[field]]
    shown = "; ".join(f"{field}: {here[field]!r:.80} and {there[field]!r:.80}" for field in differing)
    raise ConfigError(f"{first} and {name} do not serve the same environment ({shown}); serve one version of it on all")


@asynccontextmanager
async def serve_replicas(
    target: str,
    settings: Mapping[str, JsonValue],
    roles: Mapping[str, RoleEndpoint],
    count: int,
    *,
    traces: str | None = None,
    program: ServerProgram = OURS,
) -> AsyncGenerator[EnvironmentHost]:
    """Start several servers of an environment and be the client of all; they end with the context.

    Raises:
        UsageError: the environment or its configuration is refused.
        TaskError: a server does not come up.
    """
    supervisors = [
        ServedProcess(new_order(target, settings, roles, traces, program), program=program) for _ in range(count)
    ]
    infos: dict[str, EnvironmentInfo] = {}
    try:
        async with anyio.create_task_group() as tasks:

            async def begin(number: int, supervisor: ServedProcess) -> None:
                infos[f"server {number} of {program.name or target!r}"] = await tasks.start(supervisor.run)

            try:
                async with anyio.create_task_group() as starts:
                    for number, supervisor in enumerate(supervisors, 1):
                        starts.start_soon(begin, number, supervisor)
                yield ReplicatedHost(infos, supervisors)
            finally:
                for supervisor in supervisors:
                    supervisor.stop()
    except BaseExceptionGroup as group:
        raise first_error(group) from None
