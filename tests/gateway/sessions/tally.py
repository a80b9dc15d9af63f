"""An environment for a serving hub: count to two, then submit."""

from tests.engine.conftest import Counter


class Tally(Counter):
    """Count up to the goal."""
