"""The seat an agent plays from: every call metered, recorded and bounded."""

import base64
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import anyio
from mcp_types import AudioContent, CallToolResult, ContentBlock, ImageContent, TextContent, Tool

from rollouthub.engine.abandoned_calls import AbandonableCall
from rollouthub.engine.external_sampling import is_of_the_agents_making, pinned
from rollouthub.engine.interventions import Interjections
from rollouthub.engine.recorder import OpenTurn, Recorder, sampling_fields
from rollouthub.engine.tool_arguments import arguments_of, long_arguments_of
from rollouthub.errors import AgentError, ContextLimitError, EpisodeError, EpisodeStop, OverlongAnswer, TaskError
from rollouthub.event_loop import LARGE_BYTES
from rollouthub.hosting.local.toolbox import LOOP_TOOLS, REPLY
from rollouthub.limits import Limits
from rollouthub.messages import Media, Message, Part, ReplyStream, Text, ToolRequest
from rollouthub.models.unfinished_call import estimated
from rollouthub.protocols import AgentPlane, Episode, Model, ModelReply, ModelRequest, Sampling
from rollouthub.rollout import Stop, Told, ToolCall
from rollouthub.sandbox import Sandbox
from rollouthub.tracing import Trace


class _CutShort(Exception):
    """An answer is not wanted any more."""


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
        self.tools = tuple(tool for tool in plane.tools if tool.name not in LOOP_TOOLS)
        self.is_truncated = False
        """Whether the last response was cut by a token limit."""
        self.reached: Stop | None = None
        """The limit that ended the agent's turn, whether or not it let it pass."""
        self.home: Sandbox | None = None
        """Where its player's program runs, if that is a sandbox of the agent's own."""
        self._world_fault: EpisodeError | None = None
        self._model_fault: EpisodeError | None = None
        self.plane: AgentPlane = plane
        """The seat's own side of the episode; what is called there directly is not recorded."""
        self.recorder = recorder
        self._episode, self._model = episode, model
        self._limits, self._timeout, self._session, self._on_state = limits, model_timeout, session, on_state
        self._trace = trace
        self._turns = 0
        self._said: Interjections | None = None
        self._shown: tuple[Sequence[Tool], tuple[str, ...]] = (), ()
        """The tools that a model was shown last, and what turns call them."""
        self._answers: list[anyio.CancelScope] = []
        """Of the model, on their way."""
        self._over: anyio.Event | None = None
        cap = limits.max_response_tokens
        if cap is not None and (sampling.max_tokens is None or cap < sampling.max_tokens):
            sampling = sampling.model_copy(update={"max_tokens": cap})
        self._sampling, self._sampling_fields = sampling, sampling_fields(sampling)

    @property
    def is_sealed(self) -> bool:
        """Whether the episode is over for the agent."""
        return self._episode.is_sealed

    @property
    def limits(self) -> Limits:
        """Those in force now."""
        return self._limits

    @property
    def turns(self) -> int:
        """How many of them count towards the limit."""
        return self._turns

    @property
    def has_user(self) -> bool:
        """Whether the environment answers to words."""
        return any(tool.name == REPLY for tool in self.plane.tools)

    @property
    def fault(self) -> EpisodeError | None:
        """What broke under the agent: its world, or the last model call; an agent may have caught it."""
        return self._world_fault or self._model_fault

    @property
    def episode(self) -> Episode:
        """The episode it is a place in."""
        return self._episode

    @property
    def model_name(self) -> str | None:
        """The run's model."""
        return None if self._model is None else self._model.name

    def relimit(self, limits: Limits) -> None:
        """Go on under other limits. That of one response stays, and what was reached stays reached."""
        self._limits = limits

    def tell(self, text: str) -> bool:
        """Say something as the agent's user, before its model's next answer; those on their way are cut short.

        False where there is nothing more to do here.
        """
        if self.is_sealed or self.reached not in (None, Stop.CONTEXT_LIMIT):
            return False
        self._said = self._said or Interjections()
        self._said.add(text)
        for answer in self._answers:
            answer.cancel()
        return True

    async def generate(self, messages: Sequence[Message], tools: Sequence[Tool] | None = None) -> Message:
        """Ask the model; a turn.

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
        """The same, with all that the model gave.

        `asked_for` comes from an agent outside, which is trusted less. Of it the run takes what its own sampling leaves
        open and lets an agent say: a lower bound on the answer's tokens, where to stop, and `extra`. Its
        `patience` says when it has left.

        Raises:
            EpisodeStop: a limit is reached, or the episode is sealed.
            ModelError: the model failed.
        """
        if self._model is None:
            raise AgentError("the agent asked for a model, but the run has none; name one with -m")
        limits = self._limits
        if asked_for is not None and not (limits.max_tokens is None and limits.max_cost is None):
            # What calls side by side will have used, nobody knows before they are over.
            async with self.recorder.one_by_one:
                return await self._ask(self._model, messages, tools, asked_for, stream, patience)
        while True:
            said, waiting = messages, ()
            if self._said is not None:
                said, waiting = self._said.within(messages), self._said.waiting
            try:
                asked = [*said, *waiting] if waiting else said
                reply = await self._ask(self._model, asked, tools, asked_for, stream, patience)
            except _CutShort:
                continue
            if self._said is not None and waiting:
                self._said.answered(waiting, reply.message, len(said))
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
        recorder = self.recorder
        started = recorder.now()
        request = ModelRequest(
            messages=messages,
            tools=tools,
            sampling=sampling,
            timeout_seconds=self._timeout,
            session=self._session,
            seat=self.name,
            media=recorder.media,
            stream=stream,
        )
        self._turns += 1
        if self._said is not None:
            recorder.told += (Told(at=started, seat=self.name, text=message.text) for message in self._said.sent())

        def broken_off(reply: ModelReply | None) -> None:
            """Record what has cost something, and charge for it, although nobody got it to its end."""
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
            if stream is not None and stream.has_begun:
                if asked_for is None or isinstance(error, _CutShort):
                    recorder.output_tokens += stream.pieces
                elif isinstance(error, Exception):
                    broken_off(None)
            elif asked_for is None or isinstance(error, Exception):  # else an agent outside left, and has used a turn
                self._turns -= 1
            if asked_for is None or not is_of_the_agents_making(error, stream):
                self._note_failed_call(error)
            if isinstance(error, ContextLimitError):
                raise EpisodeStop(Stop.CONTEXT_LIMIT) from error
            if isinstance(error, OverlongAnswer) and asked_for is None:
                raise AgentError(str(error)) from error
            raise
        finally:
            recorder.model_seconds += recorder.now() - started
        self._model_fault = None
        if self.reached is Stop.CONTEXT_LIMIT:
            self.reached = None  # the agent has shortened its conversation and goes on
        self.is_truncated = reply.finish_reason == "length"
        self._add_turn(request, reply, started)
        return reply

    def _add_turn(self, request: ModelRequest, reply: ModelReply, started: float) -> OpenTurn:
        recorder, sampling, tools = self.recorder, request.sampling, request.tools
        fields = self._sampling_fields if sampling is self._sampling else sampling_fields(sampling)
        if tools is not self._shown[0] or not isinstance(tools, tuple):  # mostly it is: an agent shows the same again
            self._shown = tools, recorder.shown(tools, self.plane.tools)
        shown = self._shown[1]
        return recorder.add_turn(self.name, request.messages, reply.message, reply, fields, started, shown)

    async def _answer(self, model: Model, request: ModelRequest, patience: AbandonableCall | None = None) -> ModelReply:
        """Ask the model.

        Raises:
            _CutShort: somebody said something meanwhile, and the answer is not wanted any more.
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

    def _note_failed_call(self, error: BaseException) -> None:
        if isinstance(error, ContextLimitError):
            self.reached = Stop.CONTEXT_LIMIT
        elif isinstance(error, OverlongAnswer):
            self.recorder.lost.add("model_calls")
        elif isinstance(error, EpisodeError):
            self._model_fault = error
        elif not isinstance(error, Exception):
            self.recorder.lost.add("model_calls")

    def _admit(self) -> Sampling:
        """Check the limits before a turn; the sampling to use, capped by what is left."""
        limits, recorder = self._limits, self.recorder
        if self.is_sealed:
            raise EpisodeStop(Stop.SUBMITTED)
        if limits.max_turns is not None and self._turns >= limits.max_turns:
            raise self._stop(Stop.TURN_LIMIT)
        if limits.max_cost is not None and recorder.cost >= limits.max_cost:
            raise self._stop(Stop.COST_LIMIT)
        if limits.max_tokens is None:
            return self._sampling
        left = limits.max_tokens - recorder.output_tokens
        if left <= 0:
            raise self._stop(Stop.TOKEN_LIMIT)
        if self._sampling.max_tokens is not None and self._sampling.max_tokens <= left:
            return self._sampling
        return self._sampling.model_copy(update={"max_tokens": left})

    def _stop(self, limit: Stop) -> EpisodeStop:
        self.reached = limit
        self.look()
        return EpisodeStop(limit)

    def look(self) -> None:
        """Tell those who wait for it when there is nothing more to do here."""
        if self._over is not None and (self.is_sealed or self.reached not in (None, Stop.CONTEXT_LIMIT)):
            self._over.set()

    async def over(self) -> None:
        """Wait until there is nothing more to do here: the episode is sealed, or a limit was reached."""
        self._over = self._over or anyio.Event()
        self.look()
        await self._over.wait()

    def say(self, messages: Sequence[Message], response: Message) -> None:
        """Record a response no model made; a turn.

        Raises:
            EpisodeStop: a limit is reached, or the episode is sealed.
        """
        self._admit()
        self._turns += 1
        if self._said is not None:
            messages = self._said.within(messages)
        self.recorder.add_turn(self.name, messages, response, None, {}, self.recorder.now())

    def say_next(self, response: Message) -> OpenTurn:
        """Record what no model said as the next thing said; a turn.

        Raises:
            EpisodeStop: a limit is reached, or the episode is sealed.
        """
        latest = self.recorder.latest_turn(self.name)
        if latest is None:
            self.say(self.messages, response)
            return self.recorder.turns[-1]
        self._admit()
        self._turns += 1
        return self.recorder.follow(latest, response)

    def show_tool_call(self) -> None:
        """Let those who watch see that a tool is being called."""
        self._on_state("tool")

    async def call_tools(self, requests: Sequence[ToolRequest]) -> list[Message]:
        """Run tool calls concurrently; the messages that answer them, in order."""
        self._on_state("tool")
        started = self.recorder.now()
        answers: list[Message | None] = [None] * len(requests)
        try:
            if len(requests) == 1:
                answers[0] = await self._call(requests[0])
            elif requests:

                async def run(place: int) -> None:
                    answers[place] = await self._call(requests[place])

                async with anyio.create_task_group() as calls:
                    for place in range(len(requests)):
                        calls.start_soon(run, place)
        finally:
            self.recorder.tool_seconds += self.recorder.now() - started
        return [answer for answer in answers if answer is not None]

    async def _call(self, request: ToolRequest) -> Message:
        recorder = self.recorder
        turn = recorder.turn_of(self.name, request.id)
        if turn is None:
            raise AgentError(f"the agent called {request.name!r} before any turn; say() or generate() first")
        started = recorder.now()
        try:
            is_long = len(request.arguments) > LARGE_BYTES
            arguments, result = await long_arguments_of(request) if is_long else arguments_of(request)
            if result is None:
                result = await self.plane.call_tool(request.name, arguments)
            content = self.note_call(turn, request.id, request.name, arguments, result, started)
        except BaseException as error:
            self.lose_call(error)
            raise
        return Message(role="tool", content=content, tool_call_id=request.id)

    def lose_call(self, error: BaseException) -> None:
        """Note that a call left no record."""
        self.recorder.lost.add("tool_calls")
        if isinstance(error, EpisodeError):
            self._world_fault = error

    def note_call(
        self, turn: OpenTurn, call_id: str, name: str, arguments: Any, result: CallToolResult, started: float
    ) -> str | tuple[Part, ...]:
        """Record a call that was made; its result as a message's content."""
        content, size, kept = self._content(result)
        turn.tool_calls.append(
            ToolCall(
                id=call_id,
                name=name,
                arguments=arguments,
                result=kept,
                started=started,
                seconds=self.recorder.now() - started,
                bytes=size,
            )
        )
        turn.results[call_id] = content
        return content

    def _content(self, result: CallToolResult) -> tuple[str | tuple[Part, ...], int, CallToolResult]:
        """A result as message content, its size in bytes, and as it is recorded: media by digest, bytes set aside."""
        if len(result.content) == 1 and isinstance(result.content[0], TextContent):
            text = result.content[0].text
            if text.isascii():
                return text, len(text), result
        parts: list[Part] = []
        blocks: list[ContentBlock] = []
        size = 0
        for block in result.content:
            if isinstance(block, ImageContent | AudioContent):
                raw = _decoded(block)
                media = self._keep(raw, block.mime_type)
                parts.append(media)
                blocks.append(block.model_copy(update={"data": media.digest}))
                size += len(raw)
                continue
            if isinstance(block, TextContent):
                # Half a surrogate pair is no text: it could be neither stored nor sent.
                block = block.model_copy(update={"text": block.text.encode(errors="replace").decode()})
            text = block.text if isinstance(block, TextContent) else block.model_dump_json(by_alias=True)
            parts.append(Text(text=text))
            blocks.append(block)
            size += len(text.encode())
        content = parts[0].text if len(parts) == 1 and isinstance(parts[0], Text) else tuple(parts)
        return content, size, result.model_copy(update={"content": blocks})

    def _keep(self, raw: bytes, mime_type: str) -> Media:
        digest = "sha256:" + hashlib.sha256(raw).hexdigest()
        self.recorder.media[digest] = raw
        return Media(digest=digest, mime_type=mime_type)

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The environment's next user messages; None when the conversation is over."""
        try:
            return await self.plane.reply(messages)
        except EpisodeError as error:
            self._world_fault = error
            raise


def _decoded(block: ImageContent | AudioContent) -> bytes:
    try:
        return base64.b64decode(block.data)
    except ValueError as error:
        raise TaskError(f"a tool returned {block.mime_type} that is no base64: {error}") from error
