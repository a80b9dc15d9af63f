"""The kinds of agents: what each plays, and whether a person can send messages to it."""

from functools import cache
from typing import Literal

from rollouthub.engine.sample import SampleContext
from rollouthub.plugins.entry_points import AGENTS, load_plugin, plugins
from rollouthub.protocols import Agent, ExposedAgent, ListeningAgent, ModelAgent, ReferenceAgent, SampleAgent

AgentKind = Literal["policy", "reference", "sample", "exposed", "listening"]


@cache
def kind_of(kind: type[Agent]) -> AgentKind:
    """The kind of an agent class. Cached per class, because a check against a protocol costs more than a tool call."""
    if issubclass(kind, ReferenceAgent):
        return "reference"
    if issubclass(kind, ExposedAgent):
        return "exposed"
    if issubclass(kind, ListeningAgent):
        return "listening"
    return "sample" if issubclass(kind, SampleAgent) else "policy"


def is_reference(name: str) -> bool:
    """Whether the agent registered under a name plays reference solutions; False if it is not installed here.

    Rollouts of a reference agent have no token ids, so they stay untrainable even where the answer is False.
    """
    plugin = plugins(AGENTS).get(name)
    if plugin is None:
        return False
    made_by = load_plugin(plugin)
    return isinstance(made_by, type) and issubclass(made_by, ReferenceAgent)


def needs_model(agent: Agent) -> bool:
    """Whether an agent cannot play without a model."""
    return isinstance(agent, ModelAgent) and agent.needs_model


def is_loop(agent: Agent) -> bool:
    """Whether an agent does nothing but ask the run's model and make the tool calls that the model requests."""
    return kind_of(type(agent)) == "policy" and needs_model(agent)


def why_no_interventions(context: SampleContext) -> str | None:
    """Why a person cannot send a message to any player of an episode; None if at least one seat can receive it."""
    players = [context.player(seat) for seat in context.host.info.seats]
    reasons = [_why_unheard(player.agent, player.model is not None) for player in players]
    return None if None in reasons else reasons[0]


def _why_unheard(agent: Agent, has_model: bool) -> str | None:
    match kind_of(type(agent)):
        case "exposed" | "listening":
            return f"agent {agent.name} plays from outside the hub, and keeps its conversation to itself"
        case "reference" | "sample":
            return f"agent {agent.name} plays what is written, and asks no model"
        case "policy":
            return None if has_model else f"agent {agent.name} asks no model of this run"
