"""The adapter for MARTI: its name, packages, entries and documentation page."""

from collections.abc import Sequence
from types import SimpleNamespace

from rollouthub.rollout import Rollout
from rollouthub.trainers.marti.seat_steps import AgentConfig, result_of


class MartiAdapter:
    """The adapter for MARTI; `page` documents its use."""

    system = "MARTI"
    packages = {}
    tested_with = "a2fe2c7"
    entries = ("rollouthub.trainers.marti_workflow.workflow",)
    page = "docs/trainers/marti.md"

    def convert(self, rollouts: Sequence[Rollout]) -> object:
        """Convert each rollout to the record that a MARTI workflow returns, one step for each turn."""
        return [result_of(rollout, "", "", agents_of(rollout)) for rollout in rollouts]


def agents_of(rollout: Rollout) -> list[AgentConfig]:
    """A MARTI agent configuration for each seat of a rollout, in the order of their first turns."""
    asked = SimpleNamespace(logprobs=1)
    return [{"agent_id": seat, "agent_role": seat, "sampling_params": asked} for seat in rollout.policy_seats]
