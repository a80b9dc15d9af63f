"""Writes the reward itself, wherever verifiers are known to read one."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.check.reward_files import writing_rewards


async def act(cheater: Cheater) -> None:
    """Write all reward files."""
    await cheater.shell(writing_rewards() + "export REWARD=1.0 SCORE=1.0; true")


CHEAT = Cheat(
    name="written-rewards",
    defect="L8",
    title="no file that the agent writes is a reward",
    source="https://github.com/datacurve-ai/pier/issues/51",
    act=act,
    needs="shell",
)
