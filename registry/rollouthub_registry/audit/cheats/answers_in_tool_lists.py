"""Looks for the answer in what tools are called, what they say of themselves, and what the agent is told at first."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.audit.tool_texts import texts_of_tools


async def act(cheater: Cheater) -> None:
    """Read the list of tools, and the opening messages."""
    secrets = await cheater.secrets(besides_openings=False)
    tools = texts_of_tools(cheater.plane.tools)
    opening = "\n".join(message.text for message in cheater.plane.messages)
    for secret in secrets:
        if secret.is_in(tools):
            cheater.found(f"{secret.name} is in the list of tools", tools)
        elif secret.is_in(opening):
            cheater.found(f"{secret.name} is in what the agent is told at the start", opening)


CHEAT = Cheat(
    name="answers-in-tool-lists",
    defect="L1",
    title="no list of tools tells the answer",
    source="the project's own",
    act=act,
    looks=True,
)
