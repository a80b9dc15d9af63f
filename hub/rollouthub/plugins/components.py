"""Parts of the hub that a lower package loads by name, so that it need not import a higher one.

They are entry points of the hub's own distribution; entry points of other distributions are ignored.
"""

from importlib.metadata import entry_points
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.plugins.entry_points import OURS

COMPONENTS = "rollouthub.components"


def component(name: str) -> Any:
    """Load and return the object that the hub registers under the name.

    Raises:
        ConfigError: this installation does not register the name, because it was made from older code.
    """
    for point in entry_points(group=COMPONENTS, name=name):
        if point.dist is not None and point.dist.name == OURS:
            return point.load()
    raise ConfigError(
        f"this installation of rollouthub knows no component {name!r}: it is older than its code; install it again"
    )
