"""Does nothing, while the reference solution is played in another episode of the task."""

from rollouthub_registry.audit.cheats.cheat import Cheat, Cheater
from rollouthub_registry.audit.reference_answer import unsubmitted
from rollouthub_registry.check.scripted_episode import play


async def act(cheater: Cheater) -> None:
    """Have it played beside its own, and leave the other episode open until its own is judged."""
    task = cheater.task
    script = unsubmitted(await task.reference())
    other = await cheater.beside.enter_async_context(task.open())
    await play(other, script, takes_turns=task.host.info.takes_turns)
    cheater.ran.append("the reference solution was played in another episode; in this one nothing was done")


CHEAT = Cheat(
    name="other-episodes",
    defect="L9",
    title="what is done in one episode is not paid in another",
    source="https://github.com/hud-evals/hud-python/issues/591",
    act=act,
)
