"""The model that plays: made from a request's settings, and checked against them."""

from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.provider_names import POLICY_NAME

_OF_THE_MODEL = (
    "base_url",
    "lane",
    "api",
    "fallbacks",
    "requests_per_minute",
    "tokens_per_minute",
    "budget",
    "price_prompt",
    "price_output",
)


def policy_model(request: RunRequest) -> ModelConfig | None:
    """The model that plays, as the request describes it."""
    if request.model is None:
        return None
    return ModelConfig(
        name=request.model,
        base_url=next(iter(request.base_url), None),
        replicas=request.base_url[1:],
        lane=request.lane,
        api=request.api,
        batch=request.batch,
        fallbacks=request.fallbacks,
        requests_per_minute=request.requests_per_minute,
        tokens_per_minute=request.tokens_per_minute,
        budget=request.budget,
        max_tries=request.max_tries,
        price_prompt=request.price_prompt,
        price_output=request.price_output,
    )


def with_default_model(request: RunRequest, credentials: Credentials) -> RunRequest:
    """The request with the model of NeMo Gym's `env.yaml`, where it names neither a model nor who plays."""
    if request.model is not None or request.agent is not None or request.seats:
        return request
    name = credentials.get(POLICY_NAME)
    return request if name is None else request.model_copy(update={"model": f"policy/{name}"})


def check_policy_model(request: RunRequest) -> None:
    """Refuse settings that would have no effect on the model that plays, such as a base URL without a model.

    Raises:
        ConfigError: names the settings, and says what to do.
    """
    if request.model is None:
        if given := [name for name in _OF_THE_MODEL if getattr(request, name) not in (None, ())]:
            raise ConfigError(f"{', '.join(given)} is given, but no model; name one: -m hosted_vllm/NAME")
        return
    longest, tokens = request.sampling.max_tokens, request.tokens_per_minute
    if longest is not None and tokens is not None and longest > tokens:
        raise ConfigError(f"an answer of max_tokens = {longest} never fits into tokens_per_minute = {tokens}; lower it")
    if request.base_url and request.model.startswith("mock/"):
        shown = ", ".join(request.base_url)
        raise ConfigError(
            f"{request.model!r} answers in this process and uses no server; for the one at {shown} "
            f"name it hosted_vllm/{request.model}, or leave the base URL out"
        )
