"""SkyRL: a generator that plays episodes over SkyRL's own inference engines, its output format, and its data set.

`HubGenerator` derives from SkyRL's `GeneratorInterface` and is created on first access. Only that imports SkyRL.
"""

from typing import TYPE_CHECKING, Any

from rollouthub.trainers.skyrl.output import Shape, generator_output
from rollouthub.trainers.skyrl.prompts import prompt_rows, write_prompts

if TYPE_CHECKING:
    HubGenerator: Any

__all__ = ["HubGenerator", "Shape", "generator_output", "prompt_rows", "write_prompts"]


def __getattr__(name: str) -> Any:
    """Create `HubGenerator` on first access, because that imports SkyRL and torch."""
    if name != "HubGenerator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rollouthub.trainers.skyrl.generator import generator_class

    globals()[name] = made = generator_class()
    return made
