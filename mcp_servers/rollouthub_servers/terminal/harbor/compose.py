"""`docker-compose.yaml` of a task: the containers beside the agent's, and what is asked of the agent's own.

Only what these models have a field for is taken; any other key is a reason to refuse the task that names it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from rollouthub.values import Frozen
from rollouthub_servers.foreign.yaml_text import read_yaml
from rollouthub_servers.terminal.harbor.compose_values import (
    AsBytes,
    AsList,
    AsMount,
    AsTable,
    Bytes,
    Duration,
    Test,
    Texts,
    Unfilled,
    Words,
    filled,
)

COMPOSE_FILE = "docker-compose.yaml"
"""The only compose file name in the Harbor format; files with other names are data of the task."""
MAIN = "main"
"""Name of the service that the agent works in."""
MOST_SERVICES = 8
_MOST_BYTES = 1 << 20
_SHARED_MEMORY_BYTES = 64 << 20
_LOGS = "@logs"
OWN_VARIABLES = {
    "CONTEXT_DIR": ".", "MAIN_IMAGE_NAME": "", "PREBUILT_IMAGE_NAME": "", "CPUS": "", "MEMORY": "",
    "TEST_DIR": "/tests", "HARBOR_CONTAINER_NAME": "main",
} | {
    f"{side}_{name}_PATH": _LOGS if side == "HOST" else f"/logs/{folder}"
    for side in ("HOST", "ENV")
    for name, folder in (("VERIFIER_LOGS", "verifier"), ("AGENT_LOGS", "agent"), ("ARTIFACTS", "artifacts"))
}  # fmt: skip
"""Variables that Harbor itself gives to compose files."""
_NO_EFFECT = frozenset(
    {
        "annotations", "attach", "cap_drop", "container_name", "cpu_shares", "domainname", "expose", "init", "labels",
        "logging", "mem_reservation", "mem_swappiness", "memswap_limit", "oom_score_adj", "ports", "pull_policy",
        "read_only", "restart", "stdin_open", "stop_grace_period", "stop_signal", "tty", "ulimits",
    }
)  # fmt: skip
"""Keys of a service without effect here: nothing is shown to the machine, kept or restarted, and limits are ours."""
_HAD_CAPABILITIES = frozenset(
    {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID", "KILL", "NET_BIND_SERVICE"}
)  # fmt: skip
_IDLE = frozenset({"sleep infinity", "sh -c sleep infinity", "bash -c sleep infinity", "tail -f /dev/null"})


class BuildSection(Frozen):
    """`build`: a folder of the task with a Dockerfile."""

    context: str = "."
    dockerfile: str = "Dockerfile"
    args: Texts = {}


class HealthSection(Frozen):
    """`healthcheck`: a command that must succeed before others begin."""

    test: Test = ()
    interval: Annotated[Duration, Field(gt=0)] = 30.0
    timeout: Annotated[Duration, Field(gt=0)] = 30.0
    start_period: Annotated[Duration, Field(ge=0)] = 0.0
    start_interval: Annotated[Duration, Field(gt=0)] = 5.0
    retries: Annotated[int, Field(ge=1)] = 3
    disable: bool = False


class Need(Frozen):
    """`depends_on`: what a service waits for."""

    condition: Literal["service_started", "service_healthy", "service_completed_successfully"] = "service_started"
    required: bool = True
    restart: bool = False


class Mount(Frozen):
    """`volumes`: files of the task that are copied in, or a folder of the container itself."""

    type: Literal["bind", "volume", "tmpfs"] = "volume"
    source: str = ""
    target: str = Field(pattern=r"^/[^:\x00]*$")
    read_only: bool = False
    bind: Any = None
    volume: Any = None
    tmpfs: Any = None
    consistency: Any = None


class Attachment(Frozen):
    """`networks`: a network that a service is in."""

    aliases: tuple[str, ...] = ()


class _Caps(Frozen):
    cpus: Annotated[Annotated[float, Field(gt=0)] | None, BeforeValidator(lambda value: value or None)] = None
    memory: Bytes = None
    pids: int | None = None


class _Allotment(Frozen):
    limits: _Caps = _Caps()
    reservations: Annotated[_Caps, Field()] = _Caps()


class _Deploy(Frozen):
    resources: _Allotment = _Allotment()
    replicas: Literal[1] = 1
    restart_policy: Any = None


class Service(Frozen):
    """A service of a compose file."""

    image: str | None = None
    build: BuildSection | None = None
    command: Words | None = None
    entrypoint: Words | None = None
    environment: Texts = {}
    env_file: Annotated[tuple[str, ...], AsList] = ()
    working_dir: str | None = None
    user: str | None = None
    hostname: str | None = None
    healthcheck: HealthSection | None = None
    depends_on: Annotated[dict[str, Need], AsTable] = {}
    links: tuple[str, ...] = ()
    volumes: tuple[Annotated[Mount, AsMount], ...] = ()
    tmpfs: Annotated[tuple[str, ...], AsList] = ()
    networks: Annotated[dict[str, Attachment | None], AsTable] = {}
    network_mode: Literal["service:main"] | None = None
    profiles: tuple[str, ...] = ()
    platform: Literal["linux/amd64", "linux/x86_64", "linux"] | None = None
    privileged: Literal[False] = False
    cap_add: tuple[str, ...] = ()
    security_opt: tuple[Literal["no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"], ...] = ()
    shm_size: Annotated[Annotated[int, Field(le=_SHARED_MEMORY_BYTES)] | None, AsBytes] = None
    cpus: Annotated[float | None, Field(gt=0)] = None
    mem_limit: Bytes = None
    pids_limit: int | None = None
    scale: Literal[1] = 1
    deploy: _Deploy = _Deploy()

    @model_validator(mode="before")
    @classmethod
    def _without_idle_keys(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        table = {key: each for key, each in cast(dict[str, Any], values).items() if key not in _NO_EFFECT}
        table = {key: each for key, each in table.items() if not key.startswith("x-") and each is not None}
        if isinstance(table.get("build"), str):
            table["build"] = {"context": table["build"]}
        if isinstance(table.get("user"), int):
            table["user"] = str(table["user"])
        return table

    @model_validator(mode="after")
    def _has_its_capabilities(self) -> "Service":
        more = sorted({name.removeprefix("CAP_") for name in self.cap_add} - _HAD_CAPABILITIES)
        if more:
            raise ValueError(f"cap_add = {more}: no container has these capabilities")
        return self

    @property
    def limits(self) -> _Caps:
        """Its limits, in either of the two forms of a compose file."""
        given = self.deploy.resources.limits
        return _Caps(
            cpus=self.cpus or given.cpus,
            memory=self.mem_limit or given.memory,
            pids=self.pids_limit or given.pids,
        )

    @property
    def is_idle(self) -> bool:
        """Whether its command only keeps a container up."""
        words = [*(self.entrypoint or ()), *(self.command or ())]
        return not words or " ".join(words).replace("/bin/", "").replace("-lc", "-c") in _IDLE


class _Volume(Frozen):
    driver: Literal["local"] = "local"
    name: Any = None
    labels: Any = None


class _Network(Frozen):
    driver: Literal["bridge"] = "bridge"
    internal: bool = False
    name: Any = None
    labels: Any = None
    attachable: Any = None


class _ComposeFile(Frozen):
    services: dict[str, Service] = Field(min_length=1)
    volumes: dict[str, _Volume | None] = {}
    networks: dict[str, _Network | None] = {}


@dataclass(frozen=True)
class Compose:
    """The services of a task."""

    folder: Path
    """Folder of the compose file, where its paths begin."""
    main: Service = field(default_factory=Service)
    """What is asked of the agent's own container."""
    services: dict[str, Service] = field(default_factory=dict[str, Service])
    """The side-cars by name, in an order in which they can be started."""
    problems: tuple[str, ...] = ()
    """Reasons why the file cannot be followed, with file and key."""

    @property
    def names(self) -> tuple[str, ...]:
        """The host names of all services: they share one loopback."""
        found = list(self.services)
        if self.services:
            found.insert(0, MAIN)
        for service in (self.main, *self.services.values()):
            found += [service.hostname] if service.hostname else []
            found += [link.partition(":")[2] or link for link in service.links]
            found += [alias for each in service.networks.values() if each is not None for alias in each.aliases]
        return tuple(dict.fromkeys(found))


def read_compose(folder: Path, place: str, known: Mapping[str, str]) -> Compose:
    """Read the compose file of a task's folder `place`; empty where there is none. `known` are variables' values."""
    file = folder / place / COMPOSE_FILE
    named = f"{place}/{COMPOSE_FILE}"
    if not file.is_file():
        return Compose(folder / place)
    try:
        if not file.resolve().is_relative_to(folder.resolve()) or file.stat().st_size > _MOST_BYTES:
            raise ValueError("it is a link out of the task, or too long")
        values = read_yaml(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        return Compose(folder / place, problems=(f"{named} cannot be read: {str(error).splitlines()[0]:.200}",))
    try:
        return _checked(folder / place, named, _ComposeFile.model_validate(_top(values, known)))
    except Unfilled as error:
        return Compose(folder / place, problems=(f"{named}: {error}",))
    except ValidationError as error:
        problems = [_said(each) for each in error.errors(include_url=False)]
        return Compose(folder / place, problems=tuple(f"{named}: {problem}" for problem in problems))


def _top(values: Any, known: Mapping[str, str]) -> Any:
    if not isinstance(values, dict):
        return values
    table = {key: each for key, each in cast(dict[Any, Any], values).items() if not str(key).startswith("x-")}
    services = table.get("services")
    if isinstance(services, dict):
        named = cast(dict[Any, Any], services).items()
        table["services"] = {str(name): _asking(each) for name, each in named if not _is_optional(each)}
    return filled({key: each for key, each in table.items() if key not in ("version", "name")}, known)


def _is_optional(service: Any) -> bool:
    """Whether a service is one of those that are only started when somebody asks for them."""
    return isinstance(service, dict) and bool(cast(dict[Any, Any], service).get("profiles"))


def _asking(service: Any) -> Any:
    """A service in which a variable without a value asks for the one of that name."""
    if not isinstance(service, dict):
        return service
    table = cast(dict[Any, Any], service)
    given = table.get("environment")
    if isinstance(given, list):
        entries = [str(each) for each in cast(list[Any], given)]
        given = [each if "=" in each else f"{each}=${{{each}}}" for each in entries]
    elif isinstance(given, dict):
        pairs = cast(dict[Any, Any], given).items()
        given = {name: f"${{{name}}}" if each is None else each for name, each in pairs}
    return {**table, "environment": given}


def _said(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    shown = "" if isinstance(problem["input"], dict) else f" = {problem['input']!r:.80}"
    if problem["type"] == "extra_forbidden":
        return f"{key}{shown} is not offered"
    return f"{key}{shown}: {str(problem['msg']).removeprefix('Value error, ')}"


def _checked(folder: Path, named: str, file: _ComposeFile) -> Compose:
    services = dict(file.services)
    main = services.pop(MAIN, Service())
    problems = [f"{named}: {why}" for why in _problems(folder, main, services)]
    try:
        services = {name: services[name] for name in _in_order(services)}
    except ValueError as error:
        problems.append(f"{named}: {error}")
    return Compose(folder, main, services, tuple(problems))


def _problems(folder: Path, main: Service, services: Mapping[str, Service]) -> Iterator[str]:
    if len(services) > MOST_SERVICES:
        yield f"services: {len(services)} beside main, and {MOST_SERVICES} is the most"
    every = {MAIN: main, **services}
    for name, service in every.items():
        where = f"services.{name}"
        if service.build is not None and not (name == MAIN and service.build == BuildSection()):
            yield from _of_build(folder, where, service.build)
        if name == MAIN and service.user:
            yield f"{where}.user = {service.user!r}: the agent's user is named in [agent] of task.toml"
        if name == MAIN and service.image:
            yield f"{where}.image = {service.image!r}: an image is named as docker_image in task.toml"
        if name != MAIN and service.build is None and service.image is None:
            yield f"{where} has neither image nor build"
        for other, need in service.depends_on.items():
            if other not in every:
                yield f"{where}.depends_on: there is no service {other!r}"
            elif need.condition == "service_healthy" and other != MAIN and not _health(every[other]):
                yield f"{where}.depends_on.{other}: service_healthy, and services.{other} has no healthcheck"
        for file in service.env_file:
            if not _inside(folder, file).is_file():
                yield f"{where}.env_file = {file!r}: it is no file beside the compose file"
    yield from _of_volumes(folder, every)
    sets = {frozenset(service.networks) or frozenset({"default"}) for service in every.values()}
    if len(sets) > 1:
        yield "services.*.networks: services that are kept apart by networks are not offered; all share one"


def _of_build(folder: Path, where: str, build: BuildSection) -> Iterator[str]:
    if not _inside(folder, f"{build.context}/{build.dockerfile}").is_file():
        yield f"{where}.build: there is no {build.context}/{build.dockerfile} beside the compose file"


def _of_volumes(folder: Path, services: Mapping[str, Service]) -> Iterator[str]:
    owners: dict[str, str] = {}
    for name, service in services.items():
        for mount in service.volumes:
            where = f"services.{name}.volumes: {mount.source}:{mount.target}"
            if mount.type == "bind" and mount.source != _LOGS and not _inside(folder, mount.source).exists():
                yield f"{where}: only files of the task, below the compose file's folder, are copied in"
            if mount.type == "volume" and mount.source and owners.setdefault(mount.source, name) != name:
                yield f"{where}: a volume that {owners[mount.source]} and {name} share is not offered"


def _inside(folder: Path, path: str) -> Path:
    """A path below the compose file's folder; one that does not exist for a path that leads out."""
    found = (folder / path).resolve()
    return found if found.is_relative_to(folder.resolve()) else folder / "\n"


def _health(service: Service) -> bool:
    return service.healthcheck is not None and bool(service.healthcheck.test) and not service.healthcheck.disable


def _in_order(services: Mapping[str, Service]) -> list[str]:
    """The services' names, each after those that it depends on.

    Raises:
        ValueError: they depend on one another in a circle.
    """
    order: list[str] = []
    left = dict(services)
    while left:
        ready = [name for name, service in left.items() if not (set(service.depends_on) & set(left))]
        if not ready:
            raise ValueError(f"services.*.depends_on: {', '.join(left)} depend on one another in a circle")
        order += ready
        for name in ready:
            del left[name]
    return order
