"""Several servers of one environment as one host: each new episode goes to the server with the fewest."""

from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager

import anyio
from pydantic import JsonValue

from rollouthub.errors import ConfigError, ServerGone, raise_first_error
from rollouthub.hosting.client.remote_host import RemoteHost, WatchedServer
from rollouthub.hosting.client.served_process import ServedProcess, new_order
from rollouthub.hosting.client.server_connection import ServerConnection
from rollouthub.hosting.launch import RoleEndpoint
from rollouthub.hosting.server_program import OURS, ServerProgram
from rollouthub.limits import Deadlines
from rollouthub.protocols import EnvironmentHost, EnvironmentInfo, Episode, TaskCard
from rollouthub.score import SampleGroup, Score, Submission


class ServerReplica:
    """One of several servers, with the number of its open episodes."""

    def __init__(self, info: EnvironmentInfo, server: WatchedServer) -> None:
        self.server, self.host = server, RemoteHost(info, server)
        self.busy = 0
        """Number of episodes and scorings that are running on it or starting."""

    @contextmanager
    def occupied(self) -> Generator[None]:
        """Count one more use of the server inside this context."""
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1


class _AnyOf:
    """Picks a server for requests that any server can answer, such as listing tasks."""

    def __init__(self, replicas: Sequence[ServerReplica]) -> None:
        self._replicas = replicas

    async def connection(self) -> ServerConnection:
        """The connection to the first server that is up, so that all pages of a listing come from the same one; else to
        the first that comes back.

        Raises:
            ServerGone: all servers are gone for good.
        """
        for replica in self._replicas:
            if replica.server.is_up:
                return await replica.server.connection()
        return await (await self.first_back()).server.connection()

    async def least_busy(self) -> ServerReplica:
        """The server that is up and has the fewest episodes; else the first that comes back.

        Raises:
            ServerGone: all servers are gone for good.
        """
        up = [replica for replica in self._replicas if replica.server.is_up]
        return min(up, key=lambda replica: replica.busy) if up else await self.first_back()

    async def first_back(self) -> ServerReplica:
        """Wait for the first server that can be used again.

        Raises:
            ServerGone: all servers are gone for good.
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
    """The `EnvironmentHost` of one environment that several servers serve."""

    def __init__(self, infos: Mapping[str, EnvironmentInfo], servers: Sequence[WatchedServer]) -> None:
        """`infos` holds each server's description of its environment, by the server's name.

        Raises:
            ConfigError: the servers serve different environments, or versions or configurations of one.
        """
        (first, info), *others = infos.items()
        for name, other in others:
            _check_same(first, info, name, other)
        self.replicas = [ServerReplica(info, server) for server in servers]
        self._any = _AnyOf(self.replicas)
        super().__init__(info, self._any)

    @property
    def servers_up(self) -> Sequence[bool]:
        """For each server, whether it can be used now."""
        return [replica.server.is_up for replica in self.replicas]

    @asynccontextmanager
    async def open(
        self, task: TaskCard, *, seed: int, deadlines: Deadlines, state: JsonValue = None
    ) -> AsyncGenerator[Episode]:
        """Open an episode on the least busy server; it stays there, and is closed on exit.

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
            NotOffered: the verifier needs the state of an episode.
            VerifierError: there is no score.
        """
        try:
            replica = await self._any.least_busy()
        except ServerGone:
            return await super().score(task, submission, seed=seed, deadlines=deadlines)  # which tells it should
        with replica.occupied():
            return await replica.host.score(task, submission, seed=seed, deadlines=deadlines)

    async def score_group(
        self, task: TaskCard, group: SampleGroup, *, seed: int, deadlines: Deadlines
    ) -> Sequence[Score]:
        """Score all members of a group together, on the least busy server.

        Raises:
            NotOffered: the environment scores each sample by itself.
            VerifierError: there are no scores.
        """
        try:
            replica = await self._any.least_busy()
        except ServerGone:
            return await super().score_group(task, group, seed=seed, deadlines=deadlines)  # which tells it should
        with replica.occupied():
            return await replica.host.score_group(task, group, seed=seed, deadlines=deadlines)


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
    """Start several servers of an environment and yield one host for all; they are stopped after the context.

    Raises:
        UsageError: the environment or its configuration is refused.
        TaskError: a server does not start.
    """
    supervisors = [
        ServedProcess(new_order(target, settings, roles, traces, program), program=program) for _ in range(count)
    ]
    infos: dict[str, EnvironmentInfo] = {}
    async with raise_first_error(), anyio.create_task_group() as tasks:

        async def begin(number: int, supervisor: ServedProcess) -> None:
            infos[f"server {number} of {program.name or target!r}"] = await tasks.start(supervisor.run)

        try:
            async with anyio.create_task_group() as starts:
                for number, supervisor in enumerate(supervisors, 1):
                    starts.start_soon(begin, number, supervisor)
            yield ReplicatedHost({name: program.informed(info) for name, info in infos.items()}, supervisors)
        finally:
            for supervisor in supervisors:
                supervisor.stop()
