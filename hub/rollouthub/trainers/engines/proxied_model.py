"""A model whose every rollout has an address of its own, as gateways that record by address or key want it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.direct.lane import open_direct
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.provider_names import split_name
from rollouthub.protocols import Model, ModelReply, ModelRequest


@dataclass(slots=True, eq=False)
class Lane:
    """One rollout's way to its model."""

    model: Model = field(repr=False)
    calls: int = 0
    """Answers that came back over it."""


class ProxiedModel:
    """Answers a rollout's calls over the lane that is open for it."""

    def __init__(self, name: str, *, max_tries: int, overflow: str | None = None) -> None:
        """`overflow` is what the gateway says, with another status than is usual, where a conversation is too long."""
        self._name, self._max_tries, self._overflow = name, max_tries, overflow
        self._lanes: dict[str, Lane] = {}

    @property
    def name(self) -> str:
        """As it is recorded."""
        return self._name

    @asynccontextmanager
    async def lane(self, rollout_id: str, base_url: str, api_key: str | None) -> AsyncGenerator[Lane]:
        """Send a rollout's calls to a base URL, for as long as the block lasts."""
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
            ContextLimitError: the conversation does not fit.
            ModelError: the gateway failed, or the rollout has no lane.
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
        lane.calls += 1
        return reply
