"""Opens a model by its name: chooses the lane, the server and the key."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from rollouthub.errors import ConfigError, CredentialError
from rollouthub.generation import Model
from rollouthub.models.address import is_loopback, normal_base_url
from rollouthub.models.batch_run import BatchRun, check_batched
from rollouthub.models.config import Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.endpoint import Dialect, Endpoint
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.provider_names import (
    OPENAI_BASE_URL,
    WIRE,
    ProviderModel,
    identify,
    speaks_responses_alone,
    split_name,
)
from rollouthub.models.registered import at_registered, find_registered

_DIALECTS: dict[str, Dialect] = {"hosted_vllm": "vllm", "sglang": "sglang"}


@asynccontextmanager
async def open_model(
    config: ModelConfig, credentials: Credentials, batches: BatchRun | None = None
) -> AsyncGenerator[Model]:
    """Open a configured model with its replicas, limits and fallbacks; closed with the context.

    `batches` keeps the batches of a batched model.

    Raises:
        ConfigError: no provider serves the model, its server is unknown, or the chosen lane does not support it.
        CredentialError: its credentials are missing.
    """
    if config.batch:
        config = addressed(config, credentials)
        endpoint = find_endpoint(config.model_copy(update={"lane": config.lane or "openai"}), credentials)
        check_batched(config, endpoint, batches)
        assert endpoint is not None, "a model without one is refused"
        assert batches is not None, "as above"
        from rollouthub.models.openai.openai_package import load_openai

        await load_openai(f"model {config.name!r}, in batches,")
        from rollouthub.models.openai.batch_model import open_batched

        async with open_batched(config, endpoint, batches, redact=credentials.redact) as model:
            yield model
        return
    if not needs_router(config):
        async with open_lane(config, None, credentials) as model:
            yield model
        return
    from rollouthub.models.relocation import relocating  # a bare mock needs none of it
    from rollouthub.models.router import open_router

    async with open_router(addressed(config, credentials), credentials, relocating(open_lane)) as model:
        yield model


def addressed(config: ModelConfig, credentials: Credentials) -> ModelConfig:
    """The configuration, and its fallbacks, with the address from the environment, on which prices depend.

    If no address is given, the servers of `hub serve model` are used.

    Raises:
        ConfigError: the model is registered, and none of its servers takes calls.
    """
    registered = find_registered(config, credentials.get)
    if registered is not None:
        config = at_registered(config, registered)
    wire = WIRE.get(split_name(config.name)[0])
    given = config.base_url or (credentials.get(*wire.base_urls) if wire is not None else None)
    return config.model_copy(
        update={
            "base_url": normal_base_url(given) if wire is not None and given is not None else given,
            "fallbacks": tuple(addressed(fallback, credentials) for fallback in config.fallbacks),
        }
    )


def needs_router(config: ModelConfig) -> bool:
    """Whether calls must go through a router: for real servers, which may fail, and for replicas, fallbacks or
    limits.
    """
    if split_name(config.name)[0] != "mock":
        return True
    limits = (config.requests_per_minute, config.tokens_per_minute, config.budget)
    return bool(config.replicas or config.fallbacks) or any(limit is not None for limit in limits)


@asynccontextmanager
async def open_lane(config: ModelConfig, base_url: str | None, credentials: Credentials) -> AsyncGenerator[Model]:
    """Open a lane to one server of a model, without a router; `base_url` overrides the configuration's.

    Raises:
        ConfigError, CredentialError: as `open_model`.
    """
    if split_name(config.name)[0] == "mock":
        if config.lane is not None:
            raise ConfigError(f"{config.name!r} answers in this process and takes no lane; leave {config.lane!r} out")
        yield MockModel(config)
        return
    if base_url is not None:
        config = config.model_copy(update={"base_url": base_url})
    endpoint = find_endpoint(config, credentials)
    if endpoint is not None and choose_lane(config, endpoint) == "tokens":
        from rollouthub.models.tokens.tokens_lane import open_tokens  # aiohttp, as below

        async with open_tokens(config, endpoint, redact=credentials.redact) as model:
            yield model
        return
    if endpoint is not None and choose_lane(config, endpoint) == "direct":
        from rollouthub.models.direct.lane import open_direct  # aiohttp, which a mock and the oracle do without

        async with open_direct(config, endpoint, redact=credentials.redact) as model:
            yield model
        return
    identity: ProviderModel | None = None
    if endpoint is None:
        choose_lane(config, None)
        identity = await identify(config.name, credentials, config.base_url)
        endpoint = _bare_endpoint(config, identity, credentials)
    if endpoint is not None and choose_lane(config, endpoint) == "openai":
        from rollouthub.models.openai.openai_package import load_openai

        await load_openai(f"model {config.name!r}, on the openai lane,")
        from rollouthub.models.openai.lane import open_openai

        async with open_openai(config, endpoint, redact=credentials.redact) as model:
            yield model
        return
    if identity is None:
        assert endpoint is not None, "who has no endpoint is asked for above"
        provider = split_name(config.name)[0]
        known = "openai" if provider == "policy" else provider  # as litellm knows it
        identity = ProviderModel(known, endpoint.served_name, key_name=endpoint.key_name)
    from rollouthub.models.litellm.lane import open_litellm  # which needs httpx

    address = config.base_url if endpoint is None else endpoint.base_url
    async with open_litellm(config, identity, base_url=address, endpoint=endpoint, redact=credentials.redact) as model:
        yield model


def choose_lane(config: ModelConfig, endpoint: Endpoint | None) -> Lane:
    """The lane for a model's calls; `endpoint` is its server with the OpenAI API, if any.

    Raises:
        ConfigError: the configured lane does not support the model.
    """
    if config.lane == "tokens" and (endpoint is None or not endpoint.gives_ids):
        raise ConfigError(
            f"the tokens lane cannot carry {config.name!r}: it speaks to hosted_vllm/NAME and sglang/NAME alone; "
            "leave the lane out, or name the model so"
        )
    if config.lane == "litellm" and endpoint is not None and endpoint.dialect == "sglang":
        raise ConfigError(
            f"the litellm lane cannot carry {config.name!r}: litellm knows no SGLang; leave the lane out, or name the "
            "model hosted_vllm/NAME, whose fields for token ids SGLang does not know"
        )
    if config.api is not None and config.lane not in (None, "openai"):
        raise ConfigError(
            f"api = {config.api!r} is the openai lane's to choose, and {config.name!r} is called on the {config.lane} "
            "lane; leave one of them out"
        )
    if endpoint is None:
        if config.lane in ("direct", "openai"):
            where = " with a base URL" if config.lane == "direct" else ""
            raise ConfigError(
                f"the {config.lane} lane cannot carry {config.name!r}: it speaks to hosted_vllm/NAME, sglang/NAME, and "
                f"openai/NAME{where}, alone; leave the lane out, or take --lane litellm"
            )
        return "litellm"
    if config.lane is not None:
        return config.lane
    if config.api is not None or (endpoint.is_openai and speaks_responses_alone(endpoint.served_name)):
        return "openai"
    # OpenAI's own service has quirks by model, which litellm knows.
    return "litellm" if endpoint.is_openai else "direct"


def find_endpoint(config: ModelConfig, credentials: Credentials) -> Endpoint | None:
    """The server and key of a `hosted_vllm/…`, `sglang/…` or `openai/…` model; None for any other name.

    Raises:
        ConfigError: no base URL is given.
        CredentialError: the key is missing.
    """
    provider, served_name = split_name(config.name)
    if not provider and config.lane == "openai":
        provider = "openai"
    wire = WIRE.get(provider)
    if wire is None:
        return None
    given = config.base_url or credentials.get(*wire.base_urls)
    is_openai = provider == "openai"
    if given is None and (not is_openai or config.lane == "direct"):
        openais = f" ({OPENAI_BASE_URL} is OpenAI's own)" if is_openai else ""
        raise ConfigError(
            f"no server is known for {config.name!r}: give its base URL "
            f"(--base-url http://127.0.0.1:{30000 if provider == 'sglang' else 8000}/v1) "
            f"or set {' or '.join(wire.base_urls)}{openais}"
        )
    base_url = OPENAI_BASE_URL if given is None else normal_base_url(given)
    api_key = credentials.key(wire.key)
    if api_key is None and is_openai and not is_loopback(base_url):
        other = "" if given else "; for another server than OpenAI's own, give its base URL (--base-url)"
        raise CredentialError(
            f"{config.name!r} at {base_url} needs a key: set the environment variable {wire.key}, "
            f"or put {wire.key} into an untracked env.yaml or .env in the working directory{other}"
        )
    return Endpoint(served_name, base_url, wire.key, api_key, _DIALECTS.get(provider, "openai"))


def _bare_endpoint(config: ModelConfig, identity: ProviderModel, credentials: Credentials) -> Endpoint | None:
    """The server and key of an OpenAI model whose name has no provider (`gpt-4o-mini`); None for any other."""
    if identity.provider not in WIRE:
        return None
    full = config.model_copy(update={"name": f"{identity.provider}/{identity.served_name}"})
    return find_endpoint(full, credentials)
