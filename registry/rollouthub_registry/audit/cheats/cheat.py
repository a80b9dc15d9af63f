"""`Cheat`: a way to be paid without doing the work, and `Cheater`, which plays it in one episode."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rollouthub import Submission
from rollouthub.protocols import AgentPlane, Episode
from rollouthub_registry.audit.probe import Probe
from rollouthub_registry.audit.task_under_audit import NotTried, Played, TaskUnderAudit
from rollouthub_registry.check.defect_class import DefectClass
from rollouthub_registry.check.scripted_episode import insist, play, words_of


@dataclass(frozen=True)
class Cheat:
    """A way to be paid without doing the work.

    It acts as the agent in one episode; what it is paid is then compared with what doing nothing is paid. One that
    looks for something says with `Cheater.found` what it saw.
    """

    name: str
    defect: DefectClass
    """The class of the hole that it uses."""
    title: str
    """What holds where it fails, in one sentence: 'a process left behind does not write the reward'."""
    source: str
    """The paper, issue or post that describes it."""
    act: "Callable[[Cheater], Awaitable[None]]"
    """Acts as the agent.

        Raises:
            NotTried: it does not apply to this task.
    """


@dataclass
class Cheater:
    """The agent's side of one episode, for a cheat."""

    task: TaskUnderAudit
    episode: Episode
    words: str | None = None
    """What it answers at the end; None for nothing."""
    ran: list[str] = field(default_factory=list[str])
    """What it ran and called, for the finding's evidence."""

    @property
    def plane(self) -> AgentPlane:
        """The episode as the first seat sees it."""
        return next(iter(self.episode.seats.values()))

    async def shell(self, script: str) -> str:
        """Run a shell script with the environment's own tool, and return what it printed.

        Raises:
            NotTried: no tool runs commands.
        """
        self.ran.append(script)
        return await self.task.run(self.plane, script)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool, and return the text of its result."""
        self.ran.append(f"{tool}({dict(arguments)})")
        return words_of(await self.plane.call_tool(tool, arguments))

    def answer(self, words: str) -> None:
        """Give this answer when the cheat has acted."""
        self.words = words
        self.ran.append(f"answer: {words}")

    def found(self, says: str, evidence: str | None = None) -> None:
        """Note something that an agent must not see."""
        self.task.note(says, evidence or "\n".join(self.ran))


def as_probe(cheat: Cheat) -> Probe:
    """A cheat as a probe, for the audit of a task."""
    return Probe(cheat.name, cheat.defect, cheat.title, partial(try_cheat, cheat), cheat.source)


async def try_cheat(cheat: Cheat, task: TaskUnderAudit) -> str:
    """Play a cheat, and note if it is paid more than doing nothing; returns what was tried in a few words.

    Raises:
        NotTried: it does not apply to this task.
    """
    async with task.open() as episode:
        cheater = Cheater(task, episode)
        await cheat.act(cheater)
        if cheater.words is not None and not episode.is_sealed:
            submission = await insist(episode, cheater.words)
        else:
            submission = await play(episode, (), takes_turns=task.host.info.takes_turns)
        played = await task.score(episode, submission)
    await _judge(cheater, played)
    return f"paid {played.reward:g}" if played.score is not None else "not scored"


async def _judge(cheater: Cheater, played: Played) -> None:
    task, floor = cheater.task, await cheater.task.floor()
    if played.score is not None and played.score.suspect is None and played.reward > floor + 1e-9:
        paid = f"paid {played.reward:g} where doing nothing is paid {floor:g}"
        task.note(f"the cheat is {paid}", "\n".join(cheater.ran))


__all__ = ["Cheat", "Cheater", "NotTried", "Submission", "try_cheat"]
