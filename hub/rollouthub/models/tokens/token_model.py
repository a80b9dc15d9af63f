"""`TokenModel`: a model over a token engine. A prompt begins with exactly the ids that were sampled before it."""

import logging
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio
from mcp_types import Tool

from rollouthub.errors import ContextLimitError, HubError, ModelError, OverlongAnswer, describe, raise_first_error
from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.messages import Message, media_of
from rollouthub.models.direct.answer_bounds import TooLong, check_calls
from rollouthub.models.text_ends import text_ends
from rollouthub.models.tokens.chat_format import (
    ChatFormat,
    PlacingChatFormat,
    PromptedChatFormat,
    ShowingChatFormat,
    TokenBytesChatFormat,
)
from rollouthub.models.tokens.engine_messages import cut, named, shown_media
from rollouthub.models.tokens.placed_media import PlacedMedia, place_media
from rollouthub.models.tokens.session_tokens import Sessions, TokenizedConversation
from rollouthub.models.tokens.token_engine import AnsweringTokenEngine, PlacingTokenEngine, Sampled, TokenEngine
from rollouthub.rollout import Usage
from rollouthub.values import Float32s, Int32s

logger = logging.getLogger(__name__)

_SESSIONS = 2048
_MOST_VERSION = 2**31 - 1
_PROBE = (Message(role="user", content="a"), Message(role="assistant", content="b"))
_PROBE_OTHER = (_PROBE[0], Message(role="assistant", content="c"))


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A prompt's ids, the stored conversation that they continue, and the media whose places are known."""

    held: TokenizedConversation | None
    ids: Int32s
    placed: tuple[PlacedMedia, ...] = ()


@dataclass(frozen=True, slots=True)
class _RenderedPrompt:
    """A rendered conversation."""

    ids: list[int]
    placed: tuple[PlacedMedia, ...] = ()

    def alone(self) -> _Prompt:
        """The prompt that continues nothing."""
        return _Prompt(None, _packed(self.ids), self.placed)


class TokenModel:
    """A model that keeps each session's token ids, and appends those of the added messages.

    An answer's ids are in the next prompt exactly as they were sampled. If that is impossible, because the history was
    changed or the chat template rewrites it, the whole conversation is rendered anew, and the turn begins another
    training row.
    """

    def __init__(
        self,
        name: str,
        engine: TokenEngine,
        chat: ChatFormat,
        *,
        max_context: int | None = None,
        max_breaks: int = 0,
        sessions: int = _SESSIONS,
    ) -> None:
        """`max_context` is the most tokens of prompt and answer together; `sessions` is how many sessions are kept.

        An answer that the engine aborts, such as for new weights, is continued up to `max_breaks` times; tokens sampled
        before keep their log-probabilities and versions. A further abort is a retryable error.
        """
        self._name, self._engine, self._chat, self._max_context = name, engine, chat, max_context
        # Asked once: a protocol's isinstance costs as much as an answer's tokens do to parse.
        self._answering = engine if isinstance(engine, AnsweringTokenEngine) else None
        self._prompted = chat if isinstance(chat, PromptedChatFormat) else None
        self._placing = chat if isinstance(chat, PlacingChatFormat) else None
        self._max_breaks = max_breaks
        self._sessions = Sessions(sessions)
        self._closing: list[int] | None = None
        self._logged: set[str] = set()

    @property
    def name(self) -> str:
        """The model's name, as recorded in rollouts."""
        return self._name

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request; a stream's listener gets no pieces.

        Raises:
            ContextLimitError: the conversation is too long.
            OverlongAnswer: the answer has too many tool calls.
            ModelError: the engine failed, or aborted the answer.
        """
        try:
            with anyio.fail_after(request.timeout_seconds):
                return await self._generate(request)
        except TimeoutError as error:
            raise ModelError(f"{self._name}: no answer within {request.timeout_seconds:g} s") from error

    async def _generate(self, request: ModelRequest) -> ModelReply:
        found = await self._prompt(request)
        held, prompt = found.held, found.ids
        sampling = self._within_context(request.sampling, len(prompt))
        sampled = await self._sample(found, sampling, request)
        message = await self._parse(prompt, sampled, request.tools)
        try:
            check_calls(len(message.tool_requests))
        except TooLong as error:
            raise OverlongAnswer(f"{self._name}: {error}") from None
        if sampling.stop and sampled.finish_reason == "stop":
            message = cut(message, sampling.stop)
        reply = self._reply(prompt, sampled, named(message, len(request.messages)))
        if request.wants_text_ends and isinstance(self._chat, TokenBytesChatFormat):
            spelled = await self._chat.token_bytes(sampled.token_ids)
            reply = replace(reply, output_text_ends=spelled and text_ends(spelled, reply.message))
        if request.session and reply.output_token_ids is not None:
            start = 0 if held is None else held.message_count
            before = 0 if held is None else len(held.ids())
            self._sessions.hold(
                request.session,
                TokenizedConversation(
                    held,
                    start,
                    (*request.messages[start:], reply.message),
                    tuple(request.tools),
                    prompt[before:] + reply.output_token_ids,
                    tuple(each.offset for each in found.placed),
                ),
            )
        return reply

    async def _sample(self, prompt: _Prompt, sampling: Sampling, request: ModelRequest) -> Sampled:
        """Call the engine, and continue an aborted answer up to `max_breaks` times.

        Raises:
            ModelError: the engine failed, or aborted the answer once more.
        """
        sampled = Sampled((), (), "abort")
        for breaks in range(self._max_breaks + 1):
            count = len(sampled.token_ids)
            if breaks and sampling.max_tokens is not None and count >= sampling.max_tokens:
                return replace(sampled, finish_reason="length")
            ids = [*prompt.ids, *sampled.token_ids]
            try:
                more = await self._ask_engine(ids, prompt.placed, on_from(sampling, count, breaks), request)
            except (HubError, TimeoutError):
                raise
            except Exception as error:  # an engine may raise any exception
                raise ModelError(f"{self._name}: the engine failed: {describe(error)}") from error
            sampled = sampled.and_then(more) if breaks else more
            if not sampled.is_broken_off:
                return sampled
        raise ModelError(f"{self._name}: the engine broke off the answer ({sampled.finish_reason})")

    async def _ask_engine(
        self, ids: Sequence[int], placed: Sequence[PlacedMedia], sampling: Sampling, request: ModelRequest
    ) -> Sampled:
        engine, session, adapter = self._engine, request.session, request.adapter
        if (placed or adapter) and isinstance(engine, PlacingTokenEngine):
            return await engine.sample_placed(ids, sampling, session=session, placed=placed, adapter=adapter)
        media = shown_media(request.messages, request.media)
        if self._answering is not None:
            return await self._answering.answer(ids, sampling, request, media)
        if adapter:
            raise ModelError(f"{self._name}: the engine takes no adapter, such as {adapter!r}", retryable=False)
        return await engine.sample(ids, sampling, session=session, media=media)

    async def _parse(self, prompt: Int32s, sampled: Sampled, tools: Sequence[Tool]) -> Message:
        if sampled.message is not None:
            return sampled.message
        words = sampled.token_ids[: len(sampled.token_ids) - sampled.ending]
        if not len(words):
            return Message(role="assistant")
        if self._prompted is not None:
            return await self._prompted.parse_after(prompt.tolist(), words, tools)
        return await self._chat.parse(words, tools)

    async def _prompt(self, request: ModelRequest) -> _Prompt:
        """The prompt, which continues a stored conversation if its ids could be kept."""
        messages, tools = request.messages, request.tools
        held = self._sessions.find(request.session, messages, tools) if request.session else None
        if held is None:
            return (await self._render(messages, request, add_generation_prompt=True)).alone()
        base, full = await self._rendered(messages[: held.message_count], request)
        if base is None:
            return full.alone()
        ids = held.ids()
        suffix = await self._suffix(base.ids, full.ids, ids)
        if suffix is None:
            return full.alone()
        prompt = ids + _packed(suffix)
        placed = full.placed and place_media(
            full.placed, held.media_offsets, known=len(base.ids), rendered=full.ids, prompt=prompt.tolist()
        )
        return full.alone() if placed is None else _Prompt(held, prompt, placed)

    async def _render(
        self, messages: Sequence[Message], request: ModelRequest, *, add_generation_prompt: bool
    ) -> _RenderedPrompt:
        chat, tools = self._chat, request.tools
        if self._placing is not None and media_of(messages):
            return _RenderedPrompt(
                *await self._placing.render_placed(
                    messages, tools, add_generation_prompt=add_generation_prompt, media=request.media
                )
            )
        media = request.media or shown_media(messages, request.media)
        if media and isinstance(chat, ShowingChatFormat):
            return _RenderedPrompt(
                await chat.render_shown(messages, tools, add_generation_prompt=add_generation_prompt, media=media)
            )
        return _RenderedPrompt(await chat.render(messages, tools, add_generation_prompt=add_generation_prompt))

    async def _rendered(
        self, known: Sequence[Message], request: ModelRequest
    ) -> tuple[_RenderedPrompt | None, _RenderedPrompt]:
        """The known part of a conversation, and the whole with a generation prompt; both are rendered concurrently.

        The first is None if the template refuses a conversation that ends with an answer.
        """
        base, full = list[_RenderedPrompt](), _RenderedPrompt([])

        async def render_known() -> None:
            try:
                base.append(await self._render(known, request, add_generation_prompt=False))
            except ModelError as error:
                if error.retryable:
                    raise

        async with raise_first_error(), anyio.create_task_group() as renders:
            renders.start_soon(render_known)
            full = await self._render(request.messages, request, add_generation_prompt=True)
        return (base[0] if base else None), full

    async def _suffix(self, base: list[int], full: list[int], ids: Int32s) -> list[int] | None:
        """The ids to append to the stored ones: the rest of the turn's end, then what the template adds; None if the
        template rewrites the stored part.

        `base` is the conversation without the added messages, `full` with them.
        """
        if self._closing is None:
            self._closing = await self._find_closing()
        closing = self._closing
        if full[: len(base)] != base or not closing or base[-len(closing) :] != closing:
            return None
        # The engine sampled the beginning of the turn's end, or, cut at a limit, none of it.
        tail = ids[max(0, len(ids) - len(closing)) :].tolist()
        written = next(count for count in range(len(tail), -1, -1) if tail[len(tail) - count :] == closing[:count])
        return closing[written:] + full[len(base) :]

    async def _find_closing(self) -> list[int]:
        """The ids with which the template ends every answer; empty if that cannot be found."""
        try:
            one = await self._chat.render(_PROBE, (), add_generation_prompt=False)
            other = await self._chat.render(_PROBE_OTHER, (), add_generation_prompt=False)
        except ModelError as error:
            if error.retryable:
                raise
            self._warn_once(f"does not say how its answers end, so every turn is rendered anew: {error}")
            return []
        return shared_suffix(one, other)

    def _within_context(self, sampling: Sampling, prompt_tokens: int) -> Sampling:
        """The sampling settings with `max_tokens` limited to the free context.

        Raises:
            ContextLimitError: the prompt fills the context.
        """
        if self._max_context is None:
            return sampling
        left = self._max_context - prompt_tokens
        if left <= 0:
            raise ContextLimitError(
                f"{self._name}: the conversation has {prompt_tokens} tokens, the model's context {self._max_context}"
            )
        if sampling.max_tokens is not None and sampling.max_tokens <= left:
            return sampling
        return sampling.model_copy(update={"max_tokens": left})

    def _reply(self, prompt: Int32s, sampled: Sampled, message: Message) -> ModelReply:
        count, logprobs = len(sampled.token_ids), sampled.logprobs
        if logprobs is not None and len(logprobs) != count:
            # Misaligned ones would be trained on at the wrong tokens.
            self._warn_once("gives other numbers of logprobs than of token ids; its logprobs are dropped")
            logprobs = None
        packed = None if logprobs is None else _packed_logprobs(logprobs)
        if logprobs is not None and packed is None:
            self._warn_once("gives logprobs that are no numbers; they are dropped")
        if sampled.prompt_ids is not None:
            prompt = _packed(sampled.prompt_ids)
        version, versions = self._versions(sampled)
        is_call = bool(message.tool_requests) and sampled.finish_reason == "stop"
        return ModelReply(
            message=message,
            finish_reason="tool_calls" if is_call else sampled.finish_reason,
            usage=Usage(prompt_tokens=len(prompt), output_tokens=count),
            prompt_token_ids=prompt,
            output_token_ids=_packed(sampled.token_ids),
            output_logprobs=packed,
            policy_version=version,
            policy_versions=versions,
            retries=sampled.retries,
        )

    def _versions(self, sampled: Sampled) -> tuple[int | None, Int32s | None]:
        """The policy version at the answer's start, and those of its tokens if they differ."""
        versions = sampled.versions
        reported = [versions] if isinstance(versions, int) else versions or ()
        if not all(-_MOST_VERSION <= version <= _MOST_VERSION for version in reported):
            self._warn_once("gives policy versions that do not fit 32 bits; they are dropped")
            return None, None
        if versions is None or isinstance(versions, int):
            return versions, None
        if len(versions) != len(sampled.token_ids):
            self._warn_once("gives other numbers of policy versions than of token ids; the oldest is taken for all")
            return min(versions, default=None), None
        if len(set(versions)) > 1:
            return versions[0], Int32s(versions)
        return next(iter(versions), None), None

    def _warn_once(self, problem: str) -> None:
        if problem not in self._logged:
            self._logged.add(problem)
            logger.warning("%s %s", self._name, problem)


def on_from(sampling: Sampling, count: int, breaks: int) -> Sampling:
    """The sampling settings for the rest of an answer that was aborted after `count` tokens."""
    if not breaks:
        return sampling
    limit, seed = sampling.max_tokens, sampling.seed
    # The same seed would draw the same numbers once more.
    return sampling.model_copy(
        update={"max_tokens": None if limit is None else limit - count, "seed": None if seed is None else seed + breaks}
    )


def shared_suffix(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """The longest common suffix of two sequences of ids."""
    count = 0
    while count < min(len(one), len(other)) and one[-1 - count] == other[-1 - count]:
        count += 1
    return list(one[len(one) - count :])


def _packed(ids: Sequence[int]) -> Int32s:
    try:
        return Int32s(ids)
    except struct.error as error:
        raise ModelError(f"a token id does not fit 32 bits: {error}", retryable=False) from error


def _packed_logprobs(logprobs: Sequence[float]) -> Float32s | None:
    """The log-probabilities in 32 bits; None if one is missing or does not fit, because the rest would be at the
    wrong tokens.
    """
    try:
        return Float32s(logprobs)
    except (struct.error, OverflowError):
        return None
