"""Looks for what was said in another episode of the task in results of tools."""

import secrets

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater, ProbeSkipped
from rollouthub_registry.audit.tool_texts import results_of


async def act(cheater: Cheater) -> None:
    """Leave a mark with every tool of another episode, and look for it in this one, beside and after the other."""
    task = cheater.task
    if task.host.info.takes_turns:
        raise ProbeSkipped("calls may wait for other seats")
    if not cheater.plane.tools:
        raise ProbeSkipped("it has no tools")
    mark = f"mark-{secrets.token_hex(6)}"
    async with task.open() as other:
        await results_of(next(iter(other.seats.values())), mark)
        if await _is_met(cheater, mark, "beside it"):
            return
    await _is_met(cheater, mark, "after it")


async def _is_met(cheater: Cheater, mark: str, when: str) -> bool:
    for tool, _, words in await results_of(cheater.plane):
        if mark in words:
            cheater.found(f"what was said in another episode is in a result of the tool {tool!r} {when}", words)
            return True
    return False


CHEAT = Cheat(
    name="other-words",
    defect="L9",
    title="nothing that is said in one episode is met in another",
    source="https://github.com/hud-evals/hud-python/issues/416",
    act=act,
    looks=True,
)
