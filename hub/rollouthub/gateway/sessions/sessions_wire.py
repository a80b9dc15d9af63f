"""The request and reply types of a serving hub's control plane, for its server and its client.

All of them are privileged: they are served on a separate listener, with a credential that no agent holds.
"""

from typing import Literal

from mcp_types import Tool
from pydantic import Field

from rollouthub.limits import Limits
from rollouthub.messages import Message
from rollouthub.rollout import Fault, Outcome, Stop
from rollouthub.score import Score
from rollouthub.values import Frozen

EpisodeState = Literal["opening", "open", "closing", "ended"]
"""`open`: the agent's token is valid. `closing`: the agent's time is over, and the episode is being verified.
`ended`: its record is stored.
"""


class EpisodeRequest(Frozen):
    """The body of `POST /v1/episodes`: which task to open, under which rules."""

    environment: str | None = None
    """The environment's name; optional if the hub serves only one."""
    task: str | None = None
    """A task's id; without one, the hub picks a task of the split."""
    split: str | None = None
    """The split of the task; by default the one that the hub serves."""
    pick: Literal["next", "random"] = "next"
    """How to pick a task: in order, starting again after the last, or at random."""
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    """The environment's seed; by default derived from the run's, and the same for all samples of a task."""
    limits: Limits = Limits()
    """Limits of this episode; those left out are the hub's."""
    ttl_seconds: float | None = Field(default=None, gt=0)
    """Seconds that the episode may stay open; the hub's maximum still holds."""
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=200)
    """Requests with the same key open one episode, also after a restart of the hub."""


class SeatTicket(Frozen):
    """An agent's access to a seat: two URLs and a key."""

    name: str
    agent_url: str = Field(repr=False)
    """The seat's MCP endpoint."""
    llm_url: str | None = Field(repr=False)
    """The base URL of the model API, for OpenAI clients; None if the hub has no model."""
    api_key: str = Field(repr=False)
    """The key for the model API, also accepted as `Bearer` token by the agent plane."""
    tools: tuple[Tool, ...]
    messages: tuple[Message, ...]
    """The first messages of the conversation: the task."""


class EpisodeReport(Frozen):
    """The reply of `GET /v1/episodes/{id}`: an episode's state, or how it ended."""

    id: str
    """The rollout's id in the run's store, as for `hub show DIR ID`."""
    environment: str
    split: str
    task: str
    seed: int
    attempt: int = 0
    state: EpisodeState
    is_practice: bool = False
    opened_at: float = 0.0
    """Unix time in seconds."""
    expires_at: float | None = None
    turns: int = 0
    output_tokens: int = 0
    outcome: Outcome | None = None
    """How the episode ended; None until then, as are the following fields."""
    stop: Stop | None = None
    score: Score | None = None
    """The score; only if the outcome is `scored`."""
    answer: str | None = None
    faults: tuple[Fault, ...] = ()


class EpisodeTicket(Frozen):
    """The reply of `POST /v1/episodes`. It has no seats if its idempotency key belongs to an episode that has ended."""

    id: str
    environment: str
    split: str
    task: str
    seed: int
    state: EpisodeState
    agent_url: str | None = Field(default=None, repr=False)
    """The MCP endpoint of the first seat; the next five fields are also of the first seat, usually the only one."""
    llm_url: str | None = Field(default=None, repr=False)
    api_key: str | None = Field(default=None, repr=False)
    model: str | None = None
    tools: tuple[Tool, ...] = ()
    messages: tuple[Message, ...] = ()
    seats: tuple[SeatTicket, ...] = ()
    expires_at: float | None = None
    """Unix time in seconds at which the hub closes the episode."""
    report: EpisodeReport | None = None
    """How the episode ended, if it has."""


class EpisodePage(Frozen):
    """The reply of `GET /v1/episodes`: the episodes that have not ended, oldest first."""

    episodes: tuple[EpisodeReport, ...]


class EnvironmentCard(Frozen):
    """A served environment's description."""

    name: str
    version: str
    digest: str
    splits: tuple[str, ...]
    split: str
    """The split that tasks are picked from by default."""
    seats: tuple[str, ...]
    tools: tuple[Tool, ...]
    tools_digest: str
    limits: Limits
    """The limits of its episodes, unless a request sets its own."""


class EnvironmentList(Frozen):
    """The reply of `GET /v1/environments`."""

    environments: tuple[EnvironmentCard, ...]
