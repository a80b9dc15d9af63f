"""How the suite is divided among processes: a file to each that is free, and what takes longest first."""

import pytest

# xdist is typed, but does not say so.
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs]
from xdist.scheduler import LoadFileScheduling  # pyright: ignore[reportMissingTypeStubs]

DOCUMENTS = "tests/test_readme.py"
"""Minutes in all, and nothing that its tests share: each goes to whichever process is free."""
CLUSTER = "tests/cluster/"
"""Its files share a cluster, which takes seconds to start: they go to one process."""
LONGEST = (CLUSTER, DOCUMENTS, "tests/contract/", "tests/cli/")
"""Begun last, one of these would keep a single process busy when the others are done."""


__all__ = ["Division", "Producer", "longest_first"]


class Division(LoadFileScheduling):
    """By file, but for the documents and the cluster."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # the order is `longest_first`

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(CLUSTER):
            return CLUSTER
        return nodeid if nodeid.startswith(DOCUMENTS) else super()._split_scope(nodeid)


def longest_first(items: list[pytest.Item]) -> None:
    """Put first what takes long, and leave all else in its order."""
    places = {start: place for place, start in enumerate(LONGEST)}

    def place(item: pytest.Item) -> int:
        return next((at for start, at in places.items() if item.nodeid.startswith(start)), len(places))

    items.sort(key=place)
