"""Resolves model names in litellm's notation: the provider, the name there, and the credentials.

The providers of the direct lane are in a table here, so that they do not need litellm; for all others litellm is
asked.
"""

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rollouthub.errors import ConfigError, CredentialError
from rollouthub.models.credentials import Credentials
from rollouthub.models.litellm.package import find_litellm, load_litellm, price_map


@dataclass(frozen=True)
class WireProvider:
    """A provider with the OpenAI API: the variables that hold its address and key."""

    base_urls: tuple[str, ...]
    key: str


WIRE = {
    "hosted_vllm": WireProvider(("HOSTED_VLLM_API_BASE",), "HOSTED_VLLM_API_KEY"),
    "sglang": WireProvider(("SGLANG_API_BASE",), "SGLANG_API_KEY"),
    "openai": WireProvider(("OPENAI_BASE_URL", "OPENAI_API_BASE"), "OPENAI_API_KEY"),
    "policy": WireProvider(("policy_base_url",), "policy_api_key"),
}
"""The providers that the direct lane supports, with the variables that litellm uses, which knows no SGLang; `policy` is
the model that NeMo Gym's `env.yaml` names.
"""
POLICY_NAME = "policy_model_name"
"""The variable with the name of that model."""

OPENAI_BASE_URL = "https://api.openai.com/v1"
"""The address of `openai/NAME` if no base URL is given."""

_OURS = (*WIRE, "mock")
_FORMS = (
    "a model is named as litellm names it: hosted_vllm/NAME (vLLM and servers of its kind), openai/NAME with a base "
    "URL (any server of the OpenAI wire), PROVIDER/NAME (anthropic/…, gemini/…, azure/…); or sglang/NAME, or mock/KIND"
)
# What litellm's arguments are called beside the environment variables it reads.
_ARGUMENTS = {
    "API_KEY": "api_key",
    "API_TOKEN": "api_key",
    "API_BASE": "api_base",
    "API_VERSION": "api_version",
    "VERTEXAI_PROJECT": "vertex_project",
    "VERTEXAI_LOCATION": "vertex_location",
}
_AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION_NAME")
# Providers of which one of the variables litellm lists is enough.
_EITHER = frozenset({"gemini"})
# What litellm wants of the usual providers, known without the five seconds that importing it takes: any one is enough.
_WANTED = {
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "gemini": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY",),
    "xai": ("XAI_API_KEY",),
}
# litellm's name for vLLM as a library, which it would import into this process.
_IN_PROCESS = "vllm"


@dataclass(frozen=True)
class ProviderModel:
    """A resolved model name: the provider, the name there, and the credentials."""

    provider: str
    served_name: str
    """The model's name at the provider."""
    key_name: str = ""
    """The name of the variable that holds the key, for messages."""
    arguments: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Credentials to pass to litellm, because they are not in its environment; secret."""


def split_name(name: str) -> tuple[str, str]:
    """A model's name as (provider, rest); the provider is empty if the name has no slash.

    Raises:
        ConfigError: the name is empty, or lacks the part before or after the slash.
    """
    provider, slash, rest = name.partition("/")
    if not name or provider != provider.strip() or (provider != "mock" and rest != rest.strip()):
        raise ConfigError(f"{name!r} is no model's name; {_FORMS}")
    if (slash and not (provider and rest)) or (not slash and name in _OURS):
        raise ConfigError(f"model {name!r} lacks the name {'after' if provider else 'before'} the slash; {_FORMS}")
    return (provider, rest) if slash else ("", name)


def speaks_responses_alone(served_name: str) -> bool:
    """Whether litellm's list says that a model of OpenAI's has the Responses API and no Chat Completions."""
    return price_map(find_litellm()).get(served_name, {}).get("mode") == "responses"


async def identify(name: str, credentials: Credentials, base_url: str | None = None) -> ProviderModel:
    """Ask litellm which provider serves a model, and which credentials a call needs.

    Raises:
        ConfigError: litellm is not installed, or does not know the name.
        CredentialError: credentials are missing.
    """
    prefix, rest = split_name(name)
    if prefix == _IN_PROCESS:
        raise ConfigError(f"{name!r} would load vLLM into this process; did you mean 'hosted_vllm/{rest}', its server?")
    if (found := _at_a_glance(name, credentials, base_url)) is not None:
        return found
    why = f"model {name!r}"
    if prefix not in WIRE and prefix and (close := difflib.get_close_matches(prefix, _OURS, n=1, cutoff=0.8)):
        why = f"model {name!r} (if that is not {close[0] + '/' + rest!r})"
    litellm = await load_litellm(why)
    try:
        if prefix in _authenticating():  # which litellm would log in to, with a browser, only to answer this
            return ProviderModel(prefix, rest)
        served_name, provider, _, _ = litellm.get_llm_provider(name, api_base=base_url)
    except Exception as error:  # litellm's own errors; all of them say that the name is not understood
        raise _unknown(litellm, name) from error
    if provider in WIRE:
        return ProviderModel(provider, served_name, WIRE[provider].key)
    return _credentialed(litellm, name, ProviderModel(provider, served_name), credentials, base_url)


def _at_a_glance(name: str, credentials: Credentials, base_url: str | None) -> ProviderModel | None:
    """Resolve a bare name of OpenAI's models without importing litellm; None for other names.

    Raises:
        CredentialError: a known provider's credentials are missing.
    """
    provider, rest = split_name(name)
    folder = find_litellm()
    if folder is None:
        return None
    if not provider:
        provider = str(price_map(folder).get(name, {}).get("litellm_provider", ""))
        if provider == "openai" and base_url is None:
            return ProviderModel(provider, rest, WIRE[provider].key)
    wanted = _WANTED.get(provider, ())
    if wanted and not any(credentials.get(variable) or variable in os.environ for variable in wanted):
        raise _lacking(name, wanted[:1] if provider == "anthropic" else wanted)
    return None


def _lacking(name: str, missing: Sequence[str], *, either: bool = True) -> CredentialError:
    which = "it" if len(missing) == 1 else "one of them" if either else "them"
    return CredentialError(
        f"{name!r} needs {(' or ' if either else ' and ').join(missing)}: set {which} in the environment, "
        "or in an untracked env.yaml or .env in the working directory"
    )


def _authenticating() -> frozenset[str]:
    from litellm import constants  # loaded by now

    return getattr(constants, "PROVIDERS_THAT_AUTHENTICATE_ON_PROVIDER_INFO", frozenset())


def _unknown(litellm: Any, name: str) -> ConfigError:
    """The error for a name that litellm does not know, with the closest known names."""
    prefix, rest = split_name(name)
    providers = [str(getattr(provider, "value", provider)) for provider in litellm.provider_list]
    if prefix:
        close = [f"{match}/{rest}" for match in _close(prefix, [*_OURS, *providers], 0.6)]
    else:
        close = _close(name, [known for known in litellm.model_cost if "/" not in known], 0.7)
        close = close or _of_its_family(litellm, name) or [f"hosted_vllm/{name}", f"openai/{name}"]
    meant = f"; did you mean {' or '.join(repr(match) for match in close)}?" if close else "."
    return ConfigError(f"litellm knows no model {name!r}{meant} {_FORMS[0].upper()}{_FORMS[1:]}.")


def _of_its_family(litellm: Any, name: str) -> list[str]:
    """The name under the provider of its family, such as `anthropic/claude-…`; empty if the family is unknown."""
    family = name.partition("-")[0]
    kin = [entry for known, entry in litellm.model_cost.items() if known.startswith(f"{family}-")]
    providers = Counter(str(entry.get("litellm_provider", "")) for entry in kin)
    nearest = [family, *(provider for provider, _ in providers.most_common(1))]
    return [f"{provider}/{name}" for provider in nearest if provider in litellm.provider_list][:1]


def _close(word: str, known: Iterable[str], cutoff: float) -> list[str]:
    return difflib.get_close_matches(word, list(dict.fromkeys(known)), n=2, cutoff=cutoff)


def _credentialed(
    litellm: Any, name: str, identity: ProviderModel, credentials: Credentials, base_url: str | None
) -> ProviderModel:
    """The model with those credentials that litellm misses in its environment and `credentials` has.

    Raises:
        CredentialError: a needed credential is in neither.
    """
    provider = identity.provider
    lacking: list[str] = litellm.validate_environment(name, api_base=base_url)["missing_keys"]
    found = {variable: value for variable in lacking if (value := credentials.get(variable)) is not None}
    missing = [variable for variable in lacking if variable not in found]
    if missing and not (provider in _EITHER and found):
        raise _lacking(name, missing, either=provider in _EITHER)
    variables = list(found)
    if provider in ("bedrock", "sagemaker") and found:
        variables = [variable for variable in _AWS if credentials.get(variable) is not None]
    own_key = f"{provider.upper().replace('-', '_')}_API_KEY"
    if not lacking and credentials.get(own_key) is not None:
        variables = [own_key]
    arguments: dict[str, str] = {}
    for variable in variables:
        value = credentials.key(variable) if variable.endswith("KEY") else credentials.get(variable)
        if value is not None:
            arguments[_argument(variable)] = value
    key_name = next((variable for variable in (*lacking, own_key) if variable.endswith(("_KEY", "_TOKEN"))), own_key)
    return ProviderModel(provider, identity.served_name, key_name, arguments)


def _argument(variable: str) -> str:
    for ending, argument in _ARGUMENTS.items():
        if variable.endswith(ending):
            return argument
    return variable.lower()
