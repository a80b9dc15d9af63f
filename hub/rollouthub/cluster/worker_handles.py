"""Handles of the worker actors: where they are placed, and how they are started, called and ended."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from rollouthub.cluster.cluster_messages import (
    Hello,
    Note,
    WorkerOrder,
    WorkerReport,
    decode_hello,
    decode_report,
    encode,
)
from rollouthub.cluster.open_cluster import Cluster
from rollouthub.engine.pool_options import RayOptions
from rollouthub.errors import HubError, TaskError, UsageError, WorkerLost

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WorkerTimeouts:
    """Timeouts for workers and for the cluster's head, in seconds."""

    start_seconds: float = 300.0
    """Seconds for a worker to be placed, to install its runtime environment, and to open what the plan needs."""
    late_seconds: float = 20.0
    """Seconds of its start after which other workers take over a worker's share."""
    silence_seconds: float = 60.0
    """Seconds without a report after which a worker is killed and replaced."""
    leave_seconds: float = 15.0
    """Seconds for a worker to close its environments after it was told to leave."""
    hurry_seconds: float = 5.0
    """The same as `leave_seconds`, but for a run that is cut short."""
    longest_pause_seconds: float = 10.0
    """Most seconds of pause between workers that fail one after the other in one place."""
    head_seconds: float = 20.0
    """Seconds without an answer of the cluster's head after which the run stops. Ray ends a driver after 60 s."""
    last_seconds: float = 15.0
    """Seconds that attempts in flight get to finish after the head is gone."""


PATIENCE = WorkerTimeouts()


class WorkerRefusal(UsageError):
    """A worker cannot play the plan on its node: for example, data or a package is missing there."""


@dataclass(frozen=True)
class WorkerStatus:
    """The status of one worker."""

    name: str
    node: str
    pid: int
    in_flight: int
    cpu_seconds: float
    """CPU seconds since the worker was up, its child processes included."""
    resident_bytes: int


@dataclass(frozen=True)
class PlaceStatus:
    """The status of one place on the cluster and its worker, from the last report."""

    name: str
    state: str
    """`starting`, `late`, `playing`, `idle`, `leaving` or `gone`."""
    node: str
    """The node's address; empty before the worker is up."""
    pid: int | None
    in_flight: int
    done: int


class WorkerHandle:
    """The driver's handle of one worker."""

    def __init__(self, actor: Any, running: Any, hello: Hello, name: str, patience: WorkerTimeouts) -> None:
        self._actor, self._running = actor, running
        self.hello, self.name = hello, name
        self._patience = patience
        self._pending: Any = None
        self._nudge: Any = None
        self.is_killed = False

    async def exchange(self, order: WorkerOrder) -> WorkerReport:
        """Send an order and wait for the report.

        Raises:
            WorkerLost: the worker is gone or silent.
        """
        self._pending = self._actor.exchange.remote(encode(order))
        return await self.last_report()

    def nudge(self) -> None:
        """Ask the worker to report at once, so that the next order can be sent."""
        self._nudge = self._actor.nudge.remote()

    @property
    def is_talking(self) -> bool:
        """Whether an order was sent whose report has not arrived."""
        return self._pending is not None

    async def last_report(self) -> WorkerReport:
        """Wait for the report on the last order. Its content is sent only once, so every report must be read.

        Raises:
            WorkerLost: the worker is gone, silent or broken.
        """
        report: bytes | None = None
        try:
            with anyio.move_on_after(self._patience.silence_seconds):
                report = await self._pending
        except Exception as error:
            raise WorkerLost(f"{self._whereabouts} is gone: {_said(error)}") from error
        if report is None:
            raise WorkerLost(f"{self._whereabouts} has said nothing for {self._patience.silence_seconds:g} s")
        self._pending = None
        reply = decode_report(report)
        if reply.problem:
            for note in reply.notes:
                self.say(note)
            raise WorkerLost(f"{self._whereabouts} broke: {reply.problem}")
        return reply

    def say(self, note: Note) -> None:
        """Write a record of the worker's log to the driver's log."""
        logging.getLogger(note.logger).log(note.level, "%s: %s", self.name, note.text)

    @property
    def _whereabouts(self) -> str:
        return f"{self.name} (process {self.hello.pid} on {self.hello.address})"

    async def dismiss(self, ray: Any, *, in_a_hurry: bool = False) -> None:
        """Let the worker close its environments and leave; kill it if that takes too long."""
        seconds = self._patience.hurry_seconds if in_a_hurry else self._patience.leave_seconds
        with anyio.move_on_after(seconds, shield=True):
            try:
                await self._actor.leave.remote()
                await self._running
            except Exception as error:
                logger.debug("%s left with %s", self.name, _said(error))
        self.kill(ray)

    def kill(self, ray: Any) -> None:
        """Kill the worker's process now."""
        self.is_killed = True
        ray.kill(self._actor, no_restart=True)


@dataclass(frozen=True, repr=False)
class Terms:
    """What the driver sends to every worker of a run, and the digests that the worker's environments must match."""

    run_id: str
    credentials: Mapping[str, str]
    environments: Mapping[str, str]
    """Environment name → digest of its code when the run was started."""


class WorkerStarter:
    """Starts the workers of a run, all with the same options."""

    def __init__(self, cluster: Cluster, options: RayOptions, terms: Terms, patience: WorkerTimeouts) -> None:
        from rollouthub.cluster.episode_worker import Worker

        ray = cluster.ray
        self._ray, self._withheld, self._options, self._terms, self._patience = (
            ray,
            cluster.withheld,
            options,
            terms,
            patience,
        )
        self._placed_so_far = 0
        self._nodes = _node_ids(ray, options.nodes)
        self._actors = ray.remote(Worker)

    async def most_workers(self) -> int:
        """The number of workers for which the cluster's present nodes have room; at least 1."""
        # Its head is asked, and may be slow to answer.
        found = await anyio.to_thread.run_sync(self._ray.nodes, abandon_on_cancel=True)
        nodes = [node for node in found if node["Alive"]]
        if self._nodes:
            nodes = [node for node in nodes if node["NodeID"] in self._nodes]
        return max(1, sum(self._fitting(node["Resources"]) for node in nodes))

    def _fitting(self, resources: dict[str, float]) -> int:
        options = self._options
        wanted = {"CPU": options.cpus, "GPU": options.gpus, **options.resources}
        if options.memory_mb is not None:
            wanted["memory"] = options.memory_mb * 2**20
        counts = [int(resources.get(name, 0.0) // amount) for name, amount in wanted.items() if amount]
        return min(counts) if counts else int(resources.get("CPU", 1))

    async def start(
        self, request: bytes, name: str, late: Callable[[], None], *, is_extra: bool = False
    ) -> WorkerHandle:
        """Start a worker and wait until it can play; with `is_extra` it reserves no resources of the cluster.

        `late` is called once if the start takes longer than `late_seconds`.

        Raises:
            WorkerRefusal: the worker cannot play the plan.
            WorkerLost, TaskError: the worker did not start.
        """
        # A working directory that is shipped is where the worker starts; else it goes where the driver is, if it can.
        folder = None if "working_dir" in self._options.runtime_env else str(Path.cwd())
        actor = self._actors.options(**self._placed(is_extra)).remote(
            request, self._terms.run_id, dict(self._terms.credentials), folder, dict(self._withheld)
        )
        is_up = False
        try:
            running = actor.run.remote()
            hello = await self._hello(actor, late)
            if hello is None:
                raise WorkerLost(
                    f"{name} was not up after {self._patience.start_seconds:g} s: "
                    "the cluster may have no room for it (`ray status`)"
                )
            self._check(hello, name)
            is_up = True
        except HubError:
            raise
        except Exception as error:
            raise WorkerLost(f"{name} did not come up: {_said(error)}") from error
        finally:
            if not is_up:
                self._ray.kill(actor, no_restart=True)
        logger.info("%s is up: process %d on %s", name, hello.pid, hello.address)
        return WorkerHandle(actor, running, hello, name, self._patience)

    def _check(self, hello: Hello, name: str) -> None:
        where = f"{name} on {hello.address}"
        if hello.problem is not None:
            if hello.is_usage:
                raise WorkerRefusal(f"{where}: {hello.problem}")
            raise TaskError(f"{where} cannot play: {hello.problem}")
        if hello.hub_version != version("rollouthub"):
            raise WorkerRefusal(
                f"{where} has rollouthub {hello.hub_version}, and the run was started with {version('rollouthub')}: "
                "install the same on every node"
            )
        for environment, digest in hello.environments.items():
            if digest != self._terms.environments.get(environment, digest):
                raise WorkerRefusal(
                    f"{where} has another {environment} than the run was started with "
                    f"({digest} for {self._terms.environments[environment]}): install the same on every node"
                )

    async def _hello(self, actor: Any, late: Callable[[], None]) -> Hello | None:
        pending, hello = actor.hello.remote(), None
        with anyio.move_on_after(self._patience.start_seconds):
            with anyio.move_on_after(self._patience.late_seconds):
                hello = await pending
            if hello is None:
                late()
                hello = await pending
        return None if hello is None else decode_hello(hello)

    def _placed(self, is_extra: bool) -> dict[str, Any]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        options = self._options
        strategy: Any = "SPREAD"
        if self._nodes:
            # The next one each time, so that what cannot be had on one node is had on another.
            node = self._nodes[self._placed_so_far % len(self._nodes)]
            strategy = NodeAffinitySchedulingStrategy(node, soft=False)
            self._placed_so_far += 1
        placed: dict[str, Any] = {
            "num_cpus": 0 if is_extra else options.cpus,
            "num_gpus": 0 if is_extra else options.gpus,
            "resources": {} if is_extra else options.resources,
            "scheduling_strategy": strategy,
            "max_restarts": 0,
            # `run` lives as long as the worker; `exchange`, `hello` and `leave` are called beside it.
            "max_concurrency": 8,
        }
        if options.memory_mb is not None and not is_extra:
            placed["memory"] = options.memory_mb * 2**20
        return placed


def _node_ids(ray: Any, wanted: Sequence[str]) -> list[str]:
    """The ids of the nodes named by id or address in the options.

    Raises:
        UsageError: the cluster has no such node.
    """
    alive = [node for node in ray.nodes() if node["Alive"]]
    found: list[str] = []
    for name in wanted:
        known = [node["NodeID"] for node in alive if name in (node["NodeID"], node["NodeManagerAddress"])]
        if not known:
            listing = ", ".join(f"{node['NodeManagerAddress']} ({node['NodeID']})" for node in alive)
            raise UsageError(f"the cluster has no node {name!r}; there are {listing}")
        found += known
    return found


_DEATHS = {
    "ActorDiedError": "its process died",
    "ActorUnavailableError": "its node does not answer",
    "NodeDiedError": "its node is gone",
    "OutOfMemoryError": "its node ran out of memory",
}


def _said(error: Exception) -> str:
    """A short description of an error raised by Ray."""
    known = _DEATHS.get(type(error).__name__)
    if known is not None:
        return known
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:2])[:300]}"
