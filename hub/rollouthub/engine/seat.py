"""An agent's seat in an episode: counts, records and limits every call of the agent."""

from collections.abc import Callable, Sequence
from typing import Literal

import anyio
from mcp_types import Tool

from rollouthub.engine.abandoned_calls import AbandonableCall
from rollouthub.engine.external_sampling import is_of_the_agents_making, pinned
from rollouthub.engine.interventions import Interventions
from rollouthub.engine.recorder import OpenTurn, Recorder, sampling_fields
from rollouthub.engine.seat_limits import capped, reached_limit
from rollouthub.engine.seat_tool_calls import SeatToolCalls
from rollouthub.errors import AgentError, ContextLimitError, EpisodeError, EpisodeStop, OverlongAnswer
from rollouthub.generation import Model, ModelReply, ModelRequest, Sampling
from rollouthub.hosting.local.toolbox import REPLY
from rollouthub.limits import Limits
from rollouthub.messages import Message, ReplyStream, ToolRequest
from rollouthub.models.unfinished_call import estimated
from rollouthub.protocols import AgentPlane, Episode
from rollouthub.rollout import Intervention, Stop
from rollouthub.sandbox import Sandbox
from rollouthub.tracing import Trace


class _CutShort(Exception):
    """The model's answer is discarded, because a person sent a message meanwhile."""


class EpisodeSeat:
    """One agent's place in one episode."""

    def __init__(
        self,
        name: str,
        episode: Episode,
        recorder: Recorder,
        model: Model | None,
        sampling: Sampling,
        limits: Limits,
        model_timeout: float,
        session: str,
        on_state: Callable[[Literal["model", "tool"]], None],
        trace: Trace | None = None,
    ) -> None:
        plane = episode.seats[name]
        self.name = name
        self.messages = plane.messages
        self.is_truncated = False
        """Whether a token limit cut the last response."""
        self.reached: Stop | None = None
        """The limit that stopped the agent, even if the agent caught the `EpisodeStop`."""
        self.has_left = False
        """Whether its agent has stopped."""
        self.is_waiting = False
        """Whether its agent waits for a tool or the environment, or did so when the agent phase ended."""
        self.is_over = False
        """Whether the environment said that this seat has no further turn."""
        self.home: Sandbox | None = None
        """The agent's own sandbox, in which its program runs; None if it has none."""
        self._model_fault: EpisodeError | None = None
        self.plane: AgentPlane = plane
        """The episode as this seat sees it; calls made on it directly are not recorded."""
        self.recorder = recorder
        self.tool_calls = SeatToolCalls(name, plane, recorder)
        self._episode, self._model = episode, model
        self.limits = limits
        """The limits in force; `AgentPhase.retune` replaces them."""
        self._timeout, self._session, self._on_state = model_timeout, session, on_state
        self._trace = trace
        self._turns = 0
        self._interventions: Interventions | None = None
        self.acts = self.calls_in_flight = 0
        """Number of an external agent's calls that did something or waited for a turn."""
        self._heard: list[Message] = []
        """Messages that an external agent has received since its last turn."""
        self._shown: tuple[Sequence[Tool], tuple[str, ...]] = (), ()
        """The tools that a model was shown last, and the names under which turns record them."""
        self._answers: list[anyio.CancelScope] = []
        """Cancel scopes of the model calls in flight."""
        self._over: anyio.Event | None = None
        sampling = capped(sampling, limits.max_response_tokens)
        self._sampling, self._sampling_fields = sampling, sampling_fields(sampling)
        recorder.keep_media(self.messages)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools to show the model; later turns may add some."""
        return self.tool_calls.shown

    @property
    def is_sealed(self) -> bool:
        """Whether the episode is over for the agent."""
        return self._episode.is_sealed

    @property
    def turns(self) -> int:
        """Number of turns that count towards the turn limit."""
        return self._turns

    @property
    def has_user(self) -> bool:
        """Whether the environment replies to the agent's messages."""
        return any(tool.name == REPLY for tool in self.plane.tools)

    @property
    def fault(self) -> EpisodeError | None:
        """The error of the environment or of the last model call, even if the agent caught it; else None."""
        return self.tool_calls.fault or self._model_fault

    @property
    def episode(self) -> Episode:
        """The episode that the seat belongs to."""
        return self._episode

    @property
    def model_name(self) -> str | None:
        """Name of the model that the seat asks; None if there is none."""
        return None if self._model is None else self._model.name

    def intervene(self, text: str) -> bool:
        """Send a person's message to the agent before the model's next response; False if the seat is over.

        Model calls in flight are cancelled and made again.
        """
        if self.is_sealed or self.reached not in (None, Stop.CONTEXT_LIMIT):
            return False
        self._interventions = self._interventions or Interventions()
        self._interventions.add(text)
        for answer in self._answers:
            answer.cancel()
        return True

    async def generate(self, messages: Sequence[Message], tools: Sequence[Tool] | None = None) -> Message:
        """Ask the model; this is a turn.

        Raises:
            EpisodeStop: a limit is reached, or the episode is sealed.
            ModelError: the model failed.
        """
        return (await self.ask(messages, self.tools if tools is None else tools)).message

    async def ask(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        *,
        asked_for: Sampling | None = None,
        stream: ReplyStream | None = None,
        patience: AbandonableCall | None = None,
    ) -> ModelReply:
        """Ask the model, as `generate` does, and return its whole reply.

        `asked_for` is the sampling that an external agent asks for; see `pinned` for what is taken from it. `patience`
        says when that agent has disconnected.

        Raises:
            EpisodeStop: a limit is reached, or the episode is sealed.
            ModelError: the model failed.
        """
        if self._model is None:
            raise AgentError("the agent asked for a model, but the run has none; name one with -m")
        if asked_for is not None and (self.limits.max_tokens, self.limits.max_cost) != (None, None):
            # What calls side by side will have used, nobody knows before they are over.
            async with self.recorder.one_by_one:
                return await self._ask(self._model, messages, tools, asked_for, stream, patience)
        while True:
            said, waiting = messages, ()
            if self._interventions is not None:
                said, waiting = self._interventions.within(messages), self._interventions.waiting
            try:
                asked = [*said, *waiting] if waiting else said
                reply = await self._ask(self._model, asked, tools, asked_for, stream, patience)
            except _CutShort:
                continue
            if self._interventions is not None and waiting:
                self._interventions.answered(waiting, reply.message, len(said))
            return reply

    async def _ask(
        self,
        model: Model,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        asked_for: Sampling | None,
        stream: ReplyStream | None,
        patience: AbandonableCall | None,
    ) -> ModelReply:
        try:
            sampling = self._admit()
        except EpisodeStop:
            await anyio.lowlevel.checkpoint()  # an agent that never lets it pass must not hold up the rest
            raise
        if asked_for is not None:
            sampling = pinned(sampling, asked_for)
        self._on_state("model")
        self.recorder.keep_media(messages)
        started = self.recorder.now()
        request = self._begin_turn(messages, tools, sampling, stream, started)

        def broken_off(reply: ModelReply | None) -> None:
            """Record and charge a call whose answer the agent did not get completely."""
            has_begun = stream is not None and stream.has_begun
            if reply is not None and patience is not None and patience.left is not None and not has_begun:
                patience.left(reply)
            reply = reply or estimated(model, request)
            self._add_turn(request, reply, started).is_broken_off = True

        try:
            if patience is None:
                reply = await self._answer(model, request)
            else:
                reply = await patience.answer(self._answer(model, request, patience), broken_off)
        except BaseException as error:
            self._note_failure(error, asked_for, stream, broken_off)
            if isinstance(error, ContextLimitError):
                raise EpisodeStop(Stop.CONTEXT_LIMIT) from error
            if isinstance(error, OverlongAnswer) and asked_for is None:
                raise AgentError(str(error)) from error
            raise
        finally:
            self.recorder.model_seconds += self.recorder.now() - started
        self._model_fault = None
        if self.reached is Stop.CONTEXT_LIMIT:
            self.reached = None  # the agent has shortened its conversation and goes on
        self.is_truncated = reply.finish_reason == "length"
        self._add_turn(request, reply, started)
        return reply

    def _begin_turn(
        self,
        messages: Sequence[Message],
        tools: Sequence[Tool],
        sampling: Sampling,
        stream: ReplyStream | None,
        started: float,
    ) -> ModelRequest:
        """Count a turn, record the interventions that it sends, and make its request."""
        self._turns += 1
        recorder = self.recorder
        if self._interventions is not None:
            sent = self._interventions.sent()
            recorder.interventions += (Intervention(at=started, seat=self.name, text=each.text) for each in sent)
        return ModelRequest(
            messages,
            tools,
            sampling,
            self._timeout,
            self._session,
            recorder.media,
            stream,
            seat=self.name,
            wants_text_ends=recorder.wants_text_ends,
        )

    def _note_failure(
        self,
        error: BaseException,
        asked_for: Sampling | None,
        stream: ReplyStream | None,
        broken_off: Callable[[ModelReply | None], None],
    ) -> None:
        """Account for a call without an answer: whether it counts as a turn, its tokens, and whose fault it was."""
        if stream is not None and stream.has_begun:
            if asked_for is None or isinstance(error, _CutShort):
                self.recorder.output_tokens += stream.pieces
            elif isinstance(error, Exception):
                broken_off(None)
        elif asked_for is None or isinstance(error, Exception):  # else an agent outside left, and has used a turn
            self._turns -= 1
        if asked_for is not None and is_of_the_agents_making(error, stream):
            return
        if isinstance(error, ContextLimitError):
            self.reached = Stop.CONTEXT_LIMIT
        elif isinstance(error, OverlongAnswer) or not isinstance(error, Exception):
            self.recorder.lost.add("model_calls")
        elif isinstance(error, EpisodeError):
            self._model_fault = error

    def _add_turn(self, request: ModelRequest, reply: ModelReply, started: float) -> OpenTurn:
        recorder, sampling, tools = self.recorder, request.sampling, request.tools
        fields = self._sampling_fields if sampling is self._sampling else sampling_fields(sampling)
        if tools is not self._shown[0] or not isinstance(tools, tuple):  # mostly it is: an agent shows the same again
            own = self.plane.task_tools
            announced = [tool for tool in self.plane.tools if tool.name not in own] if own else self.plane.tools
            self._shown = tools, recorder.shown(tools, announced)
        return recorder.add_turn(self.name, request.messages, reply.message, reply, fields, started, self._shown[1])

    async def _answer(self, model: Model, request: ModelRequest, patience: AbandonableCall | None = None) -> ModelReply:
        """Ask the model.

        Raises:
            _CutShort: a person sent a message meanwhile, and the answer is discarded.
        """
        trace, reply, answer = self._trace, None, anyio.CancelScope(shield=patience is not None)
        self._answers.append(answer)
        if patience is not None:
            patience.begin(answer, request.stream)
        try:
            with answer:
                reply = await (model.generate(request) if trace is None else trace.generate(model, request))
        finally:
            self._answers.remove(answer)
            if patience is not None:
                patience.end()
        if reply is not None and (not answer.cancel_called or (patience is not None and patience.is_over)):
            return reply
        self.recorder.lost.add("model_calls")
        if reply is not None:  # it came all the same, and has cost something
            self.recorder.output_tokens += reply.usage.output_tokens
            self.recorder.cost += reply.cost or 0.0
        raise _CutShort

    def _admit(self) -> Sampling:
        """Check the limits before a turn. Returns the sampling to use, with `max_tokens` capped by the tokens left."""
        if self.is_sealed:
            raise EpisodeStop(Stop.SUBMITTED)
        limits, recorder = self.limits, self.recorder
        if (limit := reached_limit(limits, self._turns, recorder)) is not None:
            self.reached = limit
            self.look()
            raise EpisodeStop(limit)
        return capped(self._sampling, None if limits.max_tokens is None else limits.max_tokens - recorder.output_tokens)

    def look(self) -> None:
        """Wake those who wait in `over` if the seat is over."""
        is_over = self.is_over or self.is_sealed or self.reached not in (None, Stop.CONTEXT_LIMIT)
        if self._over is not None and is_over:
            self._over.set()

    async def silent(self, seconds: float) -> None:
        """Wait until the seat's external agent has done nothing for `seconds` (up to twice as long)."""
        before = None
        while before != (self.acts, self._turns) or self.calls_in_flight or self._answers:
            before = (self.acts, self._turns)
            await anyio.sleep(seconds)

    async def over(self) -> None:
        """Wait until the seat is over: sealed, at a limit, or without a further turn."""
        self._over = self._over or anyio.Event()
        self.look()
        await self._over.wait()

    def say(self, messages: Sequence[Message], response: Message) -> None:
        """Record a response that no model made; this is a turn.

        Raises:
            EpisodeStop: a limit is reached, or the episode is sealed.
        """
        self._admit()
        self._turns += 1
        if self._interventions is not None:
            messages = self._interventions.within(messages)
        self.recorder.add_turn(self.name, messages, response, None, {}, self.recorder.now())

    def say_next(self, response: Message) -> OpenTurn:
        """Record a response that no model made, after the seat's latest turn; this is a turn.

        Raises:
            EpisodeStop: a limit is reached, or the episode is sealed.
        """
        latest, heard = self.recorder.latest_turn(self.name), tuple(self._heard)
        if latest is None:
            self.say((*self.messages, *heard), response)
            turn = self.recorder.turns[-1]
        else:
            self._admit()
            self._turns += 1
            turn = self.recorder.follow(latest, response, heard)
        self._heard.clear()
        return turn

    def hear(self, message: Message) -> None:
        """Note a message that an external agent received; the record shows it before the agent's next response."""
        self._heard.append(message)

    def show_tool_call(self) -> None:
        """Show watchers that a tool is being called."""
        self._on_state("tool")

    async def call_tools(self, requests: Sequence[ToolRequest]) -> list[Message]:
        """Run tool calls concurrently; returns the messages that answer them, in order."""
        self.show_tool_call()
        self.is_waiting = True
        answers = await self.tool_calls.run(requests)
        self.is_waiting = False  # and not where it was cancelled
        return answers

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The environment's next user messages; None when the conversation is over."""
        self.is_waiting = True
        try:
            said = await self.plane.reply(messages)
        except EpisodeError as error:
            self.tool_calls.fault = error
            raise
        self.is_waiting = False  # and not where it was cancelled
        return said
