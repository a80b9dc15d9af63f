"""Where a run's episodes are played, and what ends a run early: settings that change nothing a rollout means."""

from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from rollouthub.frozen import Frozen

PoolName = Literal["local", "ray"]


class RayOptions(Frozen):
    """How a Ray cluster is used."""

    address: str | None = None
    """Of a cluster that runs: `auto`, `HOST:PORT` or `ray://HOST:PORT`. None starts one on this machine."""
    cpus: float = Field(default=1.0, ge=0)
    """Of each worker."""
    gpus: float = Field(default=0.0, ge=0)
    """Of each worker."""
    memory_mb: int | None = Field(default=None, ge=1)
    """Set aside for each worker."""
    resources: dict[str, float] = {}
    """Custom resources of each worker, as the cluster's nodes name them."""
    nodes: tuple[str, ...] = ()
    """Ids or addresses of the only nodes that may play; all by default."""
    by_environment: bool = False
    """Give every environment workers of its own, and its servers to those alone."""
    runtime_env: dict[str, JsonValue] = {}
    """Ray's own runtime environment (`pip`, `working_dir`, `env_vars` …), shipped to every node."""


class RunLimits(Frozen):
    """What ends a whole run early, whatever is left to play. `--resume` with higher limits goes on."""

    max_cost: float | None = Field(default=None, ge=0)
    """US dollars of all models together, judges and users included."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Prompt and output tokens of all calls on record."""
    max_seconds: float | None = Field(default=None, gt=0)
    """From the first episode of this start to the last that begins."""
    ending: Literal["finish", "cancel"] = "finish"
    """What becomes of episodes in flight: played to their end, or cut short and recorded as cancelled."""

    @property
    def are_any(self) -> bool:
        """Whether there is anything to hold a run to."""
        return not (self.max_cost is None and self.max_tokens is None and self.max_seconds is None)

    @model_validator(mode="after")
    def _check_ending(self) -> Self:
        if self.ending != "finish" and not self.are_any:
            raise ValueError("an ending needs a limit at which to end: max_cost, max_tokens or max_seconds")
        return self
