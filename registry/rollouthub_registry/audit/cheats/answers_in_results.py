"""Looks for the answer in results of tools that the reference solution does without."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.audit.tool_texts import results_of


async def act(cheater: Cheater) -> None:
    """Call every tool with arguments that fit its schema."""
    secrets = await cheater.secrets()
    for tool, is_error, words in await results_of(cheater.plane):
        for secret in secrets:
            if not is_error and secret.is_in(words):
                cheater.found(f"{secret.name} is in a result of the tool {tool!r}", words)
                return


CHEAT = Cheat(
    name="answers-in-results",
    defect="L4",
    title="no tool tells the answer by the way",
    source="https://github.com/huggingface/OpenEnv/pull/611",
    act=act,
    looks=True,
)
