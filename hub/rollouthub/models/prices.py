"""Prices of calls: the user's, else those of litellm's price map, read without importing litellm."""

import re
from dataclasses import dataclass, field
from typing import Any

from yarl import URL

from rollouthub.models.config import ModelConfig
from rollouthub.models.litellm.package import find_litellm, price_map
from rollouthub.models.provider_names import split_name

_TIER = re.compile(r"(input|output)_cost_per_token_above_(\d+)k_tokens")
# Where a provider's own service is. A server elsewhere bills on its own terms, whatever it calls its models.
_HOSTS = {
    "anthropic": "anthropic.com",
    "deepseek": "deepseek.com",
    "gemini": "googleapis.com",
    "groq": "groq.com",
    "mistral": "mistral.ai",
    "openai": "openai.com",
    "openrouter": "openrouter.ai",
    "together_ai": "together.xyz",
    "xai": "x.ai",
}
# Providers every customer of whom has an address of its own.
_ADDRESS_PER_CUSTOMER = frozenset({"azure", "azure_ai", "bedrock", "databricks", "sagemaker", "vertex_ai", "watsonx"})


@dataclass(frozen=True)
class Price:
    """Prices in US dollars per million tokens."""

    prompt: float
    output: float
    cached: float | None = None
    """Price of prompt tokens read from a cache; None is the price of other prompt tokens."""
    tiers: tuple[tuple[int, "Price"], ...] = field(default=())
    """(tokens, price) pairs: the price of calls with more prompt tokens than that, highest first."""

    @property
    def halved(self) -> "Price":
        """Half of it: the price of batched calls."""
        cached = None if self.cached is None else self.cached / 2
        tiers = tuple((above, price.halved) for above, price in self.tiers)
        return Price(self.prompt / 2, self.output / 2, cached, tiers)

    def cost(self, prompt_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Cost of a call in US dollars; `prompt_tokens` includes `cached_tokens`, of which no more count."""
        for above, price in self.tiers:
            if prompt_tokens > above:
                return price.cost(prompt_tokens, output_tokens, cached_tokens)
        cached_price = self.prompt if self.cached is None else self.cached
        cached_tokens = min(cached_tokens, prompt_tokens)
        fresh = prompt_tokens - cached_tokens
        return (fresh * self.prompt + cached_tokens * cached_price + output_tokens * self.output) / 1e6


def find_price(config: ModelConfig, base_url: str | None = None) -> Price | None:
    """The price of a model's calls at a server; None if it is not known.

    The user's prices take precedence. `base_url` is the address that is called; None is the provider's own.
    """
    if config.price_prompt is not None or config.price_output is not None:
        return Price(config.price_prompt or 0.0, config.price_output or 0.0)
    provider, rest = split_name(config.name)
    entries = price_map(find_litellm())
    entry = entries.get(config.name)
    if entry is None and (found := entries.get(rest)) is not None and _provider(found) == provider:
        entry = found
    if entry is None or not is_own_service(provider or _provider(entry), base_url):
        return None
    return _price(entry)


def _provider(entry: dict[str, Any]) -> str:
    """The provider of an entry, without the suffix that some have (`vertex_ai-language-models`)."""
    return str(entry.get("litellm_provider", "")).partition("-")[0]


def is_own_service(provider: str, base_url: str | None) -> bool:
    """Whether a provider's list prices hold at an address: only if the address is the provider's own."""
    if base_url is None or provider in _ADDRESS_PER_CUSTOMER:
        return True
    host, own = URL(base_url).host or "", _HOSTS.get(provider)
    return own is not None and (host == own or host.endswith("." + own))


def _price(entry: dict[str, Any]) -> Price | None:
    """The price in an entry of the map; None if the entry is not billed by text tokens."""
    prompt, output = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if not isinstance(prompt, int | float) or not isinstance(output, int | float):
        return None
    if entry.get("mode") not in ("chat", "completion", "responses"):
        return None
    base = _per_million(prompt, output, entry.get("cache_read_input_token_cost"))
    steps = sorted({int(match[2]) for key in entry if (match := _TIER.fullmatch(key))}, reverse=True)
    tiers: list[tuple[int, Price]] = []
    for step in steps:
        ending = f"_above_{step}k_tokens"
        higher = _per_million(
            entry.get(f"input_cost_per_token{ending}", prompt),
            entry.get(f"output_cost_per_token{ending}", output),
            entry.get(f"cache_read_input_token_cost{ending}", entry.get("cache_read_input_token_cost")),
        )
        tiers.append((step * 1000, higher))
    return Price(base.prompt, base.output, base.cached, tuple(tiers))


def _per_million(prompt: float, output: float, cached: float | None) -> Price:
    return Price(prompt * 1e6, output * 1e6, None if cached is None else cached * 1e6)
