"""Checks that who is named as the player played.

A transcript of the reference under an agent's name has nothing in it that a model's answers leave.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from rollouthub.engine.agent_kind import kind_of
from rollouthub.engine.trainable import PRIVILEGED
from rollouthub.gateway.sessions.external_agent import EXTERNAL_AGENT, PRACTICE
from rollouthub.plugins.entry_points import AGENTS, load_plugin, plugins
from rollouthub.rollout import AgentRef, Rollout
from rollouthub.store import AttemptSummary
from rollouthub.text import plain_name
from rollouthub_registry.receipt.claim import Claim, Problems, counted
from rollouthub_registry.receipt.evidence import asks_model, attempt_name

_PERSON = "human"
_OUTSIDE = (EXTERNAL_AGENT, PRACTICE, "external")
_Kind = Literal["written", "outside", "asking", "other"]
"""What an agent's name says: it plays what is written, or is a person; it is a program outside the hub, which may have
a model of its own; it plays with the run's model alone; or nothing.
"""


class PlayerCheck:
    """Looks for rollouts in which nobody asked the model that is named, and for agents that need one and name none."""

    def __init__(self) -> None:
        self._problems, self._outside = Problems(), Problems()
        self._known: dict[str, _Kind] = {}
        self._seen = self._references = 0

    def look(self, rollout: Rollout, summary: AttemptSummary | None) -> None:
        """Look at one record."""
        self._seen += 1
        agents = _agents(rollout)
        kinds = {seat: self._kind(agent.name) for seat, agent in agents.items()}
        self._references += "written" in kinds.values()
        if rollout.trainable_reason == PRIVILEGED and "written" not in kinds.values():
            self._problems.add(f"{attempt_name(rollout)}: its record says it {PRIVILEGED}, and names another agent")
            return
        for seat, agent in agents.items():
            turns = [turn for turn in rollout.turns if turn.agent == seat]
            model, kind = rollout.model_of(seat), kinds[seat]
            if kind == "written" or any(map(asks_model, turns)):
                continue
            if model is not None:
                name = plain_name(model)
                said = f"{name} is named as the player, and no turn has anything that a model's answer leaves"
                (self._outside if kind == "outside" else self._problems).add(f"{attempt_name(rollout)}: {said}")
            elif kind == "asking":
                said = f"agent {plain_name(agent.name)} plays with a model alone, and none is named"
                self._problems.add(f"{attempt_name(rollout)}: {said}")

    def _kind(self, name: str) -> _Kind:
        if name not in self._known:
            self._known[name] = _kind_of(name)
        return self._known[name]

    def claims(self) -> Iterator[Claim]:
        """What was found."""
        if self._outside:
            said = (
                f"who played in {counted(self._outside.count, 'seat')} of programs outside the hub: the model that is "
                "named was not asked, and what such a program does by itself is not seen"
            )
            yield Claim("outside_players", "not_provable", said, self._seen, tuple(self._outside.examples))
        if self._problems:
            said = f"{counted(self._problems.count, 'seat')} were not played by whom they name"
            yield self._problems.refutes("players", said, self._seen)
        elif self._seen:
            openly = f"; {self._references:,} say openly that they play what is written" if self._references else ""
            attempts = counted(self._seen, "attempt")
            said = f"where a model is named, turns have what a model's answers leave, in {attempts}{openly}"
            yield Claim("players", "consistent", said, self._seen)


def _agents(rollout: Rollout) -> Mapping[str, AgentRef]:
    """Seat → the agent that is named as its player, of the seats that have turns."""
    names = dict.fromkeys(turn.agent for turn in rollout.turns)
    return {seat: rollout.seats[seat].agent if seat in rollout.seats else rollout.agent for seat in names}


def _kind_of(name: str) -> _Kind:
    if name in _OUTSIDE:
        return "outside"
    plugin = plugins(AGENTS).get(name)
    if plugin is None or not plugin.is_shipped:
        return "other"  # a stranger's agent is not loaded for a record's word
    made_by = load_plugin(plugin)
    kind = kind_of(made_by) if isinstance(made_by, type) else None
    if name == _PERSON or kind in ("reference", "sample"):
        return "written"
    if kind in ("exposed", "listening"):
        return "outside"
    return "asking" if getattr(made_by, "needs_model", False) is True else "other"
