"""Parts of the hub that a lower package asks for by name, so that it need not import them.

They are entry points of the hub's own distribution; nobody else's are looked at.
"""

from importlib.metadata import entry_points
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.plugins.entry_points import OURS

COMPONENTS = "rollouthub.components"


def component(name: str) -> Any:
    """What the hub has registered under the name, loaded now.

    Raises:
        ConfigError: this installation does not have it: it is older than its code.
    """
    for point in entry_points(group=COMPONENTS, name=name):
        if point.dist is not None and point.dist.name == OURS:
            return point.load()
    raise ConfigError(
        f"this installation of rollouthub knows no component {name!r}: it is older than its code; install it again"
    )
