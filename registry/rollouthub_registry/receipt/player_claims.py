"""Checks that who is named as the player played.

A transcript of the reference under an agent's name has nothing in it that a model's answers leave.
"""

from collections.abc import Iterator, Mapping

from rollouthub.engine.agent_kind import kind_of
from rollouthub.engine.trainable import PRIVILEGED
from rollouthub.plugins.entry_points import AGENTS, load_plugin, plugins
from rollouthub.rollout import AgentRef, Rollout
from rollouthub.store import AttemptSummary
from rollouthub.text import plain_name
from rollouthub_registry.receipt.claim import Claim, Problems, counted
from rollouthub_registry.receipt.evidence import asks_model, attempt_name

_PERSON = "human"


class PlayerCheck:
    """Looks for rollouts in which nobody asked the model that is named, and for agents that need one and name none."""

    def __init__(self) -> None:
        self._problems = Problems()
        self._known: dict[str, tuple[bool, bool]] = {}
        self._seen = self._open = 0
        self._references = self._others = 0

    def look(self, rollout: Rollout, summary: AttemptSummary | None) -> None:
        """Look at one record."""
        self._seen += 1
        agents = _agents(rollout)
        openly = {seat for seat, agent in agents.items() if self._kind(agent.name)[0]}
        self._references += bool(openly)
        if rollout.trainable_reason == PRIVILEGED and not openly:
            self._problems.add(f"{attempt_name(rollout)}: its record says it {PRIVILEGED}, and names another agent")
            return
        for seat, agent in agents.items():
            turns = [turn for turn in rollout.turns if turn.agent == seat]
            if seat in openly or not turns:
                continue
            model = rollout.model_of(seat)
            asked = any(map(asks_model, turns))
            if model is not None and not asked:
                said = (
                    f"{plain_name(model)} is named as the player, and no turn has anything that a model's answer leaves"
                )
            elif model is None and self._kind(agent.name)[1]:
                said = f"agent {plain_name(agent.name)} plays with a model alone, and none is named"
            else:
                continue
            self._problems.add(f"{attempt_name(rollout)}: {said}")
            return

    def _kind(self, name: str) -> tuple[bool, bool]:
        """Whether an agent says openly that it plays what is written or a person, and whether it needs a model."""
        if name not in self._known:
            self._known[name] = _kind_of(name)
        return self._known[name]

    def claims(self) -> Iterator[Claim]:
        """What was found."""
        if self._problems:
            said = f"{counted(self._problems.count, 'rollout')} were not played by whom they name"
            yield self._problems.refutes("players", said, self._seen)
            return
        if not self._seen:
            return
        openly = f"; {self._references:,} say openly that they play what is written" if self._references else ""
        attempts = counted(self._seen, "attempt")
        said = f"where a model is named, turns have what a model's answers leave, in {attempts}{openly}"
        yield Claim("players", "consistent", said, self._seen)


def _agents(rollout: Rollout) -> Mapping[str, AgentRef]:
    """Seat → the agent that is named as its player, of the seats that have turns."""
    names = dict.fromkeys(turn.agent for turn in rollout.turns)
    return {seat: rollout.seats[seat].agent if seat in rollout.seats else rollout.agent for seat in names}


def _kind_of(name: str) -> tuple[bool, bool]:
    plugin = plugins(AGENTS).get(name)
    if plugin is None or not plugin.is_shipped:
        return False, False  # a stranger's agent may have a model of its own, and is not loaded for a record's word
    made_by = load_plugin(plugin)
    is_written = name == _PERSON or (isinstance(made_by, type) and kind_of(made_by) in ("reference", "sample"))
    return is_written, getattr(made_by, "needs_model", False) is True
