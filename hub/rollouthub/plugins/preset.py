"""`Preset`: a named configuration of an environment, registered like an environment of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from rollouthub.environment import AnyEnvironment


@dataclass(frozen=True)
class Preset:
    """An environment class under another name, with other defaults; settings from the caller override the defaults.

    aime24 = Preset(MathProblems, {"data": "hf:Maxwell-Jia/AIME_2024"}, "The 30 problems of AIME 2024.")
    """

    environment: AnyEnvironment
    defaults: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Configuration field → its default value under this name."""
    summary: str = ""
    """One line of description for `hub list`."""
