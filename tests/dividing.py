"""How the suite is divided among processes: a file to each that is free, and what takes longest first."""

from typing import TypeVar

import pytest

# xdist is typed, but does not say so.
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs]
from xdist.scheduler import LoadFileScheduling  # pyright: ignore[reportMissingTypeStubs]

DOCUMENTS = "tests/test_readme.py"
"""Minutes in all, and nothing that its tests share: each goes to whichever process is free."""
CLUSTER = "tests/cluster/"
"""Its files share a cluster, which takes seconds to start: they go to one process."""
LITELLM = ("tests/models/", "tests/gateway/model_api/")
"""Their files load litellm, which takes seconds: they go to one process."""
LONG = ("tests/registry/publish/", "tests/hosting/wall/", "tests/contract/", "tests/cli/")
LONGEST = (CLUSTER, DOCUMENTS, *LITELLM, *LONG)
"""Begun last, one of these would keep a single process busy when the others are done."""


Node = TypeVar("Node")
__all__ = ["Division", "Producer", "longest_first", "turned"]


class Division(LoadFileScheduling):
    """By file, but for the documents, the cluster and litellm."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # the order is `longest_first`

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(CLUSTER):
            return CLUSTER
        if nodeid.startswith(LITELLM):
            return "litellm"
        return nodeid if nodeid.startswith(DOCUMENTS) else super()._split_scope(nodeid)


def turned(nodes: list[Node], config: pytest.Config) -> list[Node]:
    """What a process collects, begun elsewhere than the others do.

    Each file is made ready for the assertions of pytest by who comes first, and kept: so they share that work, a third
    of all collecting in a new checkout.
    """
    told: dict[str, str | int] = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    at = len(nodes) * int(str(told["workerid"]).removeprefix("gw")) // int(told["workercount"])
    return nodes[at:] + nodes[:at]


def longest_first(items: list[pytest.Item]) -> None:
    """Put first what takes long, and all else by its file: one order in all processes."""
    places = {start: place for place, start in enumerate(LONGEST)}

    def place(item: pytest.Item) -> tuple[int, str]:
        return next((at for start, at in places.items() if item.nodeid.startswith(start)), len(places)), str(item.path)

    items.sort(key=place)
