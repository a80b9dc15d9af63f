"""One episode of a hosted environment: tools dispatched directly, sealed once, verified once, closed once."""

import logging
import secrets
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from functools import cache
from typing import Any

import anyio
from mcp_types import CallToolResult, Tool
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from rollouthub.authoring.rewards.reward_function import as_score
from rollouthub.environment import Environment
from rollouthub.errors import (
    ConfigError,
    EpisodeError,
    ModelError,
    NotOffered,
    SandboxError,
    SandboxOverrun,
    TaskError,
    ToolError,
    VerifierError,
    describe,
)
from rollouthub.event_loop import call_hook
from rollouthub.hosting.local.environment_faults import world_fault
from rollouthub.hosting.local.episode_sandboxes import NotedSandboxes
from rollouthub.hosting.local.role_models import recorded
from rollouthub.hosting.local.shell_access import WaysIn, ways_into
from rollouthub.hosting.local.toolbox import GET_TASK, REPLY, SUBMIT, AnyTool, Toolbox
from rollouthub.limits import Deadlines, charged
from rollouthub.messages import Message, assistant
from rollouthub.protocols import Model
from rollouthub.rollout import Fault, Phase
from rollouthub.sandbox import Sandbox, SandboxProvider, SandboxRef
from rollouthub.score import ModelCall, Score, Submission, VerifierRef
from rollouthub.tools import as_result, ended, text_result

logger = logging.getLogger(__name__)

CLOSED = "The episode is closed."
BROKEN = "The tool failed because of a fault in the environment, not in your call."
_NO_SANDBOX = "this environment has no sandbox"
_NONE_KEPT = "this environment keeps no sandbox; it opens one for a moment at a time"
_SEALED = "the agent's time is over, and what its sandbox holds is being scored"


class HostedSeat:
    """One seat's agent plane."""

    __slots__ = ("_episode", "messages", "name", "token", "tools")

    def __init__(self, episode: "HostedEpisode", name: str, tools: tuple[Tool, ...]) -> None:
        self.name, self.tools = name, tools
        self.token = secrets.token_urlsafe(24)
        self.messages = tuple(episode.environment.messages(name))
        self._episode = episode

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call one of the seat's tools; never raises for what the tool or the environment did."""
        return await self._episode.call_tool(self.name, name, arguments)

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The environment's next user messages, or None when the conversation is over."""
        return await self._episode.reply(self.name, messages)


class HostedEpisode:
    """One attempt at one task: open, then sealed, then closed. Every step is idempotent; the first terminal wins."""

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
        self._sandbox: Sandbox | None = None
        if sandboxes is not None:
            environment.sandboxes = NotedSandboxes(sandboxes, self.sandboxes)
        if models:
            environment.models = recorded(models, self.role_calls)
        self.seats: dict[str, HostedSeat] = {}
        self._toolbox, self._verifier, self._deadlines = toolbox, verifier, deadlines
        self._in_flight: set[anyio.CancelScope] = set()
        self._idle: anyio.Event | None = None
        self._sealed = self._closed = False
        self._verdict: Score | VerifierError | SandboxError | None = None
        self._verifying: anyio.Lock | None = None
        self._sealing: anyio.Lock | None = None
        self._is_world_sealed = False

    @property
    def is_sealed(self) -> bool:
        """Whether the agent's time is over."""
        return self._sealed

    def world(self) -> AbstractAsyncContextManager[None]:
        """Held around the whole episode: its sandbox, and what the environment itself holds.

        Raises:
            SandboxError: the sandbox could not be had.
            TaskError: the environment's code failed.
        """
        if _has_own(type(self.environment), "sandbox_spec"):
            return self._world_in_sandbox()
        return self.environment.lifespan()

    @asynccontextmanager
    async def _world_in_sandbox(self) -> AsyncGenerator[None]:
        environment = self.environment
        try:
            spec = environment.sandbox_spec()
        except EpisodeError:
            raise
        except Exception as error:
            raise TaskError(f"sandbox_spec of task {environment.task.id!r} raised {describe(error)}") from error
        async with AsyncExitStack() as stack:
            if spec is not None:
                try:
                    sandbox = await stack.enter_async_context(environment.open_sandbox(spec))
                except ConfigError as error:  # of this one task; the run goes on with the others
                    raise TaskError(f"task {environment.task.id!r} has no sandbox: {error}", retryable=False) from error
                self._sandbox = environment.sandbox = sandbox
            await stack.enter_async_context(environment.lifespan())
            yield

    async def setup(self, state: JsonValue) -> None:
        """Make the world ready and open its seats.

        Raises:
            TaskError: it failed, or took longer than its deadline.
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
            for name in environment.seats:
                self.seats[name] = HostedSeat(self, name, self._toolbox.definitions(name))
        except (EpisodeError, NotOffered):
            raise
        except Exception as error:
            raise TaskError(f"setup of task {environment.task.id!r} raised {describe(error)}") from error

    async def call_tool(self, seat: str, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Dispatch one call: strict arguments, a deadline, cancelled by the seal."""
        if self._sealed:
            return text_result(CLOSED, is_error=True)
        try:
            spec = self._toolbox.find(seat, name)
            parsed = spec.parse(dict(arguments))
            if name == SUBMIT:
                return await self._submit(parsed["answer"])
            if name == GET_TASK:
                result = text_result("\n\n".join(message.text for message in self.seats[seat].messages))
            elif name == REPLY:
                said = await self.reply(seat, (assistant(parsed["text"]),))
                result = text_result("The conversation is over." if said is None else "\n\n".join(m.text for m in said))
            else:
                result = await self._call(name, spec, parsed)
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

    async def _call(self, name: str, spec: AnyTool, arguments: dict[str, Any]) -> CallToolResult:
        seconds = self._deadlines.tool_call
        with self._cancellable(seconds):
            return as_result(await spec.call(self.environment, arguments))
        return text_result(f"{name} was stopped after {seconds:g} seconds.", is_error=True)

    @contextmanager
    def _cancellable(self, seconds: float) -> Generator[None]:
        """Run the environment's code for the agent: until the deadline, or until the seal cancels it."""
        scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        self._in_flight.add(scope)
        try:
            with scope, charged(scope):
                yield
        finally:
            self._in_flight.discard(scope)
            if self._idle is not None and not self._in_flight:
                self._idle.set()

    async def _submit(self, answer: str) -> CallToolResult:
        self.answer = answer
        await self.seal()
        return text_result("Submitted.")

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The environment's user answers, or None when it has nothing more to say.

        Raises:
            TaskError: the environment's code failed or was too slow.
        """
        if self._sealed or not _has_own(type(self.environment), "reply"):
            return None
        seconds = self._deadlines.tool_call
        try:
            with self._cancellable(seconds):
                said = await call_hook(self.environment.reply, seat, messages)
                return None if self._sealed else said
        except SandboxOverrun as error:
            self.record_fault(error, "agent")
            raise
        except EpisodeError:
            raise
        except Exception as error:
            raise TaskError(f"reply raised {describe(error)}") from error
        if self._sealed:
            return None
        raise TaskError(f"the environment's user gave no reply within {seconds:g} s")

    async def reference(self) -> Sequence[Message]:
        """Privileged: the reference solution; empty where there is none.

        Raises:
            TaskError: the environment's code failed.
        """
        try:
            return self.environment.reference()
        except EpisodeError:
            raise
        except NotOffered as error:
            raise TaskError(str(error), retryable=False) from error
        except Exception as error:
            raise TaskError(f"reference raised {describe(error)}") from error

    async def snapshot(self) -> JsonValue:
        """Privileged: the world's state as JSON, cut off from the world it was taken from."""
        return _detached(self.environment.snapshot())

    async def ways_in(self) -> WaysIn:
        """The ways into the episode's own sandbox; what it opens besides may be a verifier's, and is nobody's to enter.

        None once the agent's time is over: what a sandbox holds then decides the score.
        """
        if self._sandbox is None:
            return WaysIn(why_not=_NO_SANDBOX if self.environment.sandboxes is None else _NONE_KEPT)
        return WaysIn(why_not=_SEALED) if self._sealed else ways_into(self._sandbox)

    async def seal(self) -> None:
        """Revoke the agent's access and end its calls in flight; back when their clean-up is done."""
        self._sealed = True
        for scope in tuple(self._in_flight):
            scope.cancel()
        is_ignored = bool(self._in_flight) and not await self._in_flight_ends()
        if self._sandbox is not None or _has_own(type(self.environment), "seal"):
            await self._seal_world()
        if is_ignored and not any(fault.boundary == "agent" for fault in self.faults):  # which keeps calls from ending
            self.record_fault(TaskError("a tool call ignored its cancellation at the seal"), "agent")

    async def _in_flight_ends(self) -> bool:
        """Wait for the clean-up of cancelled calls; whether it was done in time."""
        self._idle = self._idle or anyio.Event()
        with anyio.move_on_after(self._deadlines.close, shield=True) as patience:
            await self._idle.wait()
        if not (patience.cancelled_caught and self._in_flight):
            return True
        self._in_flight.clear()  # given up on: no later step waits for them again
        return False

    async def _seal_world(self) -> None:
        """Kill what runs for the agent and run the environment's own `seal`, once; who comes later waits, too."""
        self._sealing = self._sealing or anyio.Lock()
        seconds = self._deadlines.close
        with anyio.CancelScope(shield=True):
            async with self._sealing:
                if self._is_world_sealed:
                    return
                self._is_world_sealed = True
                try:
                    with anyio.move_on_after(seconds) as scope:
                        if self._sandbox is not None and not self._closed and self.environment.stops_at_seal:
                            await self._sandbox.stop()
                        await call_hook(self.environment.seal)
                except Exception as error:
                    logger.exception("the seal of task %r failed", self.environment.task.id)
                    self.record_fault(error, "agent")
                else:
                    if scope.cancelled_caught:
                        self.record_fault(await self._why_slow(seconds), "agent")

    async def _why_slow(self, seconds: float) -> Exception:
        """What a seal that was not done in time is recorded as: a sandbox that broke meanwhile says why it did."""
        if self._sandbox is not None and not self._sandbox.is_alive:
            try:
                await self._sandbox.stop()
            except SandboxError as error:
                return error
        return TaskError(f"seal was not done after {seconds:g} s")

    async def verify(self, submission: Submission) -> Score:
        """Seal and score; the first verdict stands.

        Raises:
            VerifierError: the verifier failed, or gave something that is no score.
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
        """Seal, and score unless the environment broke before.

        Raises:
            VerifierError: the verifier failed, or gave something that is no score.
            SandboxError: a sandbox broke under it.
        """
        await self.seal()
        if self.faults:
            is_agents = all(fault.boundary == "agent" for fault in self.faults)
            return self._zero(self.faults[0].message) if is_agents else None
        if submission.answer is None and self.answer is not None:
            submission = submission.model_copy(update={"answer": self.answer})
        return await self.verify(submission)

    async def _judge(self, submission: Submission) -> Score:
        if self._closed:
            raise VerifierError("the episode was closed before it was verified")
        seconds = self._deadlines.verify
        asked_before = len(self.role_calls)
        value: object = None
        try:
            with anyio.move_on_after(seconds) as scope, charged(scope):
                value = await call_hook(self.environment.verify, submission)
        except SandboxOverrun as error:
            self.record_fault(error, "verify")
            return self._zero(str(error))
        except (VerifierError, SandboxError):
            raise
        except ModelError as error:
            raise VerifierError(f"a model the verifier asked failed: {error}", retryable=error.retryable) from error
        except Exception as error:
            logger.exception("the verifier of task %r failed", self.environment.task.id)
            raise VerifierError(f"the verifier raised {describe(error)}") from error
        if scope.cancelled_caught:
            raise VerifierError(f"the verifier gave no score within {seconds:g} s")
        try:
            score = as_score(value, "of verify")
        except ValueError as error:
            returned = repr(value) if value is None or isinstance(value, float) else f"a {type(value).__name__}"
            raise VerifierError(
                f"verify returned {returned}: return a Score, a finite number, True or False"
            ) from error
        update: dict[str, Any] = {"verifier": self._verifier}
        if len(self.role_calls) > asked_before:
            # They are part of what defends the score; the rest stays with the episode.
            update["judge_calls"] = score.judge_calls or tuple(self.role_calls[asked_before:])
            del self.role_calls[asked_before:]
        try:
            # Checked again: `model_copy` and `model_construct` let NaN through.
            return type(score).model_validate({**vars(score), **update})
        except ValueError as error:
            raise VerifierError(f"the verifier returned a score that does not hold: {error}") from error

    def _zero(self, why: str) -> Score:
        """The verdict on an agent that ended its own sandbox: else whoever does not know would gain by it."""
        feedback = f"what ran in its sandbox ended it: {why}"
        return Score(reward=0.0, passed=False, feedback=feedback, verifier=self._verifier)

    async def close(self) -> None:
        """Tear the world down, once; shielded and bounded.

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
            raise TaskError(f"close raised {describe(error)}") from error
        if scope.cancelled_caught:
            raise TaskError(f"close was not done after {seconds:g} s")

    def record_fault(self, error: Exception, phase: Phase) -> None:
        """Keep a fault of the environment's; it decides the outcome."""
        self.faults.append(world_fault(error, phase))


@cache
def _has_own(environment: type[Environment[Any]], hook: str) -> bool:
    """Whether an environment writes this hook itself; a deadline around the empty one would cost more than the hook."""
    return getattr(environment, hook) is not getattr(Environment, hook)


def _detached(state: JsonValue) -> JsonValue:
    """A copy through JSON: what a wire would make of it."""
    return from_json(to_json(state))
