"""The dialect for each path of the model API; those that need litellm are loaded at first use."""

from functools import cache

from rollouthub.gateway.model_api.dialect import Dialect

PATHS = ("chat/completions", "responses", "messages")
COUNT_TOKENS = "messages/count_tokens"


def dialect_of(path: str) -> Dialect | None:
    """The dialect for a path below `/v1/`; None if there is none."""
    return _load(path) if path in PATHS else None


async def make_ready(path: str) -> None:
    """Load what the dialect of a path needs to parse a request, without blocking the event loop.

    Raises:
        CallRefused: litellm is not installed.
    """
    if path in ("responses", "messages"):
        from rollouthub.gateway.model_api.litellm_translation import prepare

        await prepare(path)


@cache
def _load(path: str) -> Dialect:
    if path == "chat/completions":
        from rollouthub.gateway.model_api.chat_dialect import Chat

        return Chat()
    if path == "responses":
        from rollouthub.gateway.model_api.responses_dialect import Responses

        return Responses()
    from rollouthub.gateway.model_api.anthropic_messages import AnthropicMessages

    return AnthropicMessages()


def counted_tokens(body: bytes) -> bytes:
    """The answer to `messages/count_tokens`: an estimate, without a model call.

    Raises:
        ValueError: the body is not a valid request.
    """
    from rollouthub.gateway.model_api.anthropic_messages import count_tokens

    return count_tokens(body)
