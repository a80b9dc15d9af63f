"""Pydantic models of `task.toml`, with the names of the Harbor format.

`[metadata]` may have any content, and purely descriptive keys (`[task]`, `tags` …) may be unknown here. Every other
section has an effect, so an unknown key there is refused by name: if it were ignored, a different task would be run
than its author wrote.
"""

import re
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, field_validator, model_validator

from rollouthub.values import Frozen

NetworkMode = Literal["public", "no-network", "allowlist"]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_SIZES = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}
_STEP_NAME = re.compile(r"[^\W.][^<>:\"/\\|?*\x00-\x1f\x7f]*(?<![. ])")


def _as_user(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


User = Annotated[str, BeforeValidator(_as_user)]
"""A user name, a uid, or `uid:gid`."""


class Phase(Frozen):
    """A phase of a trial, which may have its own network."""

    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[str, ...] | None = None


class Healthcheck(Frozen):
    """A command that must succeed before the agent begins."""

    command: str
    interval_sec: Seconds = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    start_interval_sec: Seconds = 5.0
    retries: int = Field(default=3, ge=1)


class TaskServer(Frozen):
    """`[[environment.mcp_servers]]`: an MCP server whose tools the agent gets."""

    name: str = Field(min_length=1)
    transport: Annotated[
        Literal["stdio", "sse", "streamable-http"],
        BeforeValidator(lambda value: "streamable-http" if value == "http" else value),
    ] = "sse"
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    headers: dict[str, str] = {}

    @model_validator(mode="after")
    def _has_an_address(self) -> "TaskServer":
        if self.transport == "stdio" and (self.command is None or self.headers):
            raise ValueError("transport = 'stdio' wants a command, and no headers")
        if self.transport != "stdio" and self.url is None:
            raise ValueError(f"transport = {self.transport!r} wants a url")
        return self

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of its url; an empty host where there is none."""
        try:
            parts = urlsplit(self.url or "")
            return (parts.hostname or "") if parts.scheme == "http" else "", parts.port or 80
        except ValueError:
            return "", 0


class ContainerSettings(Phase):
    """`[environment]`: settings of the container."""

    build_timeout_sec: Seconds = 600.0
    docker_image: str | None = None
    os: str = "linux"
    cpus: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    memory_mb: int | None = Field(default=None, gt=0)
    storage_mb: int | None = Field(default=None, gt=0)
    gpus: int | None = None
    gpu_types: tuple[str, ...] | None = None
    tpu: dict[str, Any] | None = None
    mcp_servers: tuple[TaskServer, ...] = ()
    env: dict[str, str] = {}
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    workdir: str | None = None
    allow_internet: bool | None = None
    """Old form of `network_mode`."""

    @model_validator(mode="before")
    @classmethod
    def _read_old_sizes(cls, values: Any) -> Any:
        """Convert `memory = "2G"` and `storage = "10G"`, the old forms of `memory_mb` and `storage_mb`."""
        if not isinstance(values, dict):
            return values
        read = dict(cast(dict[str, Any], values))
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if old in read:
                megabytes = _megabytes(old, read.pop(old))
                if read.setdefault(new, megabytes) != megabytes:
                    raise ValueError(f"{old} and {new} say different sizes")
        return read

    @property
    def declared_network(self) -> NetworkMode | None:
        """The declared network mode; None if there is none."""
        if self.network_mode is not None or self.allow_internet is None:
            return self.network_mode
        return "public" if self.allow_internet else "no-network"


class AgentSection(Phase):
    """`[agent]`: the agent's user, time limit and network."""

    timeout_sec: Seconds | None = None
    user: User | None = None


class Collect(Frozen):
    """`[[verifier.collect]]`: a command that runs after the agent and writes an artifact."""

    command: str
    service: str = "main"
    timeout_sec: Seconds = 60.0
    user: User | None = None


class VerifierSection(Phase):
    """`[verifier]`: how the tests are run."""

    timeout_sec: Seconds = 600.0
    env: dict[str, str] = {}
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: ContainerSettings | None = None
    collect: tuple[Collect, ...] = ()

    @model_validator(mode="after")
    def _hold_together(self) -> "VerifierSection":
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError("environment_mode = 'shared' and [verifier.environment] exclude each other")
        return self


class ArtifactEntry(Frozen):
    """A path that is copied from the agent's container to the verifier's."""

    source: str
    destination: str | None = None
    """Where the user's copy goes; it has no effect on the verifier."""
    exclude: tuple[str, ...] = ()
    service: str | None = None

    @field_validator("source")
    @classmethod
    def _stays(cls, source: str) -> str:
        if not source or ".." in source.split("/"):
            raise ValueError(f"{source!r} must be a path without '..'")
        return source


def _as_entry(value: object) -> object:
    return {"source": value} if isinstance(value, str) else value


Artifacts = tuple[Annotated[ArtifactEntry, BeforeValidator(_as_entry)], ...]


class StepSection(Frozen):
    """`[[steps]]`: one step of a multi-step task."""

    name: str
    agent: AgentSection = AgentSection()
    verifier: VerifierSection = VerifierSection()
    min_reward: float | dict[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: Artifacts = ()

    @field_validator("name")
    @classmethod
    def _names_a_folder(cls, name: str) -> str:
        if not _STEP_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no plain folder name")
        return name

    @property
    def gates(self) -> dict[str, float]:
        """Reward name → least value required to play the next step; a bare number is for `reward`."""
        if self.min_reward is None or isinstance(self.min_reward, dict):
            return self.min_reward or {}
        return {"reward": self.min_reward}


class Solution(Frozen):
    """`[solution]`: variables of the reference solution."""

    env: dict[str, str] = {}


class About(Frozen):
    """`[task]`: name, version and authors of the task."""

    name: str | None = None
    version: str | None = None
    description: str = ""
    authors: tuple[Any, ...] = ()
    keywords: tuple[str, ...] = ()


class TaskSettings(Frozen):
    """The content of a `task.toml`."""

    schema_version: str = "1.0"
    """The declared version. It has no effect: unknown keys are refused by name."""
    task: About = About()
    metadata: dict[str, Any] = {}
    agent: AgentSection = AgentSection()
    verifier: VerifierSection = VerifierSection()
    environment: ContainerSettings = ContainerSettings()
    solution: Solution = Solution()
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] = "mean"
    multi_step_reward_mode: Any = None
    """An older key, without effect."""
    steps: tuple[StepSection, ...] = ()
    artifacts: Artifacts = ()

    @model_validator(mode="before")
    @classmethod
    def _read_old_version(cls, values: Any) -> Any:
        if isinstance(values, dict) and "version" in values:
            read = dict(cast(dict[str, Any], values))
            version = read.pop("version")
            read.setdefault("schema_version", version)
            return read
        return cast(Any, values)

    @field_validator("steps")
    @classmethod
    def _have_names_of_their_own(cls, steps: tuple[StepSection, ...]) -> tuple[StepSection, ...]:
        names = [step.name.casefold() for step in steps]
        if len(set(names)) != len(names):
            raise ValueError("two steps have one name")
        return steps


def _megabytes(key: str, size: object) -> int:
    text = str(size).strip().upper()
    factor = _SIZES.get(text[-1:])
    try:
        return int(float(text[:-1]) * factor) if factor is not None else int(text)
    except ValueError:
        raise ValueError(f"{key} = {size!r} is no size such as '2G' or '512M'") from None
