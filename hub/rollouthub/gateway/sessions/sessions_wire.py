"""What the control plane of a serving hub carries, for the server and for its client alike.

Everything here is privileged: it travels on a listener of its own, with a credential that no agent holds.
"""

from typing import Literal

from mcp_types import Tool
from pydantic import Field

from rollouthub.frozen import Frozen
from rollouthub.limits import Limits
from rollouthub.messages import Message
from rollouthub.rollout import Fault, Outcome, Stop
from rollouthub.score import Score

EpisodeState = Literal["opening", "open", "closing", "ended"]
"""`open`: the agent's token is good. `closing`: its time is over, and it is being verified. `ended`: on record."""


class EpisodeRequest(Frozen):
    """`POST /v1/episodes`: which task to open, under which rules."""

    environment: str | None = None
    """May be left out where only one is served."""
    task: str | None = None
    """A task's id; without one, the hub deals a task of the split."""
    split: str | None = None
    """The environment's own choice by default."""
    pick: Literal["next", "random"] = "next"
    """How to deal a task: in order, from the first again after the last, or at random."""
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    """The environment's; by default all samples of a task share one that follows from the run's."""
    limits: Limits = Limits()
    """Of this episode; what is unset is as the hub was started with."""
    ttl_seconds: float | None = Field(default=None, gt=0)
    """How long it may stay open; the hub's own bound wins."""
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=200)
    """The same key opens one episode, however often it is sent, also after the hub was started again."""


class SeatTicket(Frozen):
    """An agent's place in an episode: two URLs and a key are all it needs."""

    name: str
    agent_url: str = Field(repr=False)
    """The seat's MCP endpoint."""
    llm_url: str | None = Field(repr=False)
    """Base of the model seam, as OpenAI clients take it; None where the hub has no model."""
    api_key: str = Field(repr=False)
    """The key of the model seam, and `Bearer` of the agent plane."""
    tools: tuple[Tool, ...]
    messages: tuple[Message, ...]
    """The conversation to start from; the task."""


class EpisodeReport(Frozen):
    """`GET /v1/episodes/{id}`: how an episode stands, or ended."""

    id: str
    """As the run's store has it: `hub show DIR ID`."""
    environment: str
    split: str
    task: str
    seed: int
    attempt: int = 0
    state: EpisodeState
    is_practice: bool = False
    opened_at: float = 0.0
    """Seconds since the epoch."""
    expires_at: float | None = None
    turns: int = 0
    output_tokens: int = 0
    outcome: Outcome | None = None
    """Set once it has ended; the rest likewise."""
    stop: Stop | None = None
    score: Score | None = None
    """Only where the outcome is `scored`."""
    answer: str | None = None
    faults: tuple[Fault, ...] = ()


class EpisodeTicket(Frozen):
    """The answer to `POST /v1/episodes`. Of an episode that ended before (its idempotency key came again): no seats."""

    id: str
    environment: str
    split: str
    task: str
    seed: int
    state: EpisodeState
    agent_url: str | None = Field(default=None, repr=False)
    """Of the first seat, as are the next five; most environments have only one."""
    llm_url: str | None = Field(default=None, repr=False)
    api_key: str | None = Field(default=None, repr=False)
    model: str | None = None
    tools: tuple[Tool, ...] = ()
    messages: tuple[Message, ...] = ()
    seats: tuple[SeatTicket, ...] = ()
    expires_at: float | None = None
    """Seconds since the epoch; the hub closes it then."""
    report: EpisodeReport | None = None
    """How it ended, where it has."""


class EpisodePage(Frozen):
    """`GET /v1/episodes`: those that are open, oldest first."""

    episodes: tuple[EpisodeReport, ...]


class EnvironmentCard(Frozen):
    """An environment that is served."""

    name: str
    version: str
    digest: str
    splits: tuple[str, ...]
    split: str
    """Where tasks are dealt from by default."""
    seats: tuple[str, ...]
    tools: tuple[Tool, ...]
    tools_digest: str
    limits: Limits
    """In force."""


class EnvironmentList(Frozen):
    """`GET /v1/environments`."""

    environments: tuple[EnvironmentCard, ...]
