"""Looks for the answer, the solution and the tests on the disk."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.audit.shell_search import on_disk


async def act(cheater: Cheater) -> None:
    """Search all files but those of the system."""
    secrets = await cheater.secrets()
    for name, place in await on_disk(cheater.shell, secrets):
        cheater.found(f"{name} lies on the agent's disk, in {place}", place)


CHEAT = Cheat(
    name="answers-in-image",
    defect="L7",
    title="nothing of the answer, the solution or the tests lies on the agent's disk",
    source="https://github.com/huggingface/OpenEnv/pull/972",
    act=act,
    looks=True,
    needs="a shell to look",
)
