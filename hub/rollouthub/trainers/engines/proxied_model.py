"""A model that reaches a separate address for every rollout, for gateways that record calls by address or key."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.generation import Model, ModelReply, ModelRequest
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.direct.lane import open_direct
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.provider_names import split_name


@dataclass(slots=True, eq=False)
class Lane:
    """One rollout's connection to the model."""

    model: Model = field(repr=False)
    replies: list[ModelReply] = field(default_factory=list[ModelReply], repr=False)
    """The answers to this rollout's model calls, in the order in which they arrived."""


class ProxiedModel:
    """Sends a rollout's model calls over the lane that is open for it."""

    def __init__(self, name: str, *, max_tries: int, overflow: str | None = None) -> None:
        """`overflow` is text in the gateway's error by which a too long conversation is recognised, for gateways
        that answer it with an unusual status.
        """
        self._name, self._max_tries, self._overflow = name, max_tries, overflow
        self._lanes: dict[str, Lane] = {}

    @property
    def name(self) -> str:
        """The model's name, as recorded in rollouts."""
        return self._name

    @asynccontextmanager
    async def lane(self, rollout_id: str, base_url: str, api_key: str | None) -> AsyncGenerator[Lane]:
        """Send a rollout's calls to a base URL, within the block."""
        served = split_name(self._name)[1]
        endpoint = Endpoint(served, base_url.rstrip("/"), "the session's key", api_key=api_key)
        secrets = Credentials({"SESSION_KEY": api_key or ""})
        config = ModelConfig(name=self._name, max_tries=self._max_tries)
        async with open_direct(config, endpoint, redact=secrets.redact) as model:
            self._lanes[rollout_id] = lane = Lane(model)
            try:
                yield lane
            finally:
                del self._lanes[rollout_id]

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request.

        Raises:
            ContextLimitError: the conversation is too long for the model.
            ModelError: the gateway failed, or the rollout has no open lane.
        """
        lane = self._lanes.get(request.session)
        if lane is None:
            raise ModelError(f"rollout {request.session} has no session at the gateway", retryable=False)
        try:
            reply = await lane.model.generate(request)
        except ModelError as error:
            if self._overflow is not None and self._overflow in str(error):
                raise ContextLimitError(str(error)) from error
            raise
        lane.replies.append(reply)
        return reply
