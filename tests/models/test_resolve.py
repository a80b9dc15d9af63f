"""From a model's name to an open model."""

import pytest
from pydantic import ValidationError

from envhub import Sampling
from envhub.errors import ConfigError, CredentialError, UnknownNameError
from envhub.messages import assistant
from envhub.models.config import ModelConfig
from envhub.models.credentials import Credentials
from envhub.models.direct import Endpoint
from envhub.models.resolve import find_endpoint, open_model
from tests.models.servers import ask, mock_server

NONE = Credentials()
URL = "http://10.0.0.1:8000/v1"


def endpoint(name: str, base_url: str | None = None, **values: str) -> Endpoint:
    return find_endpoint(ModelConfig(name=name, base_url=base_url), Credentials(values))


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
    assert found == Endpoint("org/name", URL, "HOSTED_VLLM_API_KEY", "k" * 8, is_vllm=True)


def test_hosted_vllm_needs_no_key() -> None:
    assert endpoint("hosted_vllm/x", URL).api_key is None


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "OPENAI_API_BASE"])
def test_openai_takes_litellms_variables(variable: str) -> None:
    found = endpoint("openai/x", **{variable: URL, "OPENAI_API_KEY": "k" * 8})
    assert found == Endpoint("x", URL, "OPENAI_API_KEY", "k" * 8, is_vllm=False)


def test_a_base_url_that_is_given_wins() -> None:
    assert endpoint("hosted_vllm/x", URL, HOSTED_VLLM_API_BASE="http://elsewhere").base_url == URL


def test_openai_needs_a_key_except_on_this_machine() -> None:
    with pytest.raises(CredentialError, match=r"environment variable OPENAI_API_KEY.*env\.yaml or \.env"):
        endpoint("openai/x", URL)
    assert endpoint("openai/x", "http://localhost:1234").api_key is None


@pytest.mark.parametrize(
    ("name", "variable"), [("hosted_vllm/x", "HOSTED_VLLM_API_BASE"), ("openai/x", "OPENAI_BASE_URL")]
)
def test_a_server_nobody_named_is_asked_for(name: str, variable: str) -> None:
    with pytest.raises(ConfigError, match=f"--base-url .* {variable}"):
        endpoint(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hosted_vlm/x", "did you mean 'hosted_vllm/x'"),
        ("opnai/gpt", "did you mean 'openai/gpt'"),
        ("anthropic/claude", "name it openai/claude and give its base URL"),
        ("qwen3", "names no provider; did you mean 'hosted_vllm/qwen3' or 'openai/qwen3'"),
        ("hosted_vllm/", "lacks the name"),
        ("", "names no provider"),
    ],
)
def test_a_name_nobody_routes_is_met_with_what_is_routed(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        ModelConfig(name=name)
    assert "hosted_vllm/NAME" in str(caught.value)


def test_a_mock_that_does_not_exist_is_refused_with_its_configuration() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'solver'"):
        ModelConfig(name="mock/sovler")


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
