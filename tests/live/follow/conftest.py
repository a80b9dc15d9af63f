"""The store's small disk, which can be made read-only, and runs that play, for those that watch them, too."""

from tests.live.control.conftest import runtime, watch
from tests.store.conftest import small_disk

__all__ = ["runtime", "small_disk", "watch"]
