"""What calls cost before they are made, held to litellm's own counting."""

import sys
from typing import Any

import pytest

from rollouthub.models.config import ModelConfig
from rollouthub.models.litellm.package import load_litellm
from rollouthub.models.prices import Price, find_price

OPENAI = "https://api.openai.com/v1"


def price(name: str, base_url: str | None = None, **config: Any) -> Price | None:
    return find_price(ModelConfig(name=name, **config), base_url)


def test_the_users_prices_win() -> None:
    assert price("openai/gpt-4o-mini", OPENAI, price_output=2.0) == Price(0.0, 2.0)


def test_openais_prices_hold_at_openais_own_address_alone() -> None:
    assert price("openai/gpt-4o-mini", OPENAI) == price("gpt-4o-mini") != None  # noqa: E711
    for url in ("http://127.0.0.1:8000/v1", "https://openai.com.example.org/v1", "https://notopenai.com/v1"):
        assert price("openai/gpt-4o-mini", url) is None


@pytest.mark.parametrize("name", ["hosted_vllm/gpt-4o-mini", "openai/no-such-model", "openai/text-embedding-3-small"])
def test_an_unknown_price_is_none(name: str) -> None:
    assert price(name) is None


def test_a_provider_without_one_address_is_known_by_its_name() -> None:
    assert price("azure/gpt-4o", "https://mine.openai.azure.com") is not None


def test_without_litellm_only_the_users_prices_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    assert price("gpt-4o-mini") is None
    assert price("gpt-4o-mini", price_prompt=1.0) == Price(1.0, 0.0)


def test_cached_tokens_and_long_prompts_have_prices_of_their_own() -> None:
    listed = Price(2.0, 8.0, cached=0.5, tiers=((100, Price(4.0, 16.0)),))
    assert listed.cost(100, 10, cached_tokens=40) == pytest.approx((60 * 2.0 + 40 * 0.5 + 10 * 8.0) / 1e6)
    assert listed.cost(101, 10, cached_tokens=1) == pytest.approx((101 * 4.0 + 10 * 16.0) / 1e6)


@pytest.mark.parametrize(
    "name",
    [
        "openai/gpt-4o-mini",
        "gpt-4.1",
        "openai/o3",
        "openai/gpt-5",
        "anthropic/claude-sonnet-4-5",
        "gemini/gemini-2.5-pro",
        "groq/openai/gpt-oss-120b",
        "deepseek/deepseek-chat",
        "mistral/codestral-latest",
        "xai/grok-4.3",
    ],
)
@pytest.mark.parametrize(("prompt", "output", "cached"), [(1000, 100, 0), (1000, 100, 600), (300_000, 5, 0)])
async def test_costs_are_what_litellm_makes_of_them(name: str, prompt: int, output: int, cached: int) -> None:
    litellm = await load_litellm("a test")
    known = price(name)
    assert known is not None
    usage = litellm.Usage(
        prompt_tokens=prompt,
        completion_tokens=output,
        total_tokens=prompt + output,
        prompt_tokens_details={"cached_tokens": cached},
    )
    answer = litellm.ModelResponse(model=name, usage=usage)
    litellms = litellm.completion_cost(answer, model=name)
    assert known.cost(prompt, output, cached) == pytest.approx(litellms)
