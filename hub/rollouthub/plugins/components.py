"""Parts of the hub that a lower package loads by name, so that it need not import a higher one.

They are entry points of the hub's own distribution; entry points of other distributions are ignored.
"""

from typing import Any

from rollouthub.plugins.entry_points import shipped_plugin

COMPONENTS = "rollouthub.components"


def component(name: str) -> Any:
    """Load and return the object that the hub registers under the name.

    Raises:
        ConfigError: this installation does not register the name, because it was made from older code.
    """
    return shipped_plugin(COMPONENTS, "component", name).entry.load()
