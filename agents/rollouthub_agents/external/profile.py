"""Profiles: how well-known agents are run, pinned. Each is a TOML file in the folder `profiles`."""

import tomllib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

from rollouthub.errors import UnknownNameError
from rollouthub.frozen import Frozen


class Profile(Frozen):
    """How one agent is run. Texts are templates: `{agent_url}`, `{llm_url}`, `{model}` …"""

    title: str
    version: str
    """What it was tested with."""
    install: str
    """The command that installs it."""
    program: str
    """What it is found by; `{program}` in what follows is where it was found."""
    speaks: Literal["chat/completions", "responses", "messages"]
    """The API of the model seam that it calls."""
    probe: tuple[str, ...]
    """Prints the version, with 0, where all that is needed is installed."""
    command: tuple[str, ...]
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    """What it finds in its HOME."""
    notes: str = ""
    """What to know of it."""


@cache
def profile_names() -> tuple[str, ...]:
    """Those there are."""
    found = (entry.name for entry in _folder().iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml")))


@cache
def load_profile(name: str) -> Profile:
    """The profile of a name.

    Raises:
        UnknownNameError: there is none.
    """
    if name not in profile_names():
        raise UnknownNameError("profile", name, profile_names())
    return Profile.model_validate(tomllib.loads(_folder().joinpath(f"{name}.toml").read_text()))


def _folder() -> Traversable:
    return files("rollouthub_agents.external") / "profiles"
