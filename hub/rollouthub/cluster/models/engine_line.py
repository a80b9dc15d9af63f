"""`EngineLine`: what one kind of server program is started with; and what all kinds share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rollouthub.cluster.models.model_spec import ModelSpec


@dataclass(frozen=True)
class EngineLine:
    """The command line of a server, with the variables and private files that it needs."""

    argv: list[str]
    variables: dict[str, str] = field(default_factory=dict[str, str])
    files: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    """Path → content of files that hold secrets; they are there while the server runs, for its user alone."""


def unless_given(arguments: Sequence[str], name: str, *value: str) -> list[str]:
    """An argument with its value, unless the caller gives it."""
    spellings = {name, name.replace("-", "_").replace("__", "--", 1)}
    if any(argument.partition("=")[0] in spellings for argument in arguments):
        return []
    return [name, *value]


def common_variables(spec: ModelSpec) -> dict[str, str]:
    """Variables that every server gets."""
    # Processes that it spawns would else import from the directory they are started in.
    variables = {"PYTHONSAFEPATH": "1", "DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"}
    if Path(spec.source).is_absolute():
        variables["HF_HUB_OFFLINE"] = "1"  # all of it is in the folder
    return variables
