"""Workers as actors: where they are placed, how they are started, spoken to, and ended."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from envhub.cluster.wire import Hello, Order, Report, decode_hello, decode_report, encode
from envhub.engine.pool_options import RayOptions
from envhub.errors import HubError, TaskError, UsageError, WorkerLost

logger = logging.getLogger(__name__)

START_SECONDS = 300.0
"""To be placed, to install a runtime environment, and to bring up what the plan needs."""
SILENCE_SECONDS = 60.0
"""A worker that reports nothing for so long hangs: it is ended, and another takes its place."""
LEAVE_SECONDS = 15.0
"""To close its environments once told to go."""


@dataclass(frozen=True)
class WorkerStatus:
    """One worker as it stands."""

    name: str
    node: str
    pid: int
    in_flight: int
    cpu_seconds: float
    """Since it was up; the processes it started count."""
    resident_bytes: int


class Member:
    """One worker, from the driver's side."""

    def __init__(self, actor: Any, running: Any, hello: Hello, name: str) -> None:
        self._actor, self._running = actor, running
        self.hello, self.name = hello, name
        self._pending: Any = None

    async def exchange(self, order: Order) -> Report:
        """Hand over an order and wait for the report.

        Raises:
            WorkerLost: it is gone, or silent.
        """
        self._pending = self._actor.exchange.remote(encode(order))
        return await self.last_report()

    @property
    def is_talking(self) -> bool:
        """Whether a report is on its way that nobody has waited out."""
        return self._pending is not None

    async def last_report(self) -> Report:
        """The report to the last order: what it tells is told only once, so that it must not go unheard."""
        report: bytes | None = None
        try:
            with anyio.move_on_after(SILENCE_SECONDS):
                report = await self._pending
        except Exception as error:
            raise WorkerLost(f"{self._whereabouts} is gone: {_said(error)}") from error
        if report is None:
            raise WorkerLost(f"{self._whereabouts} has said nothing for {SILENCE_SECONDS:g} s")
        self._pending = None
        return decode_report(report)

    @property
    def _whereabouts(self) -> str:
        return f"{self.name} (process {self.hello.pid} on {self.hello.address})"

    async def dismiss(self, ray: Any) -> None:
        """Let it tidy up and go."""
        with anyio.move_on_after(LEAVE_SECONDS, shield=True):
            try:
                await self._actor.leave.remote()
                await self._running
            except Exception as error:
                logger.debug("%s left with %s", self.name, _said(error))
        self.kill(ray)

    def kill(self, ray: Any) -> None:
        """End its process now."""
        ray.kill(self._actor, no_restart=True)


class Crew:
    """Starts workers alike."""

    def __init__(self, ray: Any, options: RayOptions, run_id: str, credentials: dict[str, str]) -> None:
        from envhub.cluster.worker import Worker

        self._ray, self._options, self._run_id, self._credentials = ray, options, run_id, credentials
        self._nodes = _node_ids(ray, options.nodes)
        self._actors = ray.remote(Worker)

    def most_workers(self) -> int:
        """How many the cluster has room for, as its nodes are now."""
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
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

    async def start(self, request: bytes, place: int, name: str, *, is_extra: bool = False) -> Member:
        """Start a worker and wait until it can play; `is_extra` takes no CPU of the cluster's.

        Raises:
            UsageError: it refuses the plan, as every other would.
            WorkerLost: it did not come up.
        """
        actor = self._actors.options(**self._placed(place, is_extra)).remote(request, self._run_id, self._credentials)
        try:
            running = actor.run.remote()
            hello: Hello | None = None
            with anyio.move_on_after(START_SECONDS):
                hello = decode_hello(await actor.hello.remote())
        except anyio.get_cancelled_exc_class():
            self._ray.kill(actor, no_restart=True)
            raise
        except Exception as error:
            self._ray.kill(actor, no_restart=True)
            raise WorkerLost(f"{name} did not come up: {_said(error)}") from error
        if hello is None or hello.problem is not None:
            self._ray.kill(actor, no_restart=True)
            raise _refusal(hello, name)
        logger.info("%s is up: process %d on %s", name, hello.pid, hello.address)
        return Member(actor, running, hello, name)

    def _placed(self, place: int, is_extra: bool) -> dict[str, Any]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        options = self._options
        strategy: Any = "SPREAD"
        if self._nodes:
            strategy = NodeAffinitySchedulingStrategy(self._nodes[place % len(self._nodes)], soft=False)
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
    """The ids of the nodes that options name by id or address.

    Raises:
        UsageError: a node is not there.
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


def _refusal(hello: Hello | None, name: str) -> HubError:
    if hello is None:
        return WorkerLost(
            f"{name} was not up after {START_SECONDS:g} s: the cluster may have no room for it (`ray status`)"
        )
    assert hello.problem is not None
    if hello.is_usage:
        return UsageError(f"{name} on {hello.address}: {hello.problem}")
    return TaskError(f"{name} on {hello.address} cannot play: {hello.problem}")


_DEATHS = {
    "ActorDiedError": "its process died",
    "ActorUnavailableError": "its node does not answer",
    "NodeDiedError": "its node is gone",
    "OutOfMemoryError": "its node ran out of memory",
}


def _said(error: Exception) -> str:
    """A Ray error in a few words."""
    known = _DEATHS.get(type(error).__name__)
    if known is not None:
        return known
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:2])[:300]}"
