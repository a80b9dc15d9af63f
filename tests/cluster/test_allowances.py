"""A budget among workers: never more than there is, and nearly all of it."""

import random

from hypothesis import given
from hypothesis import strategies as some

from rollouthub.cluster.allowances import Allowances


@given(seed=some.integers(0, 2**20), workers=some.integers(1, 9), call=some.floats(0.001, 0.2))
def test_together_they_never_spend_more_than_there_is(seed: int, workers: int, call: float) -> None:
    chance, allowances = random.Random(seed), Allowances({"": 10.0})
    spent, gone = [0.0] * workers, 0.0
    for _ in range(400):
        worker = chance.randrange(workers)
        allowed = allowances.allow(worker, {"": spent[worker]}, workers)[""]
        while spent[worker] + call <= allowed and chance.random() < 0.9:
            spent[worker] += call
        if chance.random() < 0.05:
            # What it spent since it last said so is unknown.
            gone, spent[worker] = gone + spent[worker], 0.0
            allowances.lost(worker)
        assert sum(spent) + gone <= 10.0 + 1e-9


def test_workers_that_are_not_lost_spend_nearly_all() -> None:
    allowances, spent = Allowances({"": 10.0}), [0.0] * 4
    for _ in range(200):
        for worker in range(4):
            allowed = allowances.allow(worker, {"": spent[worker]}, 4)[""]
            while spent[worker] + 0.01 <= allowed:
                spent[worker] += 0.01
    assert 9.8 <= sum(spent) <= 10.0
    assert allowances.last() == [""]


def test_who_leaves_gives_back_what_is_not_spent() -> None:
    allowances = Allowances({"judge": 8.0})
    assert allowances.allow(0, {}, 1) == {"judge": 4.0}
    assert allowances.allow(0, {"judge": 1.0}, 1) == {"judge": 4.0}
    allowances.left(0, {"judge": 1.5})
    assert allowances.allow(1, {}, 1) == {"judge": 3.25}
