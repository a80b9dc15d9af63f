"""The store's small disk, which can be made read-only, for the runs that are watched, too."""

from tests.store.conftest import small_disk

__all__ = ["small_disk"]
