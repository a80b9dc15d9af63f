"""What the hub offers MARTI."""

from collections.abc import Sequence
from types import SimpleNamespace

from rollouthub.rollout import Rollout
from rollouthub.trainers.marti.seat_steps import AgentConfig, result_of


class MartiAdapter:
    """MARTI: see its page."""

    system = "MARTI"
    packages = {}
    tested_with = "a2fe2c7"
    entries = ("rollouthub.trainers.marti_workflow.workflow",)
    page = "docs/trainers/marti.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """What a workflow returns for each rollout, a step for each turn."""
        return [result_of(rollout, "", "", agents_of(rollout)) for rollout in rollouts]


def agents_of(rollout: Rollout) -> list[AgentConfig]:
    """An agent for each seat, in the order they first spoke."""
    seats, asked = dict.fromkeys(turn.agent for turn in rollout.turns), SimpleNamespace(logprobs=1)
    return [{"agent_id": seat, "agent_role": seat, "sampling_params": asked} for seat in seats]
