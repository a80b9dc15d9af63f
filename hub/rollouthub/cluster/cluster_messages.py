"""What driver and worker tell each other: one order and one report at a time, each a blob of MessagePack."""

from typing import Literal

import msgspec

Phase = Literal["queued", "setup", "model", "tool", "verify", "close"]


class WorkOrder(msgspec.Struct, frozen=True):
    """One attempt to be played, by names: the worker's own host knows the task."""

    environment: str
    split: str
    task_id: str
    digest: str
    group_id: str
    rollout_id: str
    sample: int
    seed: int
    policy_seed: int | None
    attempt: int
    queued: float

    @property
    def key(self) -> tuple[str, int]:
        """Names the attempt in its run."""
        return self.rollout_id, self.attempt


class AttemptCommand(msgspec.Struct, frozen=True):
    """Something asked of one attempt in flight."""

    rollout_id: str
    what: Literal["cancel", "interrupt", "retune", "tell"]
    limits: bytes = b""
    """JSON of the limits to go on with."""
    text: str = ""
    """What to say to the agent."""


class WorkerOrder(msgspec.Struct, frozen=True):
    """From the driver."""

    works: list[WorkOrder] = []
    concurrency: int = 1
    """Episodes to be played at a time from now on."""
    give_back: bool = False
    """Return what has not begun."""
    cancel: bool = False
    """End what is in flight, too."""
    changes: list[AttemptCommand] = []
    allowances: dict[str, float] = {}
    """Role → US dollars this worker may have spent in all; the policy's role is empty."""
    look: bool = False
    """Also tell how the worker's process stands, for the run's metrics."""
    last: list[str] = []
    """Roles whose allowance will not grow any more."""
    sharing: int = 1
    """Workers among whom the run's limits of requests and tokens are divided."""


class Ended(msgspec.Struct, frozen=True):
    """An attempt is over."""

    rollout_id: str
    attempt: int
    record: bytes
    """The rollout, as JSON."""
    media: dict[str, bytes]


class AttemptState(msgspec.Struct, frozen=True):
    """Where an attempt is."""

    rollout_id: str
    attempt: int
    state: Phase
    turn: int
    output_tokens: int
    cost: float
    model_seconds: float
    tool_seconds: float


class Note(msgspec.Struct, frozen=True):
    """A line of the worker's log."""

    level: int
    logger: str
    text: str


class WorkerReport(msgspec.Struct, frozen=True):
    """From a worker."""

    ended: list[Ended] = []
    states: list[AttemptState] = []
    returned: list[tuple[str, int]] = []
    """Attempts that were not begun, and are the driver's again."""
    notes: list[Note] = []
    spent: dict[str, float] = {}
    """Role → US dollars of the answers so far."""
    cpu_seconds: float = 0.0
    """Of the worker and what it started, since its start."""
    resident_bytes: int = 0
    problem: str = ""
    """What broke the worker itself."""
    figures: bytes = b""
    """How its process stands (`monitor.figures.Snapshot`); empty where nobody asked."""


class Hello(msgspec.Struct, frozen=True):
    """A worker is up, or says why not."""

    pid: int
    node_id: str
    address: str
    hub_version: str = ""
    environments: dict[str, str] = {}
    """Name → digest of the code that plays it."""
    cpu_seconds: float = 0.0
    """What coming up took."""
    problem: str | None = None
    """Why it cannot play."""
    is_usage: bool = False
    """Whether every other worker would say the same."""


encode = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(WorkerOrder).decode
decode_report = msgspec.msgpack.Decoder(WorkerReport).decode
decode_hello = msgspec.msgpack.Decoder(Hello).decode
