"""One episode of a hosted environment: calls its tools, and seals, verifies and closes it once."""

import logging
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Any

import anyio
from mcp_types import CallToolResult
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from rollouthub.environment import Environment
from rollouthub.errors import (
    EpisodeError,
    NotOffered,
    SandboxError,
    SandboxOverrun,
    TaskError,
    ToolError,
    VerifierError,
)
from rollouthub.event_loop import background_tasks, call_hook
from rollouthub.generation import Model
from rollouthub.hosting.local.artifact_collector import collect_artifacts, has_artifacts
from rollouthub.hosting.local.calls_in_flight import CallsInFlight
from rollouthub.hosting.local.environment_faults import hook_faults, verifier_faults, world_fault
from rollouthub.hosting.local.episode_sandboxes import NotedSandboxes, own_sandbox
from rollouthub.hosting.local.hosted_seat import HostedSeat
from rollouthub.hosting.local.returned_score import checked_score, forfeited, score_from
from rollouthub.hosting.local.role_models import recorded
from rollouthub.hosting.local.seat_turns import TURNS_TOLD, SeatTurns
from rollouthub.hosting.local.shell_access import WaysIn, ways_into
from rollouthub.hosting.local.shown_media import ShownMedia
from rollouthub.hosting.local.toolbox import GET_TASK, LISTEN, REPLY, SUBMIT, AnyTool, Toolbox, has_turns
from rollouthub.hosting.local.world_seal import WorldSeal
from rollouthub.hosting.wall.inside import describe_behind
from rollouthub.limits import Deadlines, charged
from rollouthub.messages import Message, assistant, user
from rollouthub.rollout import Fault, Phase
from rollouthub.sandbox import Sandbox, SandboxProvider, SandboxRef
from rollouthub.score import KeptArtifact, ModelCall, Score, Submission, VerifierRef
from rollouthub.task import AuditFacts
from rollouthub.tools import CALLING_SEAT, as_result, ended, shown_result, text_result

logger = logging.getLogger(__name__)

CLOSED = "The episode is closed."
BROKEN = "The tool failed because of a fault in the environment, not in your call."
_NO_SANDBOX = "this environment has no sandbox"
_NONE_KEPT = "this environment keeps no sandbox; it opens one for a moment at a time"
_SEALED = "the agent's time is over, and what its sandbox holds is being scored"


class HostedEpisode:
    """One attempt at one task: open, then sealed, then closed. Every step is idempotent."""

    def __init__(
        self,
        environment: Environment[Any],
        toolbox: Toolbox,
        verifier: VerifierRef,
        deadlines: Deadlines,
        models: Mapping[str, Model] | None = None,
        sandboxes: SandboxProvider | None = None,
    ) -> None:
        self.id = secrets.token_hex(16)
        self.environment = environment
        self.answer: str | None = None
        self.faults: list[Fault] = []
        self.role_calls: list[ModelCall] = []
        self.sandboxes: list[SandboxRef] = []
        self.artifacts: Sequence[KeptArtifact] = ()
        self.missing_artifacts: Sequence[str] = ()
        self._sandbox: Sandbox | None = None
        self._media = ShownMedia()
        if sandboxes is not None:
            environment.sandboxes = NotedSandboxes(sandboxes, self.sandboxes)
        if models:
            environment.models = recorded(models, self.role_calls)
        self.seats: dict[str, HostedSeat] = {}
        self._toolbox, self._verifier, self._deadlines = toolbox, verifier, deadlines
        self._calls = CallsInFlight()
        self._sealed = self._closed = False
        self._verdict: Score | VerifierError | SandboxError | None = None
        self._verifying: anyio.Lock | None = None
        self._world_seal = WorldSeal(environment, deadlines.close)
        self._turns: SeatTurns | None = None
        """The turns of agents that wait for them with tools; None if seats take no turns."""

    @property
    def is_sealed(self) -> bool:
        """Whether the episode is sealed."""
        return self._sealed

    def world(self) -> AbstractAsyncContextManager[None]:
        """A context for the whole episode: opens its sandbox and the environment's `lifespan`.

        Raises:
            SandboxError: the sandbox could not be opened.
            TaskError: the environment's code failed.
        """
        if has_turns(type(self.environment)):
            return self._world_with_turns()
        return self._world()

    @asynccontextmanager
    async def _world_in_sandbox(self) -> AsyncGenerator[None]:
        async with own_sandbox(self.environment) as self._sandbox, self.environment.lifespan():
            yield

    def _world(self) -> AbstractAsyncContextManager[None]:
        if _has_own(type(self.environment), "sandbox_spec"):
            return self._world_in_sandbox()
        return self.environment.lifespan()

    @asynccontextmanager
    async def _world_with_turns(self) -> AsyncGenerator[None]:
        async with background_tasks() as tasks, self._world():
            self._turns = SeatTurns(self.reply, tasks, self._deadlines.tool_call)
            yield

    async def setup(self, state: JsonValue) -> None:
        """Run the environment's setup and open its seats.

        Raises:
            TaskError: setup failed, or took longer than its deadline.
            NotOffered: a state was given, and the environment restores none.
        """
        seconds = self._deadlines.setup
        environment = self.environment
        try:
            if state is not None or _has_own(type(environment), "setup"):
                with anyio.move_on_after(seconds) as scope, charged(scope):
                    await call_hook(environment.setup)
                    if state is not None:
                        # A copy, so that two episodes restored from one snapshot share nothing.
                        await environment.restore(_detached(state))
                if scope.cancelled_caught:
                    raise TaskError(f"setup of task {environment.task.id!r} was not done after {seconds:g} s")
            self._toolbox = self._toolbox.now(environment)
            for name in environment.seats:
                messages = await self._media.show(tuple(environment.messages(name)))
                self.seats[name] = HostedSeat(
                    self, name, messages, self._toolbox.definitions(name), self._toolbox.of_task
                )
        except (EpisodeError, NotOffered):
            raise
        except Exception as error:
            raise TaskError(f"setup of task {environment.task.id!r} raised {describe_behind(error)}") from error

    async def call_tool(self, seat: str, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool: arguments are checked strictly, the call has a deadline, and the seal cancels it."""
        if self._sealed:
            return text_result(CLOSED, is_error=True)
        try:
            spec = self._toolbox.find(seat, name)
            parsed = spec.parse(dict(arguments))
            if name == SUBMIT:
                return await self._submit(parsed["answer"])
            if name == GET_TASK:
                notice = () if self._turns is None else (user(TURNS_TOLD),)
                result = shown_result((*self.seats[seat].messages, *notice))
            elif name in (REPLY, LISTEN):
                result = await self._converse(seat, name, parsed)
            else:
                if self._turns is not None:
                    self._turns.need_turn(seat)
                result = await self._call(seat, name, spec, parsed)
                self._media.returned(result)
                if self.environment.is_over and not self._sealed:
                    await self.seal()
                    return ended(result)
        except ToolError as error:
            result = text_result(str(error), is_error=True)
        except Exception as error:
            logger.exception("tool %r of task %r failed", name, self.environment.task.id)
            self.record_fault(error, "agent")
            result = text_result(BROKEN, is_error=True)
            if self._sandbox is not None and not self._sandbox.is_alive:
                self._sealed = True  # nothing the agent could still do would be real
        # Whatever a call in flight came to after the seal (a result, an error, a fault) is not the agent's to read.
        return text_result(CLOSED, is_error=True) if self._sealed else result

    async def _converse(self, seat: str, name: str, arguments: dict[str, Any]) -> CallToolResult:
        if self._turns is None:
            said = await self.reply(seat, (assistant(arguments["text"]),))
            return text_result("The conversation is over.") if said is None else shown_result(said)
        return await (self._turns.listen(seat) if name == LISTEN else self._turns.speak(seat, arguments["text"]))

    async def _call(self, seat: str, name: str, spec: AnyTool, arguments: dict[str, Any]) -> CallToolResult:
        seconds = self._deadlines.tool_call
        if len(self.seats) > 1:
            CALLING_SEAT.set(seat)
        with self._calls.cancellable(seconds):
            return as_result(await spec.call(self.environment, arguments))
        return text_result(f"{name} was stopped after {seconds:g} seconds.", is_error=True)

    async def _submit(self, answer: str) -> CallToolResult:
        self.answer = answer
        await self.seal()
        return text_result("Submitted.")

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The environment's next user messages; None if the conversation is over or the episode sealed.

        Raises:
            TaskError: the environment's code failed or was too slow.
        """
        if self._sealed or not _has_own(type(self.environment), "reply"):
            return None
        waits = self.environment.takes_turns
        if self._turns is not None:
            self._turns.begin(seat)
        seconds = self._deadlines.agent if waits else self._deadlines.tool_call
        try:
            with hook_faults("reply"), self._calls.cancellable(seconds):
                said = await call_hook(self.environment.reply, seat, messages)
                said = None if said is None else await self._media.show(said)
                self._offer_tools()
                if said and not messages:  # before its first turn: whoever reads the task reads this, too
                    self.seats[seat].messages += tuple(said)
                return None if self._sealed else said
        except SandboxOverrun as error:
            self.record_fault(error, "agent")
            raise
        if self._sealed:
            return None
        raise TaskError(f"the environment's user gave no reply within {seconds:g} s")

    def _offer_tools(self) -> None:
        """Update the seats' tools with those that the task has now."""
        toolbox = self._toolbox.now(self.environment)
        if toolbox is not self._toolbox:
            self._toolbox = toolbox
            for name, seat in self.seats.items():
                seat.tools, seat.task_tools = toolbox.definitions(name), toolbox.of_task

    async def leave(self, seat: str) -> None:
        """Tell the environment that a seat's player is done, if its seats take turns."""
        if self._sealed or not self.environment.takes_turns:
            return
        try:
            self.environment.left(seat)
        except Exception as error:
            logger.exception("task %r failed when seat %r left", self.environment.task.id, seat)
            self.record_fault(error, "agent")

    async def reference(self, seat: str | None = None) -> Sequence[Message]:
        """Privileged: the reference solution for a seat, by default the first; empty if there is none.

        Raises:
            TaskError: the environment's code failed.
        """
        with hook_faults("reference"):
            try:
                return self.environment.reference_of(seat or self.environment.seats[0])
            except NotOffered as error:
                raise TaskError(str(error), retryable=False) from error

    async def audit_facts(self) -> AuditFacts:
        """Privileged: what an audit must know of the task.

        Raises:
            TaskError: the environment's code failed.
        """
        with hook_faults("audited_files"):
            environment = self.environment
            return AuditFacts(null_reward=environment.null_reward(), files=dict(environment.audited_files()))

    def media(self, digest: str) -> bytes | None:
        """Privileged: the bytes of media in its messages or model calls; None for any other digest."""
        judged = self._verdict.judge_calls if isinstance(self._verdict, Score) else ()
        return self._media.find(digest, (*self.role_calls, *judged))

    def with_media(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Messages received from a client, with the bytes of media that this episode has shown."""
        return self._media.given_back(messages)

    async def snapshot(self) -> JsonValue:
        """Privileged: the environment's state as JSON, a copy that shares nothing with the environment."""
        return _detached(await call_hook(self.environment.snapshot))

    async def ways_in(self) -> WaysIn:
        """How to open a shell in the episode's own sandbox; further sandboxes, such as a verifier's, are not offered.

        None once the episode is sealed: the sandbox's content then decides the score.
        """
        if self._sandbox is None:
            return WaysIn(why_not=_NO_SANDBOX if self.environment.sandboxes is None else _NONE_KEPT)
        return WaysIn(why_not=_SEALED) if self._sealed else ways_into(self._sandbox)

    async def seal(self) -> None:
        """Revoke the agent's access and cancel its calls in flight; returns when their clean-up is done."""
        self._sealed = True
        is_ignored = not await self._calls.cancel(self._deadlines.close)
        if self._sandbox is not None or _has_own(type(self.environment), "seal"):
            await self._world_seal.apply(self._sandbox, self.record_fault, stops_sandbox=not self._closed)
        if is_ignored and not any(fault.boundary == "agent" for fault in self.faults):  # which keeps calls from ending
            self.record_fault(TaskError("a tool call ignored its cancellation at the seal"), "agent")

    async def verify(self, submission: Submission) -> Score:
        """Seal and score; later calls return the first verdict.

        Raises:
            VerifierError: the verifier failed, or returned something that is not a score.
            SandboxError: a sandbox broke under it.
        """
        await self.seal()
        self._verifying = self._verifying or anyio.Lock(fast_acquire=True)  # else a busy loop counts as verifying
        async with self._verifying:
            if self._verdict is None:
                try:
                    self._verdict = await self._judge(submission)
                except (VerifierError, SandboxError) as error:
                    self._verdict = error
        if isinstance(self._verdict, VerifierError | SandboxError):
            raise self._verdict
        return self._verdict

    async def conclude(self, submission: Submission) -> Score | None:
        """Seal and score; None if the environment broke before, or scores only groups.

        Raises:
            VerifierError: the verifier failed, or returned something that is not a score.
            SandboxError: a sandbox broke under it.
        """
        await self.seal()
        if self.faults:
            is_agents = all(fault.boundary == "agent" for fault in self.faults)
            return forfeited(self.faults[0].message, self._verifier) if is_agents else None
        if not _has_own(type(self.environment), "verify"):
            await self._collect()
            return None  # the group's verdict is all there is
        if submission.answer is None and self.answer is not None:
            submission = submission.model_copy(update={"answer": self.answer})
        return await self.verify(submission)

    async def _judge(self, submission: Submission) -> Score:
        if self._closed:
            raise VerifierError("the episode was closed before it was verified")
        if not _has_own(type(self.environment), "verify"):
            raise VerifierError("the environment scores groups alone, and no single sample", retryable=False)
        if await self._collect():
            held = tuple(each.ref.holding(each.data) for each in self.artifacts)
            submission = submission.model_copy(update={"artifacts": held})
        seconds = self._deadlines.verify
        asked_before = len(self.role_calls)
        value: object = None
        try:
            with verifier_faults(self.environment.task.id), anyio.move_on_after(seconds) as scope, charged(scope):
                value = await call_hook(self.environment.verify, submission)
        except SandboxOverrun as error:
            self.record_fault(error, "verify")
            return forfeited(str(error), self._verifier)
        if scope.cancelled_caught:
            raise VerifierError(f"the verifier gave no score within {seconds:g} s")
        score = score_from(value, "verify")
        update: dict[str, Any] = {"verifier": self._verifier}
        if len(self.role_calls) > asked_before:
            # They are part of what defends the score; the rest stays with the episode.
            update["judge_calls"] = score.judge_calls or tuple(self.role_calls[asked_before:])
            del self.role_calls[asked_before:]
        return checked_score(score, update)

    async def _collect(self) -> bool:
        """Collect the episode's artifacts; False if the environment has none, or was not set up but only asked."""
        if not (self.seats and has_artifacts(type(self.environment))):
            return False
        collected = await collect_artifacts(self.environment, self._sandbox, self._deadlines.verify)
        self.artifacts, self.missing_artifacts = collected.kept, collected.missing
        return True

    async def close(self) -> None:
        """Close the environment, once; shielded from cancellation and limited in time.

        Raises:
            TaskError: the environment's clean-up failed or took longer than its deadline.
        """
        if self._closed:
            return
        self._closed = True
        await self.seal()
        self.seats = {}  # seats know their episode; without the way back, both are freed at once
        if not _has_own(type(self.environment), "close"):
            return
        seconds = self._deadlines.close
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + seconds, shield=True) as scope:
                await call_hook(self.environment.close)
        except Exception as error:
            raise TaskError(f"close raised {describe_behind(error)}") from error
        if scope.cancelled_caught:
            raise TaskError(f"close was not done after {seconds:g} s")

    def record_fault(self, error: Exception, phase: Phase) -> None:
        """Record a fault of the environment; it decides the outcome."""
        self.faults.append(world_fault(error, phase))


@cache
def _has_own(environment: type[Environment[Any]], hook: str) -> bool:
    """Whether an environment overrides this hook; a deadline around the empty default would cost more than the hook."""
    return getattr(environment, hook) is not getattr(Environment, hook)


def _detached(state: JsonValue) -> JsonValue:
    """A copy made through JSON."""
    return from_json(to_json(state))
