"""SkyRL: a generator that plays episodes over SkyRL's own inference engines, its output, and its data set.

`HubGenerator` is made from SkyRL's `GeneratorInterface` when it is asked for; nothing else here needs SkyRL.
"""

from typing import TYPE_CHECKING, Any

from rollouthub.trainers.skyrl.output import Shape, generator_output
from rollouthub.trainers.skyrl.prompts import prompt_rows, write_prompts

if TYPE_CHECKING:
    HubGenerator: Any

__all__ = ["HubGenerator", "Shape", "generator_output", "prompt_rows", "write_prompts"]


def __getattr__(name: str) -> Any:
    """Make the class once it is asked for: SkyRL imports torch."""
    if name != "HubGenerator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rollouthub.trainers.skyrl.generator import generator_class

    globals()[name] = made = generator_class()
    return made
