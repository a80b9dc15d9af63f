"""Model servers that `hub serve model` keeps: where they stand written down, and who finds them there.

A file a model, in a folder that is its user's alone, written by whoever keeps the servers. No key is in it.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from pydantic import ValidationError

from rollouthub.errors import ConfigError
from rollouthub.frozen import Frozen
from rollouthub.models.config import ModelConfig
from rollouthub.models.provider_names import WIRE, split_name

PROVIDER = "hosted_vllm"
"""The provider whose models these servers serve."""
SILENT_SECONDS = 60.0
"""Who keeps the servers writes every few seconds; one who has not for this long is taken to be gone."""

ServerState = Literal["waiting", "starting", "healthy", "unhealthy", "restarting", "failed", "stopping", "stopped"]
"""`waiting` is for a place in the cluster, `starting` the first time, `unhealthy` is alive and does not answer."""


class ServerRow(Frozen):
    """One server of a model, as it stands."""

    number: int
    state: ServerState
    base_url: str | None = None
    """Where it is served, or was last; None before its first start."""
    node: str | None = None
    """The address of the machine it is on."""
    pid: int | None = None
    """Of the server's process, while there is one."""
    restarts: int = 0
    """How often it was started again."""
    since: float = 0.0
    """Unix time at which it came into this state."""
    running: int | None = None
    """Requests being answered; None where the server does not say."""
    waiting: int | None = None
    """Requests in its queue."""
    tokens_per_second: float | None = None
    """Output tokens of late."""
    problem: str | None = None
    """What its last failure was, with its last words."""
    log: str | None = None
    """The file, on its node, that has what it writes."""


class Registration(Frozen):
    """A model that is up, or coming up."""

    model: str
    """The name it is served under."""
    source: str
    """What the server was told to load."""
    cluster: str
    """The address of its Ray cluster."""
    is_ours: bool = False
    """Whether that cluster is there for models alone, on this machine."""
    needs_key: bool = False
    """Whether its servers ask for a key."""
    servers: tuple[ServerRow, ...] = ()
    written: float = 0.0
    """Unix time."""

    @property
    def urls(self) -> tuple[str, ...]:
        """The base URLs of the servers that take calls."""
        return tuple(server.base_url for server in self.servers if server.state == "healthy" and server.base_url)

    @property
    def silent_seconds(self) -> float:
        """How long nobody has written this."""
        return max(0.0, time.time() - self.written)


def registry_folder(variable: Callable[[str], str | None]) -> Path:
    """Where a user's registrations are; `variable` looks a name up in the environment."""
    given = variable("XDG_STATE_HOME") or ""
    home = variable("HOME") or str(Path.home())
    state = Path(given) if given.startswith("/") else Path(home) / ".local" / "state"
    return state / "rollouthub" / "models"


def registration_path(folder: Path, name: str) -> Path:
    """The file of one model."""
    return folder / f"{quote(name, safe='')}.json"


def prepare_folder(folder: Path) -> None:
    """Make the folder, its user's alone.

    Raises:
        ConfigError: it cannot be made, or is somebody else's.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.geteuid():
            raise ConfigError(f"{folder} belongs to another user; set XDG_STATE_HOME to a folder of your own")
        folder.chmod(0o700)
    except OSError as error:
        raise ConfigError(
            f"models cannot be registered in {folder} ({error.strerror}); set XDG_STATE_HOME to a folder of your own"
        ) from error


def write_registration(folder: Path, registration: Registration) -> None:
    """Write a model's file whole, or not at all."""
    path = registration_path(folder, registration.model)
    unfinished = path.with_suffix(f".{os.getpid()}.new")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(registration.model_dump_json())
    unfinished.replace(path)


def remove_registration(folder: Path, name: str) -> None:
    """Let a model be found no more."""
    with suppress(FileNotFoundError):
        registration_path(folder, name).unlink()


def read_registration(path: Path) -> Registration | None:
    """What a file says; None where there is none that this user wrote, or it is another version's."""
    try:
        if path.stat().st_uid != os.geteuid():
            return None
        return Registration.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def registrations(folder: Path) -> list[Registration]:
    """Every model that is registered, by name."""
    found = (read_registration(path) for path in sorted(folder.glob("*.json")))
    return [registration for registration in found if registration is not None]


def find_registered(config: ModelConfig, variable: Callable[[str], str | None]) -> Registration | None:
    """The registration whose servers a model is to be asked at; None where another server is named, or none is up.

    Raises:
        ConfigError: it is registered, and none of its servers takes calls.
    """
    provider, name = split_name(config.name)
    if provider != PROVIDER or config.base_url or config.replicas:
        return None
    if any((variable(each) or "").strip() for each in WIRE[PROVIDER].base_urls):
        return None
    found = read_registration(registration_path(registry_folder(variable), name))
    if found is None:
        return None
    if found.silent_seconds > SILENT_SECONDS:
        raise ConfigError(
            f"{config.name!r} was brought up with `hub serve model`, and its keeper has not been heard of for "
            f"{found.silent_seconds:.0f} s; look with `hub model list`, and clear it with `hub model stop {name}`, "
            "or name a server (--base-url URL)"
        )
    if not found.urls:
        states = ", ".join(f"{server.number} {server.state}" for server in found.servers) or "none started yet"
        raise ConfigError(
            f"{config.name!r} is up with `hub serve model`, but none of its replicas takes calls now ({states}); "
            "wait until `hub model list` shows one healthy, or name a server (--base-url URL)"
        )
    return found


def at_registered(config: ModelConfig, found: Registration) -> ModelConfig:
    """The configuration with the servers' addresses in it: those that take calls first, then those that may soon."""
    later = [server.base_url for server in found.servers if server.state in ("unhealthy", "restarting")]
    first, *others = (*found.urls, *(url for url in later if url))
    return config.model_copy(update={"base_url": first, "replicas": tuple(others)})


def found_servers(configs: Iterable[ModelConfig], variable: Callable[[str], str | None]) -> Iterator[str]:
    """What to tell a user of models that are asked where `hub serve model` keeps them."""
    for config in configs:
        with suppress(ConfigError):  # whoever opens the model says it
            if (found := find_registered(config, variable)) is not None:
                count = len(found.servers)
                yield (
                    f"{config.name} is asked at the {count} servers that `hub serve model` keeps"
                    if count > 1
                    else f"{config.name} is asked at the server that `hub serve model` keeps, {found.urls[0]}"
                )
