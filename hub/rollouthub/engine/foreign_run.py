"""Checks on settings read from a run's directory, which a stranger may have made: they may not name code to import
or servers on other machines.
"""

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub.hosting.launch import is_address
from rollouthub.hosting.wall.view import named_paths
from rollouthub.models.address import is_loopback
from rollouthub.models.config import ModelConfig
from rollouthub.plugins.entry_points import ENVIRONMENTS, plugins
from rollouthub.plugins.file_owners import untrusted_owner_of
from rollouthub.plugins.installed import installations
from rollouthub.text import plain_name

_SETTINGS = ("run.db", "resolved.json")
"""The files of a run that name models."""


def refuse_settings(directory: Path) -> None:
    """Refuse to go on with a run of another user by its own settings: they name code that would be imported, programs
    that would be started, and servers that would be sent keys.

    Raises:
        ConfigError: another user owns the run; names the command that trusts it.
    """
    owner = _owner(directory)
    if owner is not None:
        stored = directory / "resolved.json"
        trusting = shlex.join(["hub", "run", "--config", str(stored), "--resume", "-o", str(directory)])
        raise ConfigError(
            f"the settings of the run in {directory} are not read: user {owner} owns it, you are user {os.geteuid()}, "
            "and they name code that would run and servers that would be sent your keys; look into them, and if you "
            f"trust them, name them yourself: {trusting}"
        )


def refuse_named_code(environments: Iterable[str], directory: Path, instead: str) -> None:
    """Refuse environments that are a file, a folder or a server: only the command line may name code to run.

    `instead` is the command in which the user names the environment.

    Raises:
        ConfigError: names the environment, and shows `instead`.
    """
    for name in environments:
        if name not in plugins(ENVIRONMENTS) and (is_address(name) or ".py" in name or Path(name).exists()):
            raise ConfigError(
                f"the run in {directory} names the environment {plain_name(name)!r}, which would be imported or asked; "
                f"name it yourself if you trust it: {instead}"
            )


def refuse_named_files(
    environments: Iterable[str], settings: Mapping[str, JsonValue], directory: Path, instead: str
) -> None:
    """Refuse settings that would show files of this machine to an installed environment through its wall: only the
    command line may do that. `instead` is the command in which the user names the environment.

    Raises:
        ConfigError: names the file, and shows `instead`.
    """
    for name in environments:
        if installations().find(name) is not None and (paths := named_paths(settings, Path.cwd())):
            raise ConfigError(
                f"the run in {directory} would have {plain_name(name)} read {plain_name(str(paths[0]))!r} here; name "
                f"the environment yourself if that is meant: {instead}"
            )


def refuse_named_servers(models: Iterable[ModelConfig], directory: Path, instead: str) -> None:
    """Refuse models whose address is on another machine, and in another user's run any address: the user's API key
    would be sent there.

    Raises:
        ConfigError: names the address, and shows `instead`.
    """
    owner = _owner(directory)
    for model in models:
        for url in (model.base_url, *model.replicas):
            if url is not None and (owner is not None or not is_loopback(url)):
                why = "which is not this machine" if owner is None else f"which user {owner}, who owns it, chose"
                raise ConfigError(
                    f"the run in {directory} names the model server {plain_name(url)!r}, {why} and would be sent your "
                    f"key; {instead}"
                )
        refuse_named_servers(model.fallbacks, directory, instead)


def _owner(directory: Path) -> int | None:
    """The untrusted user who owns a run, or what it names models by; None if it is the user's own."""
    return untrusted_owner_of(directory, *(directory / name for name in _SETTINGS))
