"""What an agent plays, and whether anything can be said to it."""

from functools import cache
from typing import Literal

from rollouthub.engine.sample import SampleContext
from rollouthub.protocols import Agent, ExposedAgent, ModelAgent, ReferenceAgent, SampleAgent

Part = Literal["policy", "reference", "sample", "exposed"]


@cache
def part_of(kind: type[Agent]) -> Part:
    """What an agent plays. Looked up once per class: a check against a protocol costs more than a tool call."""
    if issubclass(kind, ReferenceAgent):
        return "reference"
    if issubclass(kind, ExposedAgent):
        return "exposed"
    return "sample" if issubclass(kind, SampleAgent) else "policy"


def needs_model(agent: Agent) -> bool:
    """Whether an agent cannot play without a model."""
    return isinstance(agent, ModelAgent) and agent.needs_model


def is_loop(agent: Agent) -> bool:
    """Whether an agent does nothing but ask the run's model and call the tools it names."""
    return part_of(type(agent)) == "policy" and needs_model(agent)


def why_deaf(cast: SampleContext) -> str | None:
    """Why nothing can be said to those who play; None where something can."""
    name = cast.agent.name
    match part_of(type(cast.agent)):
        case "exposed":
            return f"agent {name} plays from outside the hub, and keeps its conversation to itself"
        case "reference" | "sample":
            return f"agent {name} plays what is written, and asks no model"
        case "policy":
            return f"agent {name} asks no model of this run" if cast.model is None else None
