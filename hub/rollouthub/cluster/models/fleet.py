"""Starts models on a cluster, and stops them."""

import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from rollouthub.cluster.models.local_head import Head, changing, ensure_head, find_head, stop_head
from rollouthub.cluster.models.model_spec import ModelSpec, Secrets
from rollouthub.cluster.models.server_command import find_program, uses_cpus
from rollouthub.cluster.open_cluster import check_cluster, open_cluster
from rollouthub.engine.pool_options import RayOptions
from rollouthub.errors import HubError, UsageError
from rollouthub.models.registered import (
    Registration,
    prepare_folder,
    read_registration,
    registration_path,
    remove_registration,
)
from rollouthub.plugins.file_owners import refuse_strangers

Note = Callable[[str], None]
Seen = Callable[[Registration], None]
Resources = Mapping[str, float]
"""Ray resources: name → amount."""

_LOOK_SECONDS = 0.5
_PLACE_SECONDS = 120.0
"""Seconds for reserving resources and starting keepers, in addition to a server's own start."""
_ANSWER_SECONDS = 60.0
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?", re.ASCII)


def find_source(given: str) -> str:
    """Resolve what a server loads: a local folder to its absolute path; a name on the model hub stays as it is.

    Raises:
        UsageError: a path was given, and there is no model that can be loaded.
    """
    path = Path(given).expanduser()
    refuse_strangers(given)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UsageError(f"{given!r} holds no model: there is no config.json in it")
        return str(path.absolute())
    if path.exists() or given.startswith((".", "/", "~")) or not _HUB_NAME.fullmatch(given):
        raise UsageError(
            f"there is no model {given!r}: name a folder that holds one, or one on the hub as ORGANISATION/NAME"
        )
    return given


def usual_name(given: str) -> str:
    """The default name of a served model: a local folder's name, or the full name on the model hub."""
    path = Path(given).expanduser()
    return path.resolve().name if path.is_dir() else given


class Fleet:
    """The models that one user serves from this machine."""

    def __init__(self, folder: Path, note: Note) -> None:
        """`folder` holds the registrations; `note` is called with messages on slow steps."""
        self.folder = folder
        self._note = note

    @asynccontextmanager
    async def up(
        self, spec: ModelSpec, secrets: Secrets, address: str | None, seen: Seen
    ) -> AsyncGenerator["RunningModel"]:
        """Start a model and wait until every server is healthy; stay connected to the cluster inside the block.

        If that fails or is cancelled, everything that was started is stopped again.

        Raises:
            UsageError: the model is served already or does not fit into the cluster, no server program was found, or no
                cluster answers.
            HubError: a server did not become healthy; the message has its last output.
        """
        prepare_folder(self.folder)
        is_ours = address is None
        if is_ours:
            spec = spec.model_copy(update={"command": str(find_program(spec.engine, spec.command))})
        model: RunningModel | None = None
        try:
            async with AsyncExitStack() as cluster:
                async with changing(self.folder):
                    model = await self._start(spec, secrets, address, cluster)
                try:
                    await model.until_healthy(seen)
                except BaseException:
                    with anyio.CancelScope(shield=True):
                        self._note(f"taking {spec.name} down again")
                        await model.end()
                    raise
                yield model
        finally:
            if is_ours and (model is None or model.has_ended):
                with anyio.CancelScope(shield=True):
                    await self._end_head_if_idle()

    async def _start(
        self, spec: ModelSpec, secrets: Secrets, address: str | None, cluster: AsyncExitStack
    ) -> "RunningModel":
        """Connect to the cluster and start the model's keeper there."""
        self._refuse_twice(spec.name)
        is_ours = address is None
        if address is None:
            address = _join(await ensure_head(self.folder, self._note))
        elif address.startswith("ray://"):
            raise UsageError(
                f"models cannot be brought up from outside a cluster ({address}): "
                "their registration is for a machine in it; run `hub serve model --ray-address auto` there"
            )
        await check_cluster(RayOptions(address=address))
        ray = (await cluster.enter_async_context(open_cluster(RayOptions(address=address)))).ray
        nodes = [node for node in ray.nodes() if node["Alive"]]
        spec = placed(
            spec.model_copy(update={"cluster": ray.get_runtime_context().gcs_address, "is_ours": is_ours}),
            {f"{node['NodeManagerAddress']} ({node['NodeID'][:6]})": node["Resources"] for node in nodes},
            ray.available_resources(),
            may_use_gpus=not uses_cpus(
                spec.engine, Path(spec.command) if is_ours and spec.command is not None else None, spec.arguments
            ),
        )
        from rollouthub.cluster.models import actors  # which imports Ray

        if actors.find_keeper(spec.name) is not None:
            raise UsageError(f"the cluster at {address} serves {spec.name!r} already, for another process")
        return RunningModel(self, spec, actors.start_keeper(spec, secrets, is_alone=len(nodes) == 1))

    async def down(self, registration: Registration) -> None:
        """Stop a model: remove its registration, end its servers, and stop the hub's own cluster if it is idle."""
        name = registration.model
        async with changing(self.folder):
            head = find_head(self.folder)
            remove_registration(self.folder, name)
            if registration.is_ours and (head is None or head.address != registration.cluster):
                self._note(f"{name}: its cluster has gone, and its servers with it")
                return
            if head is not None and registration.is_ours:
                _join(head)
            try:
                await check_cluster(RayOptions(address=registration.cluster))
                async with open_cluster(RayOptions(address=registration.cluster)):
                    await self._end(name)
            except UsageError as error:
                self._note(f"{name} is on the list no more, but its servers could not be ended: {error}")
                return
            finally:
                if registration.is_ours:
                    await self._end_head_if_idle(holds_lock=True)

    async def end_head(self) -> None:
        """Stop the hub's own cluster on this machine, with everything in it."""
        async with changing(self.folder):
            if find_head(self.folder) is not None:
                self._note("stopping the Ray cluster on this machine")
                await stop_head(self.folder)

    async def _end(self, name: str) -> None:
        """End a model's servers and keepers in the cluster that this process is connected to."""
        from rollouthub.cluster.models import actors

        keeper = actors.find_keeper(name)
        if keeper is not None:
            self._note(f"{name}: letting its servers finish what they answer, and ending them")
            with suppress(actors.ray.exceptions.RayError), anyio.move_on_after(2 * _ANSWER_SECONDS):
                await keeper.stop.remote()
        actors.kill_all(name)

    async def _end_head_if_idle(self, *, holds_lock: bool = False) -> None:
        """Stop the hub's own cluster if it serves no model."""
        if not holds_lock:
            async with changing(self.folder):
                await self._end_head_if_idle(holds_lock=True)
            return
        head = find_head(self.folder)
        if head is None:
            return
        _join(head)
        async with open_cluster(RayOptions(address=head.address)):
            from rollouthub.cluster.models import actors

            is_idle = not actors.models_kept()
        if is_idle:
            self._note("stopping the Ray cluster on this machine: no model is left")
            await stop_head(self.folder)

    def _refuse_twice(self, name: str) -> None:
        found = read_registration(registration_path(self.folder, name))
        if found is None:
            return
        if found.is_ours and is_lost(found, find_head(self.folder)):
            remove_registration(self.folder, name)
            return
        raise UsageError(f"{name!r} is up already (`hub model list`); take it down first: hub model stop {name}")


class RunningModel:
    """A model that this process started."""

    def __init__(self, fleet: Fleet, spec: ModelSpec, keeper: Any) -> None:
        self.spec = spec
        self.has_ended = False
        """Whether the model was stopped again."""
        self._fleet, self._keeper = fleet, keeper

    async def look(self) -> Registration:
        """The model's current registration.

        Raises:
            HubError: its keeper does not answer.
        """
        from rollouthub.cluster.models import actors

        try:
            with anyio.fail_after(_ANSWER_SECONDS):
                return Registration.model_validate_json(await self._keeper.registration.remote())
        except (TimeoutError, actors.ray.exceptions.RayError) as error:
            said = str(error).strip().partition("\n")[0]
            raise HubError(
                f"the keeper of {self.spec.name!r} does not answer: {said or 'no answer in time'}"
            ) from error

    async def until_healthy(self, seen: Seen) -> None:
        """Wait until every server is healthy; `seen` is called with each state on the way.

        Raises:
            HubError: a server has failed, or is not healthy in time.
        """
        patience = self.spec.patience.start + _PLACE_SECONDS
        with anyio.move_on_after(patience):
            while True:
                found = await self.look()
                seen(found)
                if all(server.state == "healthy" for server in found.servers):
                    return
                failed = next((server for server in found.servers if server.state == "failed"), None)
                if failed is not None:
                    raise HubError(
                        f"replica {failed.number} of {self.spec.name!r} did not come up: {failed.problem}\n"
                        f"All it wrote is in {failed.log}."
                    )
                await anyio.sleep(_LOOK_SECONDS)
        raise HubError(
            f"{self.spec.name!r} was not up after {patience:g} s, and nothing says why; "
            "`ray status` shows whether the cluster has a place for it"
        )

    async def end(self) -> None:
        """Stop the model."""
        self.has_ended = True
        await self._fleet._end(self.spec.name)  # pyright: ignore[reportPrivateUsage] - its own
        remove_registration(self._fleet.folder, self.spec.name)


def is_lost(registration: Registration, head: Head | None) -> bool:
    """Whether the model ran in the hub's own cluster, and that cluster no longer runs."""
    return registration.is_ours and (head is None or head.address != registration.cluster)


def _join(head: Head) -> str:
    """Set the authentication mode for the hub's own cluster in this process; returns the cluster's address."""
    os.environ["RAY_AUTH_MODE"] = head.auth
    return head.address


def placed(spec: ModelSpec, nodes: Mapping[str, Resources], free: Resources, *, may_use_gpus: bool = True) -> ModelSpec:
    """The spec with the GPUs and CPUs of each replica: GPUs if any node has them, otherwise CPUs alone.

    Raises:
        UsageError: the cluster has no room for all replicas.
    """
    size = spec.tensor_parallel
    has_gpus = may_use_gpus and any(has.get("GPU", 0) > 0 for has in nodes.values())
    gpus, cpus = (size, spec.cpus) if has_gpus else (0, spec.cpus * size)
    share = {"GPU": float(gpus), "CPU": cpus}
    if min(sum(_places(has, share) for has in nodes.values()), _places(free, share)) < spec.replicas:
        each = f"{gpus} GPUs and {cpus:g} CPUs" if gpus else f"{cpus:g} CPUs"
        have = "; ".join(f"{address}: {_amounts(has)}" for address, has in nodes.items())
        raise UsageError(
            f"{spec.replicas} x {each}, each on one node, do not fit into the cluster: "
            f"it has {have}; free in all: {_amounts(free)}. "
            f"Take fewer --replicas, {'a smaller --tensor-parallel' if gpus else 'fewer --cpus'}, or add nodes"
        )
    return spec.model_copy(update={"gpus": gpus, "cpus": cpus})


def _places(resources: Resources, share: Resources) -> int:
    """How many shares fit into the resources."""
    most = [int(resources.get(name, 0.0) / amount) for name, amount in share.items() if amount]
    return min(most) if most else 10**6


def _amounts(resources: Resources) -> str:
    return f"{resources.get('GPU', 0):g} GPUs, {resources.get('CPU', 0):g} CPUs"
