"""`mock/…`: models that answer at once and deterministically, to try a set-up before paying for a real model."""

import time
from collections import OrderedDict

import anyio

from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.generation import ModelReply, ModelRequest
from rollouthub.messages import Message
from rollouthub.models.call_counts import CallCounts
from rollouthub.models.config import ModelConfig, split_name
from rollouthub.models.mock.behaviours import chance, make_mind
from rollouthub.models.mock.byte_tokens import output_ids, packed, prompt_ids, spoken, token_bytes
from rollouthub.models.mock.mock_name import parse_mock_name
from rollouthub.models.mock.pieces import pieces
from rollouthub.models.text_ends import text_ends
from rollouthub.rollout import Usage
from rollouthub.values import Int32s

_REMEMBERED = 65_536


class SimulatedRateLimit(ModelError):
    """A simulated HTTP 429 with a `Retry-After` in seconds."""

    def __init__(self, retry_after_seconds: float) -> None:
        super().__init__("simulated rate limit", status=429, retry_after_seconds=retry_after_seconds)


class MockModel:
    """A scripted model in this process. Its behaviour follows from its name, the conversation and the seed."""

    def __init__(self, config: ModelConfig) -> None:
        """Parse the name, and read the script that it may name.

        Raises:
            ConfigError: the name is invalid, or its script cannot be read.
        """
        self.name = config.name
        self.mock = parse_mock_name(split_name(config.name)[1])
        self.counts = CallCounts()
        self._config = config
        self._mind = make_mind(self.mock)
        # How often a conversation was refused since it last went through: what lets a retry draw anew, in any order.
        self._refused: OrderedDict[int, int] = OrderedDict()

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """Cost of a call in US dollars at the configured prices; None if none is configured."""
        return self._config.cost(prompt_tokens, output_tokens)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request; a simulated failure is raised, not retried. A stream gets the answer word by word.

        Raises:
            ContextLimitError: the conversation is longer than the name's `context`.
            ModelError: a simulated failure, or the script has no further turn.
        """
        counts = self.counts
        counts.in_flight += 1
        counts.calls += 1
        started = time.perf_counter()
        try:
            reply = await self._answer(request)
        except ModelError as error:
            counts.errors += error.status is None or error.status >= 500
            raise
        finally:
            counts.in_flight -= 1
        counts.latest.append(time.perf_counter() - started)
        return reply

    async def _answer(self, request: ModelRequest) -> ModelReply:
        mock = self.mock
        prompt = Int32s(prompt_ids(request.messages, request.tools))
        if mock.latency_seconds[1]:
            await self._wait(request, prompt)
        if mock.fail or mock.ratelimit:
            self._maybe_fail(request, prompt)
        cap = self._cap(request, len(prompt))
        message = self._mind(request)
        output = output_ids(spoken(message))
        finish_reason = "tool_calls" if message.tool_requests else "stop"
        if cap is not None and len(output) > cap:
            message, output = _cut(output, cap)
            finish_reason = "length"
        if (stream := request.stream) is not None:
            for delta in pieces(message):
                await stream.write(delta)
        ids, logprobs = packed(output)
        return ModelReply(
            message=message,
            finish_reason=finish_reason,
            usage=Usage(prompt_tokens=len(prompt), output_tokens=len(output)),
            cost=self._config.cost(len(prompt), len(output)),
            prompt_token_ids=prompt,
            output_token_ids=ids,
            output_logprobs=logprobs,
            output_text_ends=text_ends([token_bytes(token) for token in output], message)
            if request.wants_text_ends
            else None,
        )

    async def _wait(self, request: ModelRequest, prompt: Int32s) -> None:
        low, high = self.mock.latency_seconds
        seconds = low
        if high > low:
            seconds += (high - low) * chance("latency", self.mock.seed, request.sampling.seed, prompt.raw)
        await anyio.sleep(min(seconds, request.timeout_seconds))
        if seconds > request.timeout_seconds:
            raise ModelError(f"no answer within {request.timeout_seconds:g} s")

    def _maybe_fail(self, request: ModelRequest, prompt: Int32s) -> None:
        mock = self.mock
        key = hash((prompt, request.sampling.seed))
        refused = self._refused.pop(key, 0)
        draw = chance("fault", mock.seed, request.sampling.seed, refused, prompt.raw)
        if draw >= mock.fail + mock.ratelimit:
            return
        self._refused[key] = refused + 1
        if len(self._refused) > _REMEMBERED:
            self._refused.popitem(last=False)
        if draw < mock.fail:
            raise ModelError("simulated failure", status=500)
        raise SimulatedRateLimit(mock.retry_after_seconds)

    def _cap(self, request: ModelRequest, prompt_tokens: int) -> int | None:
        """The most tokens that the answer may have; None without a limit.

        Raises:
            ContextLimitError: the prompt fills the context.
        """
        cap, context = request.sampling.max_tokens, self.mock.context
        if cap is None:
            cap = self._config.sampling.max_tokens
        if context is None:
            return cap
        if prompt_tokens >= context:
            raise ContextLimitError(
                f"This model's maximum context length is {context} tokens. However, your prompt contains "
                f"{prompt_tokens} input tokens. Please reduce the length of the input prompt."
            )
        return context - prompt_tokens if cap is None else min(cap, context - prompt_tokens)


def _cut(output: list[int], cap: int) -> tuple[Message, list[int]]:
    """An answer truncated to its first tokens; truncated tool calls or reasoning become plain text, as without a
    parser.
    """
    # Without the bytes of a character cut in two, so that ids and words still say the same.
    text = bytes(output[:cap]).decode(errors="ignore")
    return Message(role="assistant", content=text), list(text.encode())
