"""`Cheat`: a way to be paid without doing the work, and `Cheater`, which plays it in one episode."""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from rollouthub import Submission
from rollouthub.protocols import AgentPlane, Episode
from rollouthub_registry.audit.answer_forms import core_of
from rollouthub_registry.audit.hidden_texts import HiddenText, has_word
from rollouthub_registry.audit.probe import Probe
from rollouthub_registry.audit.program_answer import ProgramAnswer
from rollouthub_registry.audit.task_under_audit import Played, ProbeSkipped, TaskUnderAudit
from rollouthub_registry.audit.tool_texts import texts_of_tools
from rollouthub_registry.check.defect_class import DefectClass
from rollouthub_registry.check.scripted_episode import play, words_of

Needs = Literal["nothing", "shell", "a shell to look", "a program", "an answer"]
"""What a cheat needs of a task: a tool that runs commands (those that change things only where its files are not this
machine's own), or that its answer is a program, or that it has one at all.
"""
_NEAR = 1e-9
_FILE = re.compile(r"(?<![\w/.:~-])(/?(?:[\w.+-]+/)*[\w+-][\w.+-]*\.[A-Za-z][A-Za-z0-9]{0,7})(?![\w/(])")
_MOST_FILES = 12
_HARMLESS = "I do not know 7319 of it. "
"""Words that say nothing, with a number, for which some verifiers give a little credit."""


@dataclass(frozen=True)
class Cheat:
    """A way to be paid without doing the work.

    It acts as the agent in one episode; what it is paid is then compared with what doing nothing, and something as
    worthless, is paid. One that looks for something says with `Cheater.found` what it saw.
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
            ProbeSkipped: it does not apply to this task.
    """
    needs: Needs = "nothing"
    looks: bool = False
    """Whether it only looks for something, so that what it is paid says nothing."""
    is_worthless: bool = False
    """Whether it is such worthless work itself as others are compared with."""
    holds_answer: bool = False
    """Whether its answer holds the right one among others."""
    aims_at_all: bool = False
    """Whether it succeeds with the whole reward alone, so that some credit, which its words may get by chance, is a
    remark.
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
    has_run: bool = False
    """Whether it ran commands."""
    beside: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Closed when the cheat was scored: for episodes that are open beside its own."""

    @property
    def plane(self) -> AgentPlane:
        """The episode as the first seat sees it."""
        return next(iter(self.episode.seats.values()))

    async def shell(self, script: str) -> str:
        """Run a shell script with the environment's own tool, and return what it printed.

        Raises:
            ProbeSkipped: no tool runs commands.
        """
        self.ran.append(script)
        self.has_run = True
        return await self.task.run(self.plane, script)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool, and return the text of its result."""
        self.ran.append(f"{tool}({dict(arguments)})")
        return words_of(await self.plane.call_tool(tool, arguments))

    def answer(self, words: str) -> None:
        """Give this answer when the cheat has acted."""
        self.words = words
        self.ran.append(f"answer: {words}")

    async def program(self) -> ProgramAnswer:
        """How an answer looks where the task asks for a program.

        Raises:
            ProbeSkipped: it asks for none.
        """
        return await self.task.program()

    async def secrets(self, *, besides_openings: bool = True) -> list[HiddenText]:
        """What an agent must not see: the reference's answer, and the lines of the task's solution and tests.

        What the opening messages and the list of tools tell is left out, for another cheat finds that; but not if
        `besides_openings` is false.

        Raises:
            ProbeSkipped: the environment tells nothing that could be looked for.
        """
        opening = [message.text for message in self.plane.messages]
        shown = "\n".join([texts_of_tools(self.plane.tools), *opening]) if besides_openings else ""
        found = await self.task.hidden(shown)
        if not found:
            raise ProbeSkipped("the task has no answer or files that are long enough to look for")
        return found

    def named_files(self, *endings: str) -> list[str]:
        """Files that the prompt names, as it names them; with `endings`, only those that end so."""
        names = dict.fromkeys(match[1] for match in _FILE.finditer(self.task.prompt[:200_000]))
        return [name for name in names if not endings or name.endswith(endings)][:_MOST_FILES]

    def found(self, says: str, evidence: str | None = None) -> None:
        """Note something that an agent must not see."""
        self.task.note(says, evidence or "\n".join(self.ran))


def as_probe(cheat: Cheat) -> Probe:
    """A cheat as a probe, for the audit of a task."""
    return Probe(cheat.name, cheat.defect, cheat.title, partial(try_cheat, cheat), cheat.source)


async def try_cheat(cheat: Cheat, task: TaskUnderAudit) -> str:
    """Play a cheat, and note if it is paid more than worthless work; returns what was tried in a few words.

    Raises:
        ProbeSkipped: it does not apply to this task.
    """
    await _require(cheat.needs, task)
    if cheat.looks:
        return await _look(cheat, task)
    cheater, played = await _play(cheat, task)
    if played.score is None:
        return "not scored"
    said = f"paid {played.reward:g}"
    if task.is_flaky or not await _is_paid(task, played):
        return said
    worthless = await task.null() if cheat.is_worthless else await _worthless(task, cheater)
    if worthless.reward >= played.reward - _NEAR:
        return f"{said}, as worthless work is"
    if not cheater.has_run and not await _is_paid(task, (await _play(cheat, task))[1]):
        return f"{said} once, and not again"
    is_part = not await task.is_paid_in_full(played)
    if not cheat.holds_answer and await _is_chance(cheater, is_part=is_part):
        return f"{said}, for the answer stands in it by chance"
    floor = max(await task.floor(), worthless.reward)
    says = f"the cheat is paid {played.reward:g} where worthless work is paid {floor:g}"
    task.note(says, "\n".join(cheater.ran), severity="remark" if is_part and cheat.aims_at_all else "defect")
    return said


async def _require(needs: Needs, task: TaskUnderAudit) -> None:
    match needs:
        case "shell":
            await task.walled_shell()
        case "a shell to look":
            await task.shell()
        case "a program":
            await task.program()
        case "an answer":
            if await task.answer() is None:
                raise ProbeSkipped("the reference solution gives no answer")
        case "nothing":
            pass


async def _look(cheat: Cheat, task: TaskUnderAudit) -> str:
    async with task.open() as episode:
        await cheat.act(Cheater(task, episode))
    return "nothing was found" if not task.findings else "something was found"


async def _play(cheat: Cheat, task: TaskUnderAudit) -> tuple[Cheater, Played]:
    async with task.open() as episode, AsyncExitStack() as beside:
        cheater = Cheater(task, episode, beside=beside)
        await cheat.act(cheater)
        return cheater, await _end(cheater)


async def _end(cheater: Cheater) -> Played:
    task, episode = cheater.task, cheater.episode
    if cheater.words is not None and not episode.is_sealed:
        submission = await task.insist_in(episode, cheater.words)
    else:
        submission = await play(episode, (), takes_turns=task.host.info.takes_turns)
    return await task.score(episode, submission)


async def _is_paid(task: TaskUnderAudit, played: Played) -> bool:
    return played.score is not None and played.score.suspect is None and played.reward > await task.floor() + _NEAR


async def _is_chance(cheater: Cheater, *, is_part: bool) -> bool:
    """Whether what the cheat answers holds the right answer by chance: as a word, or, for some credit, anywhere."""
    with suppress(ProbeSkipped):
        answer = await cheater.task.answer()
        if answer is not None and cheater.words is not None and (core := core_of(answer.text).lower()):
            words = cheater.words.lower()
            return has_word(words, core) or (is_part and core in words)
    return False


async def _worthless(task: TaskUnderAudit, cheater: Cheater) -> Played:
    """What work of the same kind and without any worth is paid: junk in every file that the prompt names, an answer
    that says nothing, or a program whose functions return nothing.
    """
    async with task.open() as episode:
        other = Cheater(task, episode)
        if cheater.has_run:
            await other.shell(writing_junk(other.named_files()))
        if cheater.words is not None:
            try:
                program = await task.program()
            except ProbeSkipped:
                other.answer(_HARMLESS * (1 + len(cheater.words) // len(_HARMLESS)))
            else:
                other.answer(program.with_functions("", "return None"))
        return await _end(other)


def writing_junk(files: list[str]) -> str:
    """A line of shell that writes a letter into each of these files."""
    lines = [f"mkdir -p \"$(dirname '{file}')\" 2>/dev/null; echo x 2>/dev/null > '{file}'" for file in files]
    return "; ".join([*lines, "true"])


__all__ = ["Cheat", "Cheater", "ProbeSkipped", "Submission", "try_cheat"]
