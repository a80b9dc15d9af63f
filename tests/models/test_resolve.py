"""From a model's name to an open model."""

from typing import Any

import pytest
from pydantic import ValidationError

from rollouthub import Sampling
from rollouthub.errors import ConfigError, CredentialError, UnknownNameError
from rollouthub.messages import assistant
from rollouthub.models.config import Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.resolve import addressed, choose_lane, find_endpoint, needs_router, open_lane, open_model
from tests.models.servers import ask, mock_server

NONE = Credentials()
URL = "http://10.0.0.1:8000/v1"


def endpoint(name: str, base_url: str | None = None, **values: str) -> Endpoint:
    found = find_endpoint(ModelConfig(name=name, base_url=base_url), Credentials(values))
    assert found is not None
    return found


async def test_a_mock_needs_nothing() -> None:
    async with open_model(ModelConfig(name="mock/say?text=hi"), NONE) as model:
        assert (await model.generate(ask())).message == assistant("hi")
        assert model.name == "mock/say?text=hi"


async def test_a_served_model_is_reached_by_its_name() -> None:
    async with mock_server("mock/say?text=hi") as url:
        config = ModelConfig(name="hosted_vllm/served", base_url=url.removesuffix("/v1"))
        async with open_model(config, NONE) as model:
            assert (await model.generate(ask())).message == assistant("hi")
            assert model.name == "hosted_vllm/served"


def test_hosted_vllm_takes_litellms_variables() -> None:
    found = endpoint("hosted_vllm/org/name", HOSTED_VLLM_API_BASE=URL, HOSTED_VLLM_API_KEY="k" * 8)
    assert found == Endpoint("org/name", URL, "HOSTED_VLLM_API_KEY", "k" * 8, dialect="vllm")


def test_hosted_vllm_needs_no_key() -> None:
    assert endpoint("hosted_vllm/x", URL).api_key is None


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_openai_takes_litellms_variables(variable: str) -> None:
    found = endpoint("openai/x", **{variable: URL, "OPENAI_API_KEY": "k" * 8})
    assert found == Endpoint("x", URL, "OPENAI_API_KEY", "k" * 8, dialect="openai")


def test_a_base_url_that_is_given_wins() -> None:
    assert endpoint("hosted_vllm/x", URL, HOSTED_VLLM_API_BASE="http://elsewhere").base_url == URL


def test_openai_needs_a_key_except_on_this_machine() -> None:
    with pytest.raises(CredentialError, match=r"environment variable OPENAI_API_KEY.*env\.yaml or \.env"):
        endpoint("openai/x", URL)
    assert endpoint("openai/x", "http://localhost:1234").api_key is None


@pytest.mark.parametrize(
    ("name", "lane", "variable"),
    [
        ("hosted_vllm/x", None, "HOSTED_VLLM_API_BASE"),
        ("hosted_vllm/x", "litellm", "HOSTED_VLLM_API_BASE"),
        ("openai/x", "direct", "OPENAI_BASE_URL"),
    ],
)
async def test_a_server_nobody_named_is_asked_for(name: str, lane: Lane | None, variable: str) -> None:
    with pytest.raises(ConfigError, match=f"--base-url .* {variable}"):
        async with open_model(ModelConfig(name=name, lane=lane), Credentials({"OPENAI_API_KEY": "k" * 8})):
            pass


def test_openai_without_a_server_is_openais_own() -> None:
    assert endpoint("openai/x", OPENAI_API_KEY="k" * 8).base_url == "https://api.openai.com/v1"
    with pytest.raises(CredentialError, match=r"OPENAI_API_KEY.*; for another server .* give its base URL"):
        endpoint("openai/x")


def lane(name: str, base_url: str | None = None, forced: Lane | None = None) -> Lane:
    config = ModelConfig(name=name, base_url=base_url, lane=forced)
    return choose_lane(config, find_endpoint(config, Credentials({"OPENAI_API_KEY": "k" * 8})))


def test_servers_of_the_openai_wire_take_the_direct_lane_and_all_others_litellms() -> None:
    assert lane("hosted_vllm/x", URL) == lane("openai/x", URL) == "direct"
    assert lane("openai/x") == lane("openai/x", "https://api.openai.com/v1") == "litellm"
    assert lane("anthropic/x") == lane("gpt-4o-mini") == lane("azure/x", "https://h") == "litellm"


def test_a_lane_can_be_forced() -> None:
    assert lane("openai/x", URL, "litellm") == lane("hosted_vllm/x", URL, "litellm") == "litellm"
    assert lane("openai/x", "https://api.openai.com/v1", "direct") == "direct"


@pytest.mark.parametrize("name", ["anthropic/claude-sonnet-4-5", "gpt-4o-mini", "azure/x"])
async def test_what_the_direct_lane_cannot_carry_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"speaks to hosted_vllm/NAME, sglang/NAME, and openai/NAME with a base URL, alone"
    ):
        async with open_model(ModelConfig(name=name, lane="direct"), NONE):
            pass


async def test_a_mock_takes_no_lane() -> None:
    with pytest.raises(ConfigError, match="takes no lane"):
        async with open_model(ModelConfig(name="mock/echo", lane="direct"), NONE):
            pass


async def test_one_server_is_opened_at_another_address() -> None:
    config = ModelConfig(name="hosted_vllm/served", base_url="http://127.0.0.1:9")
    async with mock_server("mock/say?text=hi") as url, open_lane(config, url, NONE) as model:
        assert (await model.generate(ask())).message == assistant("hi")


def test_a_routed_model_and_its_fallbacks_know_the_address_the_environment_gives() -> None:
    config = ModelConfig(name="hosted_vllm/x", fallbacks=("openai/y", "mock/echo", "azure/z"))  # pyright: ignore[reportArgumentType]
    found = addressed(config, Credentials({"HOSTED_VLLM_API_BASE": "http://a", "OPENAI_BASE_URL": "http://b/v1/"}))
    assert [found.base_url, *(fallback.base_url for fallback in found.fallbacks)] == [
        "http://a/v1",
        "http://b/v1",
        None,
        None,
    ]


async def test_a_budget_is_not_kept_at_openais_prices_on_somebody_elses_server() -> None:
    config = ModelConfig(name="openai/gpt-4o-mini", budget=1.0)
    keys = Credentials({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "k" * 8})
    with pytest.raises(ConfigError, match="budget needs the price"):
        async with open_model(config, keys):
            pass


def test_only_a_mock_that_nothing_bounds_needs_no_router() -> None:
    assert needs_router(ModelConfig(name="openai/x", base_url=URL))
    assert needs_router(ModelConfig(name="gpt-4o-mini"))
    assert not needs_router(ModelConfig(name="mock/echo", max_tries=2))
    routed: list[dict[str, Any]] = [
        {"fallbacks": ("mock/echo",)},
        {"requests_per_minute": 1},
        {"tokens_per_minute": 1},
        {"budget": 0.0},
    ]
    for more in routed:
        assert needs_router(ModelConfig(name="mock/echo", **more))


def test_a_mock_that_does_not_exist_is_refused_with_its_configuration() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'solver'"):
        ModelConfig(name="mock/sovler")


def test_addresses_of_other_wires_are_taken_as_they_are() -> None:
    assert ModelConfig(name="azure/x", base_url="https://h.openai.azure.com/").base_url == "https://h.openai.azure.com"
    assert ModelConfig(name="anthropic/x", base_url="https://h/api").base_url == "https://h/api"
    assert ModelConfig(name="hosted_vllm/x", replicas=("http://a", "http://b/")).replicas == (
        "http://a/v1",
        "http://b/v1",
    )


def test_a_configuration_checks_and_normalises_its_base_url() -> None:
    assert ModelConfig(name="openai/x", base_url="http://h/").base_url == "http://h/v1"
    with pytest.raises(ConfigError, match="user or password"):
        ModelConfig(name="openai/x", base_url="http://me:hush@h/")


def test_a_configuration_survives_the_round_trip() -> None:
    config = ModelConfig(name="openai/x", base_url=URL, sampling=Sampling(seed=1), max_tries=2, price_output=1.5)
    assert ModelConfig.model_validate_json(config.model_dump_json()) == config


def test_a_configuration_has_finite_tries() -> None:
    for tries in (0, 101):
        with pytest.raises(ValidationError):
            ModelConfig(name="openai/x", max_tries=tries)


def test_a_cost_is_known_only_with_a_price() -> None:
    assert ModelConfig(name="openai/x").cost(10, 10) is None
    assert ModelConfig(name="openai/x", price_prompt=2.0).cost(1_000_000, 10) == 2.0
