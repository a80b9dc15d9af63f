"""Names as litellm has them, and our own table of two held to its answers."""

import os
import re
import subprocess
import sys
from typing import Any

import pytest

from rollouthub.errors import ConfigError, CredentialError
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.litellm.package import load_litellm
from rollouthub.models.provider_names import WIRE, identify, split_name
from rollouthub.models.resolve import open_model
from rollouthub.plugins.extras import pip_install

NONE = Credentials()


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")) or name.startswith(("AWS_", "AZURE_")):
            monkeypatch.delenv(name)


@pytest.fixture
async def litellm() -> Any:
    return await load_litellm("a test")


@pytest.mark.parametrize("name", ["hosted_vllm/org/name", "openai/name", "openai/org/name"])
async def test_our_table_splits_names_as_litellm_does(litellm: Any, name: str) -> None:
    served_name, provider, _, _ = litellm.get_llm_provider(name, api_base="http://127.0.0.1:8000/v1")
    assert split_name(name) == (provider, served_name)


async def test_our_table_has_litellms_variables(litellm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert litellm.validate_environment("openai/x")["missing_keys"] == [WIRE["openai"].key]
    monkeypatch.setenv(WIRE["hosted_vllm"].key, "k-k-k")
    monkeypatch.setenv(WIRE["hosted_vllm"].base_urls[0], "http://10.0.0.1/v1")
    _, _, key, base_url = litellm.get_llm_provider("hosted_vllm/x")
    assert (key, base_url) == ("k-k-k", "http://10.0.0.1/v1")


def test_the_direct_lane_needs_no_litellm() -> None:
    code = """
import sys, anyio
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_model
async def main():
    for name in ("hosted_vllm/x", "openai/gpt-4o-mini", "mock/echo"):
        url = None if name == "mock/echo" else "http://127.0.0.1:9"
        async with open_model(ModelConfig(name=name, base_url=url), Credentials({})):
            pass
anyio.run(main)
print(sorted({"litellm", "openai", "httpx"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "provider", "served_name"),
    [
        ("gpt-4o-mini", "openai", "gpt-4o-mini"),
        ("claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4-5", "anthropic", "claude-sonnet-4-5"),
        ("anthropic/claude-of-next-year", "anthropic", "claude-of-next-year"),
        ("groq/llama", "groq", "llama"),
        ("openrouter/org/name", "openrouter", "org/name"),
    ],
)
async def test_names_mean_what_litellm_says(name: str, provider: str, served_name: str) -> None:
    keys = {f"{maker}_API_KEY": "k" * 8 for maker in ("ANTHROPIC", "GROQ", "OPENROUTER")}
    found = await identify(name, Credentials(keys))
    assert (found.provider, found.served_name) == (provider, served_name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hosted_vlm/x", "did you mean 'hosted_vllm/x'"),
        ("opnai/gpt", "did you mean 'openai/gpt'"),
        ("antropic/claude", "did you mean 'anthropic/claude'"),
        ("gpt-4o-minni", "did you mean 'gpt-4o-mini'"),
        ("claude-of-tomorrow", "did you mean 'anthropic/claude-of-tomorrow'"),
        ("gemini-of-tomorrow", "did you mean 'gemini/gemini-of-tomorrow'"),
        ("my-own-model", "did you mean 'hosted_vllm/my-own-model' or 'openai/my-own-model'"),
        ("no-such-provider/x", r"litellm knows no model 'no-such-provider/x'\."),
    ],
)
async def test_an_unknown_name_is_met_with_the_nearest(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        async with open_model(ModelConfig(name=name), NONE):
            pass
    assert "hosted_vllm/NAME" in str(caught.value)


@pytest.mark.parametrize("name", ["", "hosted_vllm/", "mock/", "/x", "openai", "mock", " openai/x", "openai/x "])
def test_half_a_name_is_refused_before_anything_is_loaded(name: str) -> None:
    with pytest.raises(ConfigError, match="hosted_vllm/NAME"):
        ModelConfig(name=name)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("azure/x", "AZURE_API_BASE and AZURE_API_VERSION and AZURE_API_KEY"),
        ("gemini/gemini-2.5-pro", "GOOGLE_API_KEY or GEMINI_API_KEY: set one of them in"),
        ("gpt-4o-mini", "OPENAI_API_KEY"),
    ],
)
async def test_missing_credentials_are_named_before_the_run(name: str, named: str) -> None:
    with pytest.raises(CredentialError, match=f"{named}.*env.yaml or .env"):
        async with open_model(ModelConfig(name=name), NONE):
            pass


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("vllm/my-model", "did you mean 'hosted_vllm/my-model'"),
        ("gpt-4o-mini", "OPENAI_API_KEY"),
        ("claude-sonnet-4-5", "needs ANTHROPIC_API_KEY: set it"),
        ("groq/llama", "GROQ_API_KEY"),
        ("gemini/gemini-2.5-pro", "GOOGLE_API_KEY or GEMINI_API_KEY"),
    ],
)
def test_what_is_known_at_a_glance_is_said_without_importing_litellm(name: str, said: str) -> None:
    code = f"""
import sys, anyio
from rollouthub.errors import UsageError
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_model

async def main():
    try:
        async with open_model(ModelConfig(name={name!r}), Credentials()):
            pass
    except UsageError as error:
        print(error)

anyio.run(main)
print("litellm" in sys.modules)
"""
    variables = {key: value for key, value in os.environ.items() if "API" not in key}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=variables)
    assert re.search(said, done.stdout)
    assert done.stdout.endswith("False\n")


async def test_credentials_from_a_file_are_given_to_litellm_and_shown_nowhere() -> None:
    values = {"AZURE_API_BASE": "https://h", "AZURE_API_VERSION": "2025-01-01", "AZURE_API_KEY": "hush-hush-hush"}
    found = await identify("azure/x", Credentials(values))
    assert found.arguments == {"api_base": "https://h", "api_version": "2025-01-01", "api_key": "hush-hush-hush"}
    assert "hush" not in repr(found)
    found = await identify("gemini/gemini-2.5-pro", Credentials({"GEMINI_API_KEY": "hush-hush-hush"}))
    assert found.arguments == {"api_key": "hush-hush-hush"}
    assert "GEMINI_API_KEY" not in os.environ


async def test_credentials_of_the_cloud_keep_their_names() -> None:
    values = {"AWS_ACCESS_KEY_ID": "id-of-key", "AWS_SECRET_ACCESS_KEY": "hush-hush", "AWS_REGION_NAME": "eu-west-1"}
    found = await identify("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", Credentials(values))
    assert found.arguments == {name.lower(): value for name, value in values.items()}


@pytest.mark.parametrize("name", ["anthropic/claude-sonnet-4-5", "openai/gpt-4o-mini", "gpt-4o-mini"])
async def test_without_litellm_its_models_say_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(ConfigError, match=re.escape(pip_install("litellm"))):
        async with open_model(ModelConfig(name=name), Credentials({"OPENAI_API_KEY": "k" * 8})):
            pass


async def test_without_litellm_a_slip_of_the_pen_is_still_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(ConfigError, match=r"if that is not 'hosted_vllm/x'"):
        async with open_model(ModelConfig(name="hosted_vlm/x"), NONE):
            pass


async def test_loading_litellm_leaves_the_environment_as_it_was(litellm: Any) -> None:
    assert "LITELLM_MODE" not in os.environ
    assert litellm.suppress_debug_info is True
