"""Verifiers that judge the same solution differently."""

# ruff: noqa: RET504

import itertools
import random
from collections.abc import Iterator

from rollouthub import Score
from tests.audit.answers import asked, number
from tests.audit.made_tasks import Judge, MadeTask


def _judges(answer: str) -> Iterator[tuple[str, Judge]]:
    def right(said: str) -> bool:
        return said.strip() == answer

    for every in (2, 3):
        turns = itertools.count()
        yield f"every-{every}", lambda said, _, t=turns, e=every: right(said) and next(t) % e == 0
    for share in (0.5, 0.6, 0.4):
        chance = random.Random(f"coin {share}")
        yield f"coin-{share}", lambda said, _, c=chance, s=share: right(said) and c.random() < s
    for spread in (0.1, 0.01, 1e-3):
        noise = random.Random(f"noise {spread}")
        yield f"noise-{spread}", lambda said, _, c=noise, s=spread: right(said) * (1 - s * c.random())
    first: list[str] = []
    yield "first-alone", lambda said, _: right(said) and _is_first(first, said)
    warm: list[str] = []
    yield "but-the-first", lambda said, _: right(said) and not _is_first(warm, said)
    rates = itertools.cycle((1.0, 1.0, 0.0, 0.0))
    yield "limited-rate", lambda said, _: right(said) * next(rates)
    judges = random.Random("moods")
    yield "moods", lambda said, _: right(said) * judges.choice((0.7, 0.8, 0.9, 1.0))
    votes = random.Random("votes")
    yield "votes", lambda said, _: right(said) * sum(votes.random() < 0.7 for _ in range(5)) / 5
    seen: dict[str, int] = {}
    yield "novelty", lambda said, _: right(said) / _times(seen, said)
    growing = itertools.count(1)
    yield "grows", lambda said, _: Score(reward=right(said) * min(1.0, next(growing) / 40))
    nothing = itertools.cycle((0.0, 0.25))
    yield "nothing-now-and-then", lambda said, _: 1.0 if right(said) else (0.0 if said else next(nothing))
    passes = itertools.cycle((True, False))
    yield "passed-by-turns", lambda said, _: Score(reward=1.0 * right(said), passed=right(said) and next(passes))
    order = itertools.cycle(("ab", "ba"))
    yield "order-of-a-set", lambda said, _: right(said) and next(order) == "ab"
    clock = itertools.count(0, 37)
    yield "clock", lambda said, _: right(said) and next(clock) % 60 < 30
    pool = itertools.cycle((1, 1, 0))
    yield "one-bad-worker", lambda said, _: right(said) and next(pool) == 1


def _is_first(before: list[str], said: str) -> bool:
    before.append(said)
    return len(before) == 1


def _times(seen: dict[str, int], said: str) -> int:
    seen[said] = seen.get(said, 0) + 1
    return seen[said]


def tasks() -> list[MadeTask]:
    """Twenty of them."""
    answer = number("flaky")
    found = [
        MadeTask(name, asked(name), answer, judge, "flaky", frozenset({"oracle", "floor"}))
        for name, judge in _judges(answer)
    ]
    return found
