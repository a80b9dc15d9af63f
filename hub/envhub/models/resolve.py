"""From a model's name to an open model: which lane, which server, which key."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from envhub.errors import ConfigError, CredentialError
from envhub.models.address import is_loopback, normal_base_url
from envhub.models.config import PROVIDERS, ModelConfig, split_name
from envhub.models.credentials import Credentials
from envhub.models.direct import Endpoint, open_direct
from envhub.models.mock import MockModel
from envhub.protocols import Model

__all__ = ["PROVIDERS", "ModelConfig", "find_endpoint", "open_model"]

_BASE_URLS = {"hosted_vllm": ("HOSTED_VLLM_API_BASE",), "openai": ("OPENAI_BASE_URL", "OPENAI_API_BASE")}
_KEYS = {"hosted_vllm": "HOSTED_VLLM_API_KEY", "openai": "OPENAI_API_KEY"}


@asynccontextmanager
async def open_model(config: ModelConfig, credentials: Credentials) -> AsyncGenerator[Model]:
    """Open the model a configuration names; it is closed on the way out.

    Raises:
        ConfigError: no server is known for it, or its mock name does not hold.
        CredentialError: its key is missing.
    """
    if split_name(config.name)[0] == "mock":
        yield MockModel(config)
        return
    endpoint = find_endpoint(config, credentials)
    async with open_direct(config, endpoint, redact=credentials.redact) as model:
        yield model


def find_endpoint(config: ModelConfig, credentials: Credentials) -> Endpoint:
    """Where a `hosted_vllm/…` or `openai/…` model is served, and with which key.

    Raises:
        ConfigError: no base URL is given.
        CredentialError: the key is missing.
    """
    provider, served_name = split_name(config.name)
    variables, key_name = _BASE_URLS[provider], _KEYS[provider]
    given = config.base_url or credentials.get(*variables)
    if given is None:
        raise ConfigError(
            f"no server is known for {config.name!r}: give its base URL (--base-url http://127.0.0.1:8000/v1) "
            f"or set {' or '.join(variables)}"
        )
    base_url = normal_base_url(given)
    api_key = credentials.key(key_name)
    if api_key is None and provider == "openai" and not is_loopback(base_url):
        raise CredentialError(
            f"{config.name!r} at {base_url} needs a key: set the environment variable {key_name}, "
            f"or put {key_name} into an untracked env.yaml or .env in the working directory"
        )
    return Endpoint(served_name, base_url, key_name, api_key, is_vllm=provider == "hosted_vllm")
