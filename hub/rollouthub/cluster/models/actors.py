"""Ray actors that serve a model: one `ServerKeeper` per server, and one `ModelKeeper` that registers the model.

Both are detached: they outlive the command that started them, and Ray restarts them if they die. This module imports
Ray, so it is imported only where Ray is needed.
"""

import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import ray as untyped_ray
import ray.util.scheduling_strategies as strategies

from rollouthub.cluster.models.model_spec import ModelSpec, Secrets
from rollouthub.cluster.models.supervisor import ModelServerSupervisor
from rollouthub.models.registered import Registration, ServerRow, remove_registration, write_registration

logger = logging.getLogger(__name__)

# Most of its types are unknown to a strict checker.
ray: Any = untyped_ray

NAMESPACE = "rollouthub-models"
BEAT_SECONDS = 3.0
"""Most seconds between two writes of a registration, so that readers see that its keeper is alive."""
_GONE_SECONDS = 0.5
_STOP_SECONDS = 20.0
"""Seconds that a keeper may take to answer `stop`, beyond draining and ending its server."""


class ServerKeeper:
    """An actor that runs a `ModelServerSupervisor` on its server's node, and holds that server's CPUs and GPUs."""

    def __init__(self, spec: str, number: int, secrets: Secrets, is_alone: bool) -> None:
        """`is_alone`: whether the cluster has one node, so that its servers can listen on loopback."""
        address = ray.util.get_node_ip_address()
        settings = ModelSpec.model_validate_json(spec)
        if settings.host is None and not is_alone:
            settings = settings.model_copy(update={"host": address})
        self._changed = anyio.Event()
        self._version = 0
        self._supervisor = ModelServerSupervisor(
            settings, number, secrets, "127.0.0.1" if is_alone else address, self._on_change
        )
        # Also after Ray has started this actor again, with nobody there to call it.
        ray.get_runtime_context().current_actor.run.remote()

    async def run(self) -> None:
        """Keep the server running until it is stopped or has failed for good."""
        await self._supervisor.run()

    async def row(self, seen: int = -1, seconds: float = 0.0) -> tuple[int, str]:
        """The version and JSON of the server's state; waits up to `seconds` for a version other than `seen`."""
        if self._version == seen:
            with anyio.move_on_after(seconds):
                await self._changed.wait()
        return self._version, self._supervisor.row.model_dump_json()

    async def stop(self) -> None:
        """Let requests in flight finish for a limited time, then end the server."""
        await self._supervisor.stop()

    def _on_change(self) -> None:
        self._version += 1
        self._changed.set()
        self._changed = anyio.Event()


class ModelKeeper:
    """An actor that reserves the resources of a model's servers, follows their states, and writes the registration."""

    def __init__(self, spec: str, secrets: Secrets, is_alone: bool) -> None:
        self._spec = ModelSpec.model_validate_json(spec)
        self._secrets, self._is_alone = secrets, is_alone
        self._rows = [ServerRow(number=number, state="waiting") for number in range(self._spec.replicas)]
        self._keepers: list[Any] = []
        self._is_registered = True
        self._changed = anyio.Event()
        self._over = anyio.Event()
        ray.get_runtime_context().current_actor.run.remote()

    async def run(self) -> None:
        """Place the servers, and keep the registration up to date until the model is stopped."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write)
            group = _place(self._spec)
            await group.ready()
            self._keepers = [self._keeper(group, number) for number in range(self._spec.replicas)]
            for number in range(self._spec.replicas):
                tasks.start_soon(self._follow, number)
            await self._over.wait()
            tasks.cancel_scope.cancel()

    async def registration(self) -> str:
        """The model's current registration, as JSON."""
        return self._registration().model_dump_json()

    async def stop(self) -> str:
        """Remove the registration, let the servers finish requests, and end them; returns their last state as JSON."""
        self._is_registered = False
        remove_registration(Path(self._spec.folder), self._spec.name)
        patience = self._spec.patience
        async with anyio.create_task_group() as tasks:
            for keeper in self._keepers:
                tasks.start_soon(self._stop_one, keeper, patience.drain + patience.leave + _STOP_SECONDS)
        self._over.set()
        for keeper in self._keepers:
            ray.kill(keeper)
        with suppress(ValueError):
            ray.util.remove_placement_group(ray.util.get_placement_group(self._spec.name))
        remove_registration(Path(self._spec.folder), self._spec.name)
        return self._registration().model_dump_json()

    async def _stop_one(self, keeper: Any, seconds: float) -> None:
        with anyio.move_on_after(seconds), suppress(ray.exceptions.RayError):
            await keeper.stop.remote()

    async def _follow(self, number: int) -> None:
        """Follow one server's state, also while its keeper is dead and restarted."""
        version = -1
        while True:
            try:
                version, row = await self._keepers[number].row.remote(version, BEAT_SECONDS)
                self._rows[number] = ServerRow.model_validate_json(row)
            except ray.exceptions.RayError as error:
                before = self._rows[number]
                problem = f"its keeper died: {str(error).partition(chr(10))[0]}"
                row = before.model_copy(update={"state": "restarting", "pid": None, "problem": problem})
                self._rows[number] = row if before.state != "restarting" else before
                version = -1
                await anyio.sleep(_GONE_SECONDS)
            self._changed.set()

    async def _write(self) -> None:
        """Write the registration on every change, and at least every `BEAT_SECONDS`."""
        while True:
            if self._is_registered:
                try:
                    write_registration(Path(self._spec.folder), self._registration())
                except OSError as error:
                    logger.warning("the registration of %s could not be written: %s", self._spec.name, error)
            self._changed = anyio.Event()
            with anyio.move_on_after(BEAT_SECONDS):
                await self._changed.wait()

    def _registration(self) -> Registration:
        return Registration(
            model=self._spec.name,
            engine=self._spec.engine,
            source=self._spec.source,
            cluster=self._spec.cluster,
            is_ours=self._spec.is_ours,
            needs_key=self._secrets.has_key,
            servers=tuple(self._rows),
            written=time.time(),
        )

    def _keeper(self, group: Any, number: int) -> Any:
        """The keeper of one server; an existing one is found again after this actor was restarted."""
        spec = self._spec
        strategy = strategies.PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number)
        return (
            ray.remote(ServerKeeper)
            .options(
                name=f"{spec.name}#{number}",
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                num_cpus=spec.cpus,
                num_gpus=spec.gpus,
                max_restarts=-1,
                max_concurrency=100,
                scheduling_strategy=strategy,
            )
            .remote(spec.model_dump_json(), number, self._secrets, self._is_alone)
        )


def start_keeper(spec: ModelSpec, secrets: Secrets, *, is_alone: bool) -> Any:
    """Start a model's keeper, on this node if possible, since the registration is a file on this machine.

    Raises:
        ValueError: the model already has a keeper.
    """
    here = strategies.NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
    return (
        ray.remote(ModelKeeper)
        .options(
            name=spec.name,
            namespace=NAMESPACE,
            lifetime="detached",
            num_cpus=0,
            max_restarts=-1,
            max_concurrency=100,
            scheduling_strategy=here,
        )
        .remote(spec.model_dump_json(), secrets, is_alone)
    )


def find_keeper(name: str) -> Any | None:
    """A model's keeper; None if it has none."""
    try:
        return ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return None


def models_kept() -> list[str]:
    """The names of the models that are served on the cluster."""
    named = ray.util.list_named_actors(all_namespaces=True)
    return sorted({str(each["name"]).partition("#")[0] for each in named if each["namespace"] == NAMESPACE})


def kill_all(name: str) -> None:
    """Kill all actors of a model whose keeper does not answer; the guards of its servers then end the servers."""
    for each in ray.util.list_named_actors(all_namespaces=True):
        if each["namespace"] == NAMESPACE and str(each["name"]).partition("#")[0] == name:
            with suppress(ValueError):
                ray.kill(ray.get_actor(str(each["name"]), namespace=NAMESPACE))
    with suppress(ValueError):
        ray.util.remove_placement_group(ray.util.get_placement_group(name))


def _place(spec: ModelSpec) -> Any:
    """The placement group for all servers, reserved together; an existing one is found again after a restart."""
    with suppress(ValueError):
        return ray.util.get_placement_group(spec.name)
    share = {"CPU": spec.cpus} | ({"GPU": float(spec.gpus)} if spec.gpus else {})
    return ray.util.placement_group([share] * spec.replicas, strategy="PACK", name=spec.name, lifetime="detached")
