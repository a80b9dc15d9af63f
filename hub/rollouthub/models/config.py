"""`ModelConfig`: which model, at which server, and how to call it. It is recorded with a run, so it holds no secret."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, cast

from pydantic import Field, ValidationInfo, field_validator

from rollouthub.errors import ConfigError
from rollouthub.generation import Sampling
from rollouthub.models.address import normal_base_url
from rollouthub.models.mock.mock_name import parse_mock_name
from rollouthub.models.provider_names import WIRE, split_name
from rollouthub.settings import OnResume
from rollouthub.values import Frozen

Lane = Literal["direct", "litellm", "openai", "tokens"]
Api = Literal["chat", "responses"]


def by_name(models: Any) -> Any:
    """Models in a user's notation, where a bare name stands for its configuration, as fields of `ModelConfig`."""
    if isinstance(models, str):
        return [{"name": models}]
    if isinstance(models, Mapping):
        return {role: _by_name(model) for role, model in cast(Mapping[Any, Any], models).items()}
    return [_by_name(model) for model in cast(Sequence[Any], models)] if isinstance(models, Sequence) else models


def roles_of(option: str, pairs: Sequence[str]) -> dict[str, str]:
    """`ROLE=MODEL` pairs as a mapping from role to model name.

    Raises:
        ConfigError: a pair is not of this form.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, model = pair.partition("=")
        if not name or not model:
            raise ConfigError(f"{option} {pair!r} is not ROLE=MODEL, for example {option} judge=mock/say?text=yes")
        found[name] = model
    return found


def _by_name(model: Any) -> Any:
    return {"name": model} if isinstance(model, str) else model


class ModelConfig(Frozen):
    """A model by its litellm name. The key comes from `Credentials` when the model is opened."""

    name: str
    """litellm's name (`hosted_vllm/NAME`, `openai/NAME`, `anthropic/NAME` …), `sglang/NAME`, `mock/KIND?key=value`."""
    base_url: Annotated[str | None, OnResume.HARMLESS] = None
    """The server's base URL; None takes it from the provider's environment variable."""
    replicas: Annotated[tuple[str, ...], OnResume.HARMLESS] = ()
    """Further servers of the same model, beside `base_url`."""
    lane: Annotated[Lane | None, OnResume.HARMLESS] = None
    """The client that carries the calls; None takes the direct lane where the model allows it, else litellm."""
    api: Annotated[Api | None, OnResume.HARMLESS] = None
    """Which API the openai lane calls; None takes Responses at OpenAI's own service, and Chat Completions elsewhere and
    for calls with a seed or stop texts.
    """
    batch: Annotated[bool, OnResume.HARMLESS] = False
    """Whether calls are collected and sent by the Batch API."""
    fallbacks: tuple["ModelConfig", ...] = ()
    """Models to try, in order, when this one fails for good."""
    sampling: Sampling = Sampling()
    """Sampling settings for requests that do not set them."""
    max_tries: Annotated[int, OnResume.HARMLESS] = Field(default=4, ge=1, le=100)
    """Most tries of one call, including the first."""
    max_connections: Annotated[int, OnResume.HARMLESS] = Field(default=2048, ge=1)
    """Most calls in flight at once; further ones wait. It is capped by the process's limit of open files."""
    requests_per_minute: Annotated[int | None, OnResume.HARMLESS] = Field(default=None, ge=1)
    """Most calls begun in any 60 seconds, over all replicas; None is no limit."""
    tokens_per_minute: Annotated[int | None, OnResume.HARMLESS] = Field(default=None, ge=1)
    """Most prompt and output tokens in any 60 seconds, over all replicas; None is no limit."""
    budget: Annotated[float | None, OnResume.HARMLESS] = Field(default=None, ge=0)
    """Most US dollars that this model may cost in one run; None is no limit. It needs a known price."""
    price_prompt: Annotated[float | None, OnResume.PRICE] = Field(default=None, ge=0)
    """US dollars per million prompt tokens; None takes litellm's price list."""
    price_output: Annotated[float | None, OnResume.PRICE] = Field(default=None, ge=0)
    """US dollars per million output tokens; None takes litellm's price list."""

    @field_validator("fallbacks", mode="before")
    @classmethod
    def _names_alone(cls, fallbacks: object) -> object:
        return by_name(fallbacks)

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        provider, rest = split_name(name)
        if provider == "mock":
            parse_mock_name(rest)
        return name

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, base_url: str | None, info: ValidationInfo) -> str | None:
        return None if base_url is None else _normal(base_url, info)

    @field_validator("replicas")
    @classmethod
    def _check_replicas(cls, replicas: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        return tuple(_normal(url, info) for url in replicas)

    def cost(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """Cost of a call in US dollars at the configured prices; None if no price is configured."""
        if self.price_prompt is None and self.price_output is None:
            return None
        return (prompt_tokens * (self.price_prompt or 0.0) + output_tokens * (self.price_output or 0.0)) / 1e6


def _normal(base_url: str, info: ValidationInfo) -> str:
    provider = split_name(str(info.data["name"]))[0] if "name" in info.data else ""
    return normal_base_url(base_url, is_wire=provider in WIRE)
