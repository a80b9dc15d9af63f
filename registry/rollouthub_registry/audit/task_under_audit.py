"""`TaskUnderAudit`: one task, its episodes as the probes play them, and what they note."""

import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from mcp_types import Tool
from pydantic import JsonValue

from rollouthub import Deadlines, Message, Score, Submission, VerifierError
from rollouthub.errors import NotOffered
from rollouthub.protocols import AgentPlane, EnvironmentHost, Episode, TaskCard
from rollouthub.task import AuditFacts
from rollouthub.text import plain
from rollouthub_registry.audit.hidden_texts import HiddenText, hidden_texts
from rollouthub_registry.audit.program_answer import ProgramAnswer, program_answer
from rollouthub_registry.audit.reference_answer import Answer, SeatScript, answer_of, unsubmitted
from rollouthub_registry.audit.set_facts import SetFacts
from rollouthub_registry.audit.task_finding import MOST_TEXT, Severity, TaskFinding
from rollouthub_registry.audit.verifier_memory import measured_memory
from rollouthub_registry.check.defect_class import DefectClass
from rollouthub_registry.check.scripted_episode import Script, insist, play, words_of
from rollouthub_registry.check.shell_tool import Shell, shell_among

_NEAR = 1e-9


class ProbeSkipped(Exception):
    """The probe does not apply to this task, and why."""


@dataclass(frozen=True)
class Played:
    """An episode that a probe played, and its score."""

    score: Score | None
    error: str | None
    """Why there is no score."""
    state: JsonValue
    """The environment's snapshot before it was scored; None if it takes none."""
    verify_seconds: float
    faults: tuple[str, ...] = ()

    @property
    def reward(self) -> float:
        """The reward; minus infinity if there is none."""
        return float("-inf") if self.score is None else self.score.reward


@dataclass
class TaskUnderAudit:
    """One task of a hosted environment."""

    host: EnvironmentHost
    card: TaskCard
    seed: int
    """The seed of its episodes."""
    deadlines: Deadlines
    facts: SetFacts = field(default_factory=SetFacts)
    repeats: int = 3
    """Number of times that the reference solution is played."""
    findings: list[TaskFinding] = field(default_factory=list[TaskFinding])
    """What the present probe noted."""
    episodes: int = 0
    verify_seconds: list[float] = field(default_factory=list[float])
    verify_bytes: int = 0
    """The most memory that the verifier took."""
    _reference: SeatScript | None = None
    _facts_of_task: AuditFacts = field(default_factory=AuditFacts)
    _cache: dict[str, Played] = field(default_factory=dict[str, Played])
    is_flaky: bool = False
    """Whether the same solution was paid differently: what is paid then says nothing of how it was earned."""
    _shell: Shell | None = None
    _is_shell_known: bool = False
    _has_walls: bool = False
    _shown: str | None = None
    _has_sandbox: bool = False
    _present: "tuple[str, DefectClass, str | None]" = ("", "tasks", None)

    # --- the task ---------------------------------------------------------------------------------------------------

    @property
    def prompt(self) -> str:
        """All that the agent is told at the start, as text."""
        public = self.card.public
        words = public.prompt if isinstance(public.prompt, str) else "\n".join(each.text for each in public.prompt)
        return f"{public.system}\n{words}" if public.system else words

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The environment's tools."""
        return self.host.info.tools

    @property
    def opens_sandboxes(self) -> bool:
        """Whether an episode costs a sandbox, so that probes try less."""
        return self._has_sandbox

    async def reference(self) -> SeatScript:
        """The reference solution by seat.

        Raises:
            ProbeSkipped: there is none.
        """
        if self._reference is None:
            async with self.open() as episode:
                self._reference = {seat: tuple(await episode.reference(seat)) for seat in episode.seats}
                self._facts_of_task = await episode.audit_facts()
        if not any(self._reference.values()):
            raise ProbeSkipped("the task has no reference solution")
        return self._reference

    async def answer(self) -> Answer | None:
        """Where the reference solution gives its answer; None if it gives none."""
        return answer_of(await self.reference())

    async def declared_floor(self) -> float:
        """What doing nothing may earn, as the environment declares."""
        if self._reference is None:
            with suppress(ProbeSkipped):
                await self.reference()
        return self._facts_of_task.null_reward

    async def files(self) -> Mapping[str, str]:
        """The texts of the task's own files by path; empty where the environment tells none."""
        await self.declared_floor()
        return self._facts_of_task.files

    async def program(self) -> ProgramAnswer:
        """How an answer looks where the task asks for a program.

        Raises:
            ProbeSkipped: it asks for none.
        """
        answer = None
        with suppress(ProbeSkipped):
            answer = await self.answer()
        found = program_answer(None if answer is None else answer.text, self.prompt)
        if found is None:
            raise ProbeSkipped("the answer is no program")
        return found

    async def hidden(self, shown: str = "") -> list[HiddenText]:
        """What an agent must not see, without what the prompt, `shown`, and results of tools in the reference
        solution tell it.
        """
        answer = None
        with suppress(ProbeSkipped):
            answer = await self.answer()
        found = hidden_texts(None if answer is None else answer.text, await self.files(), f"{self.prompt}\n{shown}")
        work = await self._shown_by_reference() if found else ""
        return [text for text in found if not text.is_in(work)]

    async def _shown_by_reference(self) -> str:
        """What the tools say while the reference solution is played: to find that is the work itself."""
        if self._shown is None:
            self._shown = ""
            with suppress(ProbeSkipped):
                script = unsubmitted(await self.reference())
                if any(message.tool_requests for messages in script.values() for message in messages):
                    async with self.open() as episode:
                        played = await play(episode, script, takes_turns=self.host.info.takes_turns)
                    self._shown = "\n".join(said.text for said in played.transcript if said.role == "tool")
        return self._shown

    def require_steady(self) -> None:
        """Refuse to judge by what is paid where the same is paid differently.

        Raises:
            ProbeSkipped: it is.
        """
        if self.is_flaky:
            raise ProbeSkipped("the same solution is paid differently each time")

    # --- playing ----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Episode]:
        """Open an episode of the task, with the seed that it has in a run."""
        self.episodes += 1
        async with self.host.open(self.card, seed=self.seed, deadlines=self.deadlines) as episode:
            yield episode

    async def play(self, script: Script, *, submit: str | None = None) -> Played:
        """Play a script in a new episode, and score it."""
        async with self.open() as episode:
            submission = await play(episode, script, submit=submit, takes_turns=self.host.info.takes_turns)
            return await self.score(episode, submission)

    async def insist(self, words: str) -> Played:
        """Answer with the same words whatever is asked, and score that."""
        async with self.open() as episode:
            return await self.score(episode, await self.insist_in(episode, words))

    async def insist_in(self, episode: Episode, words: str) -> Submission:
        """Answer with the same words in an open episode; where seats take turns, the others leave, for nobody plays
        them.
        """
        if self.host.info.takes_turns:
            for other in list(episode.seats)[1:]:
                await episode.leave(other)
        return await insist(episode, words)

    async def score(self, episode: Episode, submission: Submission) -> Played:
        """Score an open episode."""
        if not self.host.info.scores_samples:
            raise ProbeSkipped("the environment scores all samples of a task together")
        try:
            state = await episode.snapshot()
        except NotOffered:
            state = None
        faults = tuple(plain(f"{fault.type}: {fault.message}", MOST_TEXT) for fault in episode.faults)
        began = time.monotonic()
        score: Score | None = None
        error: str | None = None
        async with measured_memory() as memory:
            try:
                score = await episode.conclude(submission)
                if score is None:
                    error = "the environment broke" + (f": {faults[0]}" if faults else "")
            except VerifierError as problem:
                error = str(problem)
        seconds = time.monotonic() - began
        self.verify_bytes = max(self.verify_bytes, memory.peak_bytes)
        self.verify_seconds.append(seconds)
        self._has_sandbox |= bool(episode.sandboxes)
        return Played(score, error, state, seconds, faults)

    async def oracle(self) -> Played:
        """The reference solution, played once.

        Raises:
            ProbeSkipped: there is none.
        """
        if "oracle" not in self._cache:
            self._cache["oracle"] = await self.play(await self.reference())
        return self._cache["oracle"]

    @property
    def oracle_reward(self) -> float | None:
        """What the reference solution was paid; None if it was not played or not scored."""
        played = self._cache.get("oracle")
        return None if played is None or played.score is None else played.score.reward

    async def null(self) -> Played:
        """An episode in which nothing is done."""
        if "null" not in self._cache:
            self._cache["null"] = await self.play(())
        return self._cache["null"]

    async def floor(self) -> float:
        """What doing nothing earns: as declared, or as it was seen if that is more."""
        return max(await self.declared_floor(), (await self.null()).reward)

    async def is_paid_in_full(self, played: Played) -> bool:
        """Whether an episode was paid as much as the reference solution, or passed as it did."""
        if played.score is None:
            return False
        try:
            best = await self.oracle()
        except ProbeSkipped:
            best = None
        if best is None or best.score is None:
            return played.score.passed if played.score.passed is not None else played.score.reward >= 1 - _NEAR
        if best.score.passed and played.score.passed is not None:
            return played.score.passed
        return played.score.reward >= best.score.reward - _NEAR and best.score.reward > await self.floor()

    # --- its tool that runs commands --------------------------------------------------------------------------------

    async def shell(self) -> Shell:
        """The tool that runs commands.

        Raises:
            ProbeSkipped: there is none.
        """
        if not self._is_shell_known:
            async with self.open() as episode:
                plane = next(iter(episode.seats.values()))

                async def say(name: str, arguments: Mapping[str, Any]) -> str:
                    return words_of(await plane.call_tool(name, arguments))

                self._shell = await shell_among(plane.tools, say)
                if self._shell is not None:
                    self._has_walls = await self._is_apart(plane, self._shell)
            self._is_shell_known = True
        if self._shell is None:
            raise ProbeSkipped("no tool runs commands")
        return self._shell

    async def walled_shell(self) -> Shell:
        """The tool that runs commands, where these cannot change this machine.

        Raises:
            ProbeSkipped: there is none, or its commands see this machine's files.
        """
        shell = await self.shell()
        if not self._has_walls:
            raise ProbeSkipped("the tool runs commands among this machine's own files")
        return shell

    @staticmethod
    async def _is_apart(plane: AgentPlane, shell: Shell) -> bool:
        with tempfile.NamedTemporaryFile(prefix="rollouthub-audit-") as file:
            script = f"[ -e '{file.name}' ] && echo se''en; echo look''ed"
            said = words_of(await plane.call_tool(shell.tool.name, shell.arguments(script)))
        return "looked" in said and "seen" not in said

    async def run(self, plane: AgentPlane, script: str) -> str:
        """Run a shell script as the agent, and return what it printed.

        Raises:
            ProbeSkipped: no tool runs commands.
        """
        shell = await self.shell()
        return words_of(await plane.call_tool(shell.tool.name, shell.arguments(script)))

    # --- noting -----------------------------------------------------------------------------------------------------

    def begin(self, probe: str, defect: DefectClass, source: str | None = None) -> None:
        """Begin a probe: what is noted from now on is its finding."""
        self.findings, self._present = [], (probe, defect, source)

    def note(
        self,
        says: str,
        evidence: str | None = None,
        *,
        severity: Severity = "defect",
        defect: DefectClass | None = None,
    ) -> None:
        """Note something wrong with the task."""
        probe, usual, source = self._present
        shown = None if evidence is None else plain(evidence, MOST_TEXT)
        found = TaskFinding(
            probe=probe,
            defect=defect or usual,
            severity=severity,
            says=plain(says, MOST_TEXT),
            evidence=shown,
            source=source,
        )
        self.findings.append(found)


def as_text(messages: tuple[Message, ...]) -> str:
    """The words of a script, for a finding's evidence."""
    lines: list[str] = []
    for message in messages:
        lines += [message.text] if message.text.strip() else []
        lines += [f"{request.name}({request.arguments})" for request in message.tool_requests]
    return "\n".join(lines)
