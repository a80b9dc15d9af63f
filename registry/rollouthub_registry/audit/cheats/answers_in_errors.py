"""Looks for the answer in what tools say of calls that they refuse."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.audit.tool_texts import results_of


async def act(cheater: Cheater) -> None:
    """Call every tool with arguments that it must refuse, and with odd ones."""
    secrets = await cheater.secrets()
    for ill in (True, False):
        for tool, is_error, words in await results_of(cheater.plane, ill=ill):
            for secret in secrets:
                if is_error and secret.is_in(words):
                    cheater.found(f"{secret.name} is in an error of the tool {tool!r}", words)
                    return


CHEAT = Cheat(
    name="answers-in-errors",
    defect="L4",
    title="no error of a tool tells the answer",
    source="https://github.com/huggingface/OpenEnv/pull/972",
    act=act,
    looks=True,
)
