"""Messages between driver and worker: one order and one report at a time, encoded as MessagePack."""

from typing import Literal

import msgspec

Phase = Literal["queued", "setup", "model", "tool", "verify", "close"]


class WorkOrder(msgspec.Struct, frozen=True):
    """One attempt that a worker is to play; the task is named by id, and looked up by the worker's own host."""

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
        """The rollout id and attempt number, which identify the attempt within its run."""
        return self.rollout_id, self.attempt


class AttemptCommand(msgspec.Struct, frozen=True):
    """A command for one attempt in flight."""

    rollout_id: str
    what: Literal["cancel", "interrupt", "retune", "tell"]
    limits: bytes = b""
    """The new limits as JSON, for `retune`."""
    text: str = ""
    """The message to the agent, for `tell`."""


class WorkerOrder(msgspec.Struct, frozen=True):
    """An order from the driver to a worker."""

    works: list[WorkOrder] = []
    concurrency: int = 1
    """The most episodes to play at a time from now on."""
    give_back: bool = False
    """Whether to return attempts that have not begun."""
    cancel: bool = False
    """Whether to cancel attempts in flight."""
    changes: list[AttemptCommand] = []
    allowances: dict[str, float] = {}
    """Role → US dollars that this worker may have spent in total; the policy's role is the empty string."""
    look: bool = False
    """Whether to add figures of the worker's process to the report, for the run's metrics."""
    last: list[str] = []
    """Roles whose allowance will not grow again."""
    sharing: int = 1
    """Number of workers among which the run's limits of requests and tokens are divided."""


class Ended(msgspec.Struct, frozen=True):
    """The result of an attempt that ended."""

    rollout_id: str
    attempt: int
    record: bytes
    """The rollout, as JSON."""
    media: dict[str, bytes]


class AttemptState(msgspec.Struct, frozen=True):
    """The progress of one attempt, as its worker reports it."""

    rollout_id: str
    attempt: int
    state: Phase
    turn: int
    output_tokens: int
    cost: float
    model_seconds: float
    tool_seconds: float


class Note(msgspec.Struct, frozen=True):
    """A record of the worker's log."""

    level: int
    logger: str
    text: str


class WorkerReport(msgspec.Struct, frozen=True):
    """A worker's report to the driver."""

    ended: list[Ended] = []
    states: list[AttemptState] = []
    returned: list[tuple[str, int]] = []
    """Rollout id and attempt number of each attempt that was returned before it began."""
    notes: list[Note] = []
    spent: dict[str, float] = {}
    """Role → US dollars that the model calls have cost so far."""
    cpu_seconds: float = 0.0
    """CPU seconds of the worker and its child processes since its start."""
    resident_bytes: int = 0
    problem: str = ""
    """The error that broke the worker itself; empty if none did."""
    figures: bytes = b""
    """Encoded `ProcessSnapshot` of the worker's process; empty unless the order asked for it."""


class Hello(msgspec.Struct, frozen=True):
    """A worker's first message: its description, or the reason why it cannot play."""

    pid: int
    node_id: str
    address: str
    hub_version: str = ""
    environments: dict[str, str] = {}
    """Environment name → digest of its code on the worker."""
    cpu_seconds: float = 0.0
    """CPU seconds that the worker's start took."""
    problem: str | None = None
    """Why the worker cannot play; None if it can."""
    is_usage: bool = False
    """Whether the problem is a usage error, which every other worker would have, too."""


encode = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(WorkerOrder).decode
decode_report = msgspec.msgpack.Decoder(WorkerReport).decode
decode_hello = msgspec.msgpack.Decoder(Hello).decode
