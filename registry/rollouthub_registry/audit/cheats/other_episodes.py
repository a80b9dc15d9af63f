"""Looks for the answer, and for what was done, in another episode of the task."""

import secrets

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater, NotTried
from rollouthub_registry.audit.reference_answer import unsubmitted
from rollouthub_registry.audit.tool_texts import results_of
from rollouthub_registry.check.scripted_episode import play


async def act(cheater: Cheater) -> None:
    """Have the reference solution played in an episode beside it, and do nothing in its own."""
    task = cheater.task
    mark = f"mark-{secrets.token_hex(6)}"
    async with task.open() as other:
        plane = next(iter(other.seats.values()))
        if not task.host.info.takes_turns:
            async for _ in results_of(plane, mark):
                pass
        try:
            script = unsubmitted(await task.reference())
        except NotTried:
            script = {}
        if script:
            await play(other, script, takes_turns=task.host.info.takes_turns)
        if not task.host.info.takes_turns:
            async for tool, _, words in results_of(cheater.plane):
                if mark in words:
                    cheater.found(f"what was said in another episode is in a result of the tool {tool!r}", words)
                    break
    cheater.ran.append("the reference solution was played in another episode; in this one nothing was done")


CHEAT = Cheat(
    name="other-episodes",
    defect="L9",
    title="nothing that is done in one episode is met, or paid, in another",
    source="https://github.com/hud-evals/hud-python/issues/591",
    act=act,
)
