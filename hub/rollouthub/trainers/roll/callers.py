"""The model of episodes that ROLL generates for: each call goes back to whoever asked for the episode."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec

from rollouthub.errors import ContextLimitError, ModelError, describe
from rollouthub.models.direct.chat_wire import encode_tools, to_wire
from rollouthub.models.direct.completion import BadAnswer, as_reply, parse_answer
from rollouthub.protocols import ModelReply, ModelRequest, Sampling

FIELD = "user"
"""Of the request body: who asks."""
_TOO_LONG = "max_length"
_MOST_TOLD = 500

Caller = Callable[[ModelRequest], Awaitable[ModelReply]]


class CallersModel:
    """Answers each call by asking the caller that its sampling names."""

    name = "roll/policy"

    def __init__(self) -> None:
        self._callers: dict[str, Caller] = {}

    def add(self, caller: Caller) -> str:
        """Whom to ask from now on, and the name to ask for it by."""
        name = uuid4().hex
        self._callers[name] = caller
        return name

    def remove(self, name: str) -> None:
        """Nobody asks for it any more."""
        self._callers.pop(name, None)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request.

        Raises:
            ContextLimitError: the conversation does not fit.
            ModelError: there is no such caller, or it failed.
        """
        caller = self._callers.get(str(request.sampling.extra.get(FIELD)))
        if caller is None:
            raise ModelError("whoever asked for the episode is gone", retryable=False)
        return await caller(request)


def asked_by(name: str) -> Sampling:
    """The sampling that names a caller; how ROLL samples, it decides itself."""
    return Sampling(extra={FIELD: name})


class ProxyCaller:
    """Asks ROLL's proxy, which knows environments by their number as the key."""

    def __init__(self, base_url: str, env_id: int, session: aiohttp.ClientSession) -> None:
        self._url, self._env_id, self._session = f"{base_url}/v1/chat/completions", env_id, session

    async def __call__(self, request: ModelRequest) -> ModelReply:
        """Answer one request.

        Raises:
            ContextLimitError: the conversation does not fit.
            ModelError: the proxy failed, or has given the episode up. A call is tried once: each is recorded there.
        """
        body = msgspec.json.encode(proxied(request))
        headers = {"Authorization": f"Bearer {self._env_id}", "Content-Type": "application/json"}
        try:
            async with self._session.post(self._url, data=body, headers=headers) as response:
                raw, status = await response.read(), response.status
        except (aiohttp.ClientError, OSError) as error:
            raise ModelError(f"no answer from {self._url}: {describe(error)}", retryable=False) from error
        if status != 200:
            told = raw[:_MOST_TOLD].decode(errors="replace")
            if status == 400 and _TOO_LONG in told:
                raise ContextLimitError(f"ROLL's sequence length is reached: {told}")
            raise ModelError(f"{self._url} answered {status}: {told}", status=status, retryable=False)
        try:
            reply, _ = as_reply(
                parse_answer(raw), turn=len(request.messages), version_header=None, price=_unpriced, retries=0
            )
        except BadAnswer as error:
            raise ModelError(f"{self._url}: {error}", retryable=False) from error
        return reply


def _unpriced(prompt_tokens: int, output_tokens: int) -> None:
    """The policy's own tokens have no price."""


def proxied(request: ModelRequest) -> dict[str, Any]:
    """The request's body, as ROLL's runners send it."""
    tools = request.tools
    return {
        "messages": [to_wire(message, request.media, with_reasoning=False) for message in request.messages],
        "tools": encode_tools(tools) if tools else [],
        "tool_choice": "auto" if tools else "none",
    }
