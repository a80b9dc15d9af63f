"""`split_settings`: separates the settings of an import from those of the environment that it writes."""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, JsonValue

from rollouthub.plugins.agents import check_config

OwnT = TypeVar("OwnT", bound=BaseModel)
ConfigT = TypeVar("ConfigT", bound=BaseModel)


def split_settings(
    settings: Mapping[str, JsonValue], own: type[OwnT], config: type[ConfigT]
) -> tuple[OwnT, ConfigT, dict[str, JsonValue]]:
    """The settings of the import, and those of the environment: validated, and as they were given.

    Raises:
        ConfigError: a setting is unknown or invalid.
    """
    mine = {name: value for name, value in settings.items() if name in own.model_fields}
    kept = {name: value for name, value in settings.items() if name not in mine and name != "data"}
    checked = check_config(config, {"data": ".", **kept}, "the environment", "--set")
    return check_config(own, mine, "the import", "--set"), checked, kept
