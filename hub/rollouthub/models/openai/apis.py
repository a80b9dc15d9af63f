"""Which API of the openai lane carries a call: the configured one, else the one that has what the call asks for."""

from rollouthub.generation import ModelRequest, Sampling
from rollouthub.models.config import ModelConfig
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.openai.api_wire import ApiWire
from rollouthub.models.openai.chat_api import ChatApi
from rollouthub.models.openai.responses_api import ResponsesApi
from rollouthub.models.prices import Price


class Apis:
    """The APIs that a model's calls may take."""

    def __init__(self, config: ModelConfig, endpoint: Endpoint, price: Price | None) -> None:
        """Raises `ConfigError`: the model's own sampling settings do not fit the API."""
        is_free = config.api is None and endpoint.is_openai and not _is_chats_alone(config.sampling)
        self._chat: ApiWire | None = None
        if is_free or config.api != "responses":
            self._chat = ChatApi(config, endpoint, price)
        self._responses = ResponsesApi(config, endpoint, price) if is_free or config.api == "responses" else None

    def of(self, sampling: Sampling) -> ApiWire:
        """The API for a call with these sampling settings."""
        if self._responses is None or (self._chat is not None and _is_chats_alone(sampling)):
            assert self._chat is not None, "a model has one of the two"
            return self._chat
        return self._responses

    def of_request(self, request: ModelRequest) -> ApiWire:
        """The API for a request."""
        return self.of(request.sampling)


def _is_chats_alone(sampling: Sampling) -> bool:
    """Whether settings are asked for that only Chat Completions has."""
    return sampling.seed is not None or sampling.stop is not None
