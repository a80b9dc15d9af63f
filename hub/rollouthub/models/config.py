"""`ModelConfig`: which model, where, and how to call it; what is recorded of it, so no secret is in it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from pydantic import Field, ValidationInfo, field_validator

from rollouthub.errors import ConfigError
from rollouthub.frozen import Frozen
from rollouthub.models.address import normal_base_url
from rollouthub.models.mock.mock_name import parse_mock_name
from rollouthub.models.provider_names import WIRE, split_name
from rollouthub.protocols import Sampling

Lane = Literal["direct", "litellm", "tokens"]


def by_name(models: Any) -> Any:
    """Models as a user gives them, some by their names alone, as fields of `ModelConfig`."""
    if isinstance(models, str):
        return [{"name": models}]
    if isinstance(models, Mapping):
        return {role: _by_name(model) for role, model in cast(Mapping[Any, Any], models).items()}
    return [_by_name(model) for model in cast(Sequence[Any], models)] if isinstance(models, Sequence) else models


def roles_of(option: str, pairs: Sequence[str]) -> dict[str, str]:
    """`ROLE=MODEL` pairs as names of models by role.

    Raises:
        ConfigError: one is none.
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
    """litellm's name (`hosted_vllm/NAME`, `openai/NAME`, `anthropic/NAME` …) or `mock/KIND?key=value`."""
    base_url: str | None = None
    """The server; None takes it from the provider's environment variable."""
    replicas: tuple[str, ...] = ()
    """Further servers of the same model, beside `base_url`."""
    lane: Lane | None = None
    """How calls travel; None takes the direct lane where the model allows it, else litellm's."""
    fallbacks: tuple["ModelConfig", ...] = ()
    """Models to ask, in order, when this one fails for good."""
    sampling: Sampling = Sampling()
    """What a request leaves unset."""
    max_tries: int = Field(default=4, ge=1, le=100)
    """Tries of one call, the first included."""
    max_connections: int = Field(default=2048, ge=1)
    """Calls in flight at once; further ones wait. Capped by the process's limit of open files."""
    requests_per_minute: int | None = Field(default=None, ge=1)
    """Most calls begun in any 60 seconds, over all replicas; None is no limit."""
    tokens_per_minute: int | None = Field(default=None, ge=1)
    """Most prompt and output tokens in any 60 seconds, over all replicas; None is no limit."""
    budget: float | None = Field(default=None, ge=0)
    """US dollars this model may cost in one run; None is no limit. Needs a known price."""
    price_prompt: float | None = Field(default=None, ge=0)
    """US dollars per million prompt tokens; None takes litellm's price list."""
    price_output: float | None = Field(default=None, ge=0)
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
        """US dollars of a call at the prices given here; None where none is."""
        if self.price_prompt is None and self.price_output is None:
            return None
        return (prompt_tokens * (self.price_prompt or 0.0) + output_tokens * (self.price_output or 0.0)) / 1e6


def _normal(base_url: str, info: ValidationInfo) -> str:
    provider = split_name(str(info.data["name"]))[0] if "name" in info.data else ""
    return normal_base_url(base_url, is_wire=provider in WIRE)
