"""The registry of model servers that `hub serve model` runs: one file for each model in a folder that only the user
can read. The process that runs the servers writes the file, which holds no key.
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
from rollouthub.models.config import ModelConfig
from rollouthub.models.provider_names import WIRE, split_name
from rollouthub.models.serving_engine import Engine
from rollouthub.store.atomic_files import replace_file
from rollouthub.values import Frozen

PROVIDERS: dict[Engine, str] = {"vllm": "hosted_vllm", "sglang": "sglang"}
"""Engine → the provider prefix of the models that it serves."""
SILENT_SECONDS = 60.0
"""The process that runs the servers renews its file every few seconds; after this many seconds without it is
considered gone.
"""

ServerState = Literal["waiting", "starting", "healthy", "unhealthy", "restarting", "failed", "stopping", "stopped"]
"""`waiting`: waits for resources in the cluster; `starting`: starts for the first time; `unhealthy`: is alive but
does not answer.
"""


class ServerRow(Frozen):
    """The state of one server of a model."""

    number: int
    state: ServerState
    base_url: str | None = None
    """The server's current or last address; None before its first start."""
    node: str | None = None
    """The address of the machine that runs the server."""
    pid: int | None = None
    """The process id of the server, while it runs."""
    restarts: int = 0
    """How often the server was restarted."""
    since: float = 0.0
    """Unix time at which the server entered this state."""
    running: int | None = None
    """Requests being answered; None if the server does not report it."""
    waiting: int | None = None
    """Requests in the server's queue."""
    tokens_per_second: float | None = None
    """Recent output tokens per second."""
    problem: str | None = None
    """The last failure, with the last lines of the server's log."""
    log: str | None = None
    """Path of the server's log file, on its node."""


class Registration(Frozen):
    """A model whose servers run or are starting."""

    model: str
    """The name under which the model is served."""
    engine: Engine = "vllm"
    """The program that serves it."""
    source: str
    """The model that the server loads, such as a path or a repository name."""
    cluster: str
    """The address of the Ray cluster that runs the servers."""
    is_ours: bool = False
    """Whether the Ray cluster was started only for models, on this machine."""
    needs_key: bool = False
    """Whether the servers require a key."""
    servers: tuple[ServerRow, ...] = ()
    written: float = 0.0
    """Unix time at which the file was written."""

    @property
    def full_name(self) -> str:
        """The model's name for a run: `hosted_vllm/NAME` or `sglang/NAME`."""
        return f"{PROVIDERS[self.engine]}/{self.model}"

    @property
    def urls(self) -> tuple[str, ...]:
        """The base URLs of the servers that are healthy."""
        return tuple(server.base_url for server in self.servers if server.state == "healthy" and server.base_url)

    @property
    def silent_seconds(self) -> float:
        """Seconds since the registration was last renewed."""
        return max(0.0, time.time() - self.written)


def registry_folder(variable: Callable[[str], str | None]) -> Path:
    """The folder of the user's registrations; `variable` looks up an environment variable."""
    given = variable("XDG_STATE_HOME") or ""
    home = variable("HOME") or str(Path.home())
    state = Path(given) if given.startswith("/") else Path(home) / ".local" / "state"
    return state / "rollouthub" / "models"


def registration_path(folder: Path, name: str) -> Path:
    """The path of a model's file."""
    return folder / f"{quote(name, safe='')}.json"


def prepare_folder(folder: Path) -> None:
    """Create the folder, accessible only to this user.

    Raises:
        ConfigError: the folder cannot be created, or belongs to another user.
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
    """Write a model's file atomically."""
    path = registration_path(folder, registration.model)
    replace_file(path, registration.model_dump_json().encode(), is_private=True)


def remove_registration(folder: Path, name: str) -> None:
    """Remove a model's file."""
    with suppress(FileNotFoundError):
        registration_path(folder, name).unlink()


def read_registration(path: Path) -> Registration | None:
    """The registration in a file; None if the file is missing, of another user, or of an incompatible version."""
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
    """The registration that provides a model's servers; None if another server is configured, or the model is not
    registered.

    Raises:
        ConfigError: the model is registered, and none of its servers takes calls, or another engine serves it.
    """
    provider, name = split_name(config.name)
    if provider not in PROVIDERS.values() or config.base_url or config.replicas:
        return None
    if any((variable(each) or "").strip() for each in WIRE[provider].base_urls):
        return None
    found = read_registration(registration_path(registry_folder(variable), name))
    if found is None:
        return None
    if found.full_name != config.name:
        raise ConfigError(
            f"{config.name!r} was brought up with `hub serve model --engine {found.engine}`; "
            f"did you mean {found.full_name!r}? Else name a server (--base-url URL)"
        )
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
    """The configuration with the addresses of the registered servers: healthy ones first, then those that may
    recover.
    """
    later = [server.base_url for server in found.servers if server.state in ("unhealthy", "restarting")]
    first, *others = (*found.urls, *(url for url in later if url))
    return config.model_copy(update={"base_url": first, "replicas": tuple(others)})


def found_servers(configs: Iterable[ModelConfig], variable: Callable[[str], str | None]) -> Iterator[str]:
    """Messages for the user about models that are served by `hub serve model`."""
    for config in configs:
        with suppress(ConfigError):  # whoever opens the model says it
            if (found := find_registered(config, variable)) is not None:
                count = len(found.servers)
                yield (
                    f"{config.name} is asked at the {count} servers that `hub serve model` keeps"
                    if count > 1
                    else f"{config.name} is asked at the server that `hub serve model` keeps, {found.urls[0]}"
                )
