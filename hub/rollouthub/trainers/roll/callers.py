"""The model for episodes whose answers ROLL generates: each call goes to the caller that requested the episode."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import msgspec

from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.http.exchange import HttpPool
from rollouthub.http.no_answer import NoAnswer
from rollouthub.messages import media_of
from rollouthub.models.direct.answer_bounds import BadAnswer
from rollouthub.models.direct.chat_wire import encode_tools, to_wire
from rollouthub.models.direct.completion import as_reply, parse_answer

FIELD = "user"
"""Key in `Sampling.extra` that holds the caller's name."""
_TOO_LONG = "max_length"

Caller = Callable[[ModelRequest], Awaitable[ModelReply]]


class CallersModel:
    """A model that passes each call on to the caller whose name is in the call's sampling settings."""

    name = "roll/policy"

    def __init__(self) -> None:
        self._callers: dict[str, Caller] = {}

    def add(self, caller: Caller) -> str:
        """Register a caller. Returns the name by which `asked_by` selects it."""
        name = uuid4().hex
        self._callers[name] = caller
        return name

    def remove(self, name: str) -> None:
        """Remove a caller; later calls for it fail."""
        self._callers.pop(name, None)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request.

        Raises:
            ContextLimitError: the conversation is too long.
            ModelError: there is no such caller, or it failed.
        """
        caller = self._callers.get(str(request.sampling.extra.get(FIELD)))
        if caller is None:
            raise ModelError("the caller that asked for the episode is gone", retryable=False)
        return await caller(request)


def asked_by(name: str) -> Sampling:
    """Sampling settings that select a caller by name. ROLL sets temperature and other generation settings itself."""
    return Sampling(extra={FIELD: name})


class ProxyCaller:
    """Sends model calls to ROLL's proxy, with the environment's number as the API key."""

    def __init__(self, base_url: str, env_id: int, pool: HttpPool) -> None:
        self._url, self._env_id, self._pool = f"{base_url}/v1/chat/completions", env_id, pool

    async def __call__(self, request: ModelRequest) -> ModelReply:
        """Answer one request, without retries, because ROLL's proxy records every call.

        Raises:
            ContextLimitError: the conversation is too long.
            ModelError: the proxy failed, or has given the episode up; or the conversation shows pictures.
        """
        if any(media_of(request.messages)):
            raise ModelError(
                "ROLL's proxy keeps the text of messages alone, and its policy would not see their pictures; use a "
                "trainer whose adapter supports pictures",
                retryable=False,
            )
        body = msgspec.json.encode(proxied(request))
        headers = {"Authorization": f"Bearer {self._env_id}", "Content-Type": "application/json"}
        try:
            answer = await self._pool.exchange("POST", self._url, body, headers, seconds=None)
        except NoAnswer as error:
            raise ModelError(f"no answer from {self._url}: {error}", retryable=False) from error
        if answer.status != 200:
            if answer.status == 400 and _TOO_LONG in answer.words:
                raise ContextLimitError(f"ROLL's sequence length is reached: {answer.words}")
            raise ModelError(f"{self._url} answered {answer.words}", status=answer.status, retryable=False)
        try:
            parsed = parse_answer(answer.body, with_bytes=request.wants_text_ends)
            reply, _ = as_reply(parsed, turn=len(request.messages), version_header=None, price=_unpriced, retries=0)
        except BadAnswer as error:
            raise ModelError(f"{self._url}: {error}", retryable=False) from error
        return reply


def _unpriced(prompt_tokens: int, output_tokens: int) -> None:
    """Price of a call: None, because the trainer's own policy has no price."""


def proxied(request: ModelRequest) -> dict[str, Any]:
    """The request's body in the form that ROLL's own runners send."""
    tools = request.tools
    return {
        "messages": [to_wire(message, request.media, with_reasoning=False) for message in request.messages],
        "tools": encode_tools(tools) if tools else [],
        "tool_choice": "auto" if tools else "none",
    }
