"""The environment variables of an external program: its two URLs, under every name that common clients read."""

import os
import re
from collections.abc import Mapping, Sequence

from rollouthub.errors import ConfigError
from rollouthub.protocols import SeatAddress

MOST_BYTES = 100_000
"""Most bytes of a prompt that is passed as a variable; Linux limits variables and arguments to 128 KiB."""
OURS = frozenset(
    {
        "ROLLOUTHUB_AGENT_URL",
        "ROLLOUTHUB_LLM_URL",
        "ROLLOUTHUB_API_KEY",
        "ROLLOUTHUB_MODEL",
        "ROLLOUTHUB_PROMPT",
        "ROLLOUTHUB_PROMPT_FILE",
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_KEY",
        "HOME",
    }
)
"""Variables that the hub sets for every episode, and that settings may not override."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_names(names: Sequence[str]) -> None:
    """Refuse variables that cannot be set, are given twice, or are set by the hub.

    Raises:
        ValueError: names the variable.
    """
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a variable")
        if name in OURS:
            raise ValueError(f"{name} is set by the hub, to this episode's own")
        if names.count(name) > 1:
            raise ValueError(f"{name} is given twice")


def passed_on(names: Sequence[str]) -> dict[str, str]:
    """Values of the named variables from the hub's own environment.

    Raises:
        ConfigError: a variable is not set.
    """
    missing = [name for name in names if name not in os.environ]
    if missing:
        raise ConfigError(f"pass_env names {', '.join(missing)}, which the hub's own environment does not have")
    return {name: os.environ[name] for name in names}


def variables(address: SeatAddress, prompt: str, prompt_file: str, home: str) -> dict[str, str]:
    """The environment variables that every program gets."""
    told = {
        "HOME": home,
        "LANG": "C.UTF-8",
        "ROLLOUTHUB_AGENT_URL": address.agent_url,
        "ROLLOUTHUB_API_KEY": address.api_key,
        "ROLLOUTHUB_PROMPT_FILE": prompt_file,
    }
    if len(prompt.encode(errors="replace")) <= MOST_BYTES:
        told["ROLLOUTHUB_PROMPT"] = prompt
    if address.model is not None:
        told["ROLLOUTHUB_MODEL"] = address.model
    if address.llm_url is not None:
        told |= {
            "ROLLOUTHUB_LLM_URL": address.llm_url,
            "OPENAI_BASE_URL": address.llm_url,
            "OPENAI_API_KEY": address.api_key,
            # Its clients add the version to the path themselves.
            "ANTHROPIC_BASE_URL": address.llm_url.removesuffix("/v1"),
            "ANTHROPIC_API_KEY": address.api_key,
        }
    return told


def values(address: SeatAddress, prompt: str, prompt_file: str, home: str) -> Mapping[str, str]:
    """The values of the placeholders in commands, variables and files, by name."""
    return {
        "agent_url": address.agent_url,
        "llm_url": address.llm_url or "",
        "api_key": address.api_key,
        "model": address.model or "",
        "prompt": prompt,
        "prompt_file": prompt_file,
        "home": home,
    }
