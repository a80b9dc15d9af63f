"""What batched models of one run share: where their batches are kept, who waits for them, and whether the run does."""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from rollouthub.errors import ConfigError
from rollouthub.models.config import ModelConfig
from rollouthub.models.endpoint import Endpoint

BATCH_CONCURRENCY = 10_000
"""Episodes or lines in flight where models are batched and no other number is given: all that wait share batches."""


BATCHES = "batches"
"""The folder of a run's directory that keeps its batches."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes model calls: a rollout, a group, or a line of a file."""

    name: str
    attempt: int = 0
    is_episode: bool = False
    """Whether it is an episode in flight, which `BatchRun.in_flight` counts."""


CALLER: ContextVar[Caller] = ContextVar("rollouthub_caller")
"""Who makes the calls of this context. By its name a batched call is found again when a run is resumed."""
NAMELESS = Caller("call")


class Tended(Protocol):
    """A queue of batched calls."""

    @property
    def is_settled(self) -> bool:
        """Whether all that waits is at the server, which was asked about it."""
        ...


def _nobody() -> int:
    return 0


@dataclass
class BatchRun:
    """The batches of one run."""

    directory: Path
    """The folder that keeps them."""
    note: Callable[[str], None]
    """Shows a line to the user."""
    put_off: Callable[[], None]
    """Ends the run for now: what waits for a batch is taken up again when the run is resumed."""
    resume_command: str
    """The command that collects what is put off."""
    is_waiting: bool = True
    """Whether the run waits for its batches, or is put off once all that is left is at the server."""
    in_flight: Callable[[], int] = _nobody
    """The number of episodes in flight."""
    waiting: Counter[Caller] = field(default_factory=Counter[Caller])
    """Those who wait for batched calls, with the number of calls."""
    queues: dict[tuple[str, str], Any] = field(default_factory=dict[tuple[str, str], Any])
    """Open queues by model and address; models of one name and address share one."""

    def stop_waiting(self) -> None:
        """Put the run off as soon as nothing but batches is waited for."""
        self.is_waiting = False

    @contextmanager
    def counted(self, caller: Caller) -> Generator[None]:
        """Count a caller among those that wait."""
        self.waiting[caller] += 1
        try:
            yield
        finally:
            self.waiting[caller] -= 1
            if not self.waiting[caller]:
                del self.waiting[caller]

    def put_off_if_idle(self) -> bool:
        """Put the run off if it does not wait, and all that is in flight waits for batches at the server."""
        tended: list[Tended] = list(self.queues.values())
        if self.is_waiting or not self.waiting or not all(queue.is_settled for queue in tended):
            return False
        if sum(caller.is_episode for caller in self.waiting) < self.in_flight():
            return False
        self.note(f"batches are at the server and are not waited for; collect them with: {self.resume_command}")
        self.put_off()
        return True


def check_batched(config: ModelConfig, endpoint: Endpoint | None, run: BatchRun | None) -> None:
    """Refuse a batched model that cannot be batched.

    Raises:
        ConfigError: says why, and what to do.
    """
    if run is None:
        raise ConfigError(
            f"{config.name!r} is batched, which `hub run`, evaluate() and `hub score` can do; leave batch out here"
        )
    if endpoint is None or endpoint.gives_ids or config.lane not in (None, "openai"):
        lane = f" on the {config.lane} lane" if config.lane not in (None, "openai") else ""
        raise ConfigError(
            f"{config.name!r}{lane} has no Batch API, which is OpenAI's (openai/NAME, on the openai lane): leave "
            "--batch out, or say in a file which models are batched (batch = true in [roles.NAME])"
        )
    unfit = {
        "several servers": config.replicas,
        "fallbacks": config.fallbacks,
        "requests_per_minute": config.requests_per_minute,
        "tokens_per_minute": config.tokens_per_minute,
        "a budget": config.budget is not None,
    }
    if given := [name for name, value in unfit.items() if value]:
        raise ConfigError(
            f"{config.name!r} is batched: its calls are sent together, and {', '.join(given)} cannot apply to them; "
            "leave that out (`hub estimate` says what a run may cost)"
        )
