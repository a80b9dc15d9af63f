"""A short kill loop; the long one is `python -m tests.cluster.chaos`."""

import pytest

from .chaos import VICTIMS, header, kill_loop, row


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_kills_of_every_kind_lose_nothing_double_nothing_and_leave_nothing() -> None:
    results = kill_loop(len(VICTIMS), 3, print)
    assert all(result.is_good for result in results), "\n".join([header(), *map(row, results)])
