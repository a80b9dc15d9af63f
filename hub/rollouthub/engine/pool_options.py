"""Where a run's episodes are played, and what ends a run early. None of these settings changes what a rollout means."""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from rollouthub.errors import ConfigError
from rollouthub.settings import FILE_ONLY, Option, time_option
from rollouthub.values import Frozen

PoolName = Literal["local", "ray"]


def workers_of(option: str, given: str) -> int | str:
    """Read a number of workers, or `auto`.

    Raises:
        ConfigError: the text is neither.
    """
    if given == "auto":
        return given
    if not given.isdecimal() or not int(given):
        raise ConfigError(f"{option} {given!r} is neither a number above 0 nor auto")
    return int(given)


class RayOptions(Frozen):
    """How a run uses a Ray cluster."""

    address: Annotated[str | None, Option("--ray-address", metavar="ADDRESS")] = Field(
        default=None,
        description="A Ray cluster that runs (auto, HOST:PORT, ray://HOST:PORT); else one is started on this machine.",
    )
    cpus: Annotated[float, FILE_ONLY] = Field(default=1.0, ge=0, description="CPUs of each worker.")
    gpus: Annotated[float, FILE_ONLY] = Field(default=0.0, ge=0, description="GPUs of each worker.")
    memory_mb: Annotated[int | None, FILE_ONLY] = Field(
        default=None, ge=1, description="Megabytes of memory set aside for each worker."
    )
    resources: Annotated[dict[str, float], FILE_ONLY] = Field(
        default={}, description="Custom resources of each worker, as the cluster's nodes name them."
    )
    nodes: Annotated[tuple[str, ...], FILE_ONLY] = Field(
        default=(), description="Ids or addresses of the only nodes to use; all by default."
    )
    by_environment: Annotated[bool, FILE_ONLY] = Field(
        default=False, description="Run every environment on workers of its own, which alone use its servers."
    )
    runtime_env: Annotated[dict[str, JsonValue], FILE_ONLY] = Field(
        default={},
        description="Ray's own runtime environment (`pip`, `working_dir`, `env_vars` …), shipped to every node.",
    )


class RunLimits(Frozen):
    """Limits that end a whole run before all its rollouts are played. `--resume` with higher limits continues it."""

    max_cost: Annotated[float | None, Option("--run-cost")] = Field(
        default=None,
        ge=0,
        description="End the run when all its models, judges included, have cost this many US dollars.",
    )
    max_tokens: Annotated[int | None, Option("--run-tokens")] = Field(
        default=None,
        ge=1,
        description="End the run after this many prompt and output tokens of all recorded model calls.",
    )
    max_seconds: Annotated[float | None, time_option("--run-seconds")] = Field(
        default=None, gt=0, description="End the run this many seconds after it was started or resumed."
    )
    ending: Annotated[Literal["finish", "cancel"], Option("--at-limit")] = Field(
        default="finish",
        description="When a limit ends the run, let episodes in flight finish, or record them as cancelled.",
    )

    @property
    def are_any(self) -> bool:
        """Whether any limit is set."""
        return not (self.max_cost is None and self.max_tokens is None and self.max_seconds is None)

    @model_validator(mode="after")
    def _check_ending(self) -> Self:
        if self.ending != "finish" and not self.are_any:
            raise ValueError("an ending needs a limit at which to end: max_cost, max_tokens or max_seconds")
        return self
