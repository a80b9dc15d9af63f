"""Profiles: commands of well-known agents, with the version they were tested with, as TOML files in `profiles`."""

import tomllib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Literal

from rollouthub.errors import UnknownNameError
from rollouthub.values import Frozen


class Profile(Frozen):
    """How one well-known agent is run. Texts are templates with placeholders such as `{agent_url}` and `{model}`."""

    title: str
    version: str
    """The version of the agent that the profile was tested with."""
    install: str
    """The command that installs the agent."""
    program: str
    """The name by which the program is found; `{program}` in other fields is the path where it was found."""
    speaks: Literal["chat/completions", "responses", "messages"]
    """Which API of the hub's model server the agent calls."""
    probe: tuple[str, ...]
    """A command that prints the version and exits with 0 if everything needed is installed."""
    command: tuple[str, ...]
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    """Path in HOME → content of a file that is written there."""
    notes: str = ""
    """Remarks for users of the profile."""


@cache
def profile_names() -> tuple[str, ...]:
    """The names of all known profiles."""
    found = (entry.name for entry in _folder().iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml")))


@cache
def load_profile(name: str) -> Profile:
    """Load a profile by name.

    Raises:
        UnknownNameError: there is no such profile.
    """
    if name not in profile_names():
        raise UnknownNameError("profile", name, profile_names())
    return Profile.model_validate(tomllib.loads(_folder().joinpath(f"{name}.toml").read_text()))


def _folder() -> Traversable:
    return files("rollouthub_agents.external") / "profiles"
