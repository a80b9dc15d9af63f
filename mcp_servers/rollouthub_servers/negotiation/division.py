"""Divisions of goods between two seats, and how close a division is to the Pareto frontier."""

from collections.abc import Iterator, Mapping
from itertools import product
from math import isclose
from random import Random

Counts = Mapping[str, int]

NAMES = ("books", "hats", "balls", "lamps", "maps", "coins")
MOST_OF_A_GOOD = 4
HIGHEST_VALUE = 10
SEATS: tuple[str, ...] = ("first", "second")


def draw_goods(random: Random, kinds: int) -> dict[str, int]:
    """Random numbers of pieces of each kind of goods."""
    return {name: random.randint(1, MOST_OF_A_GOOD) for name in NAMES[:kinds]}


def draw_values(random: Random, goods: Counts) -> dict[str, int]:
    """Random values of one piece of each kind for one seat; at least one is positive."""
    values = {name: random.randint(0, HIGHEST_VALUE) for name in goods}
    if not any(values.values()):
        values[random.choice(list(goods))] = HIGHEST_VALUE
    return values


def rest_of(goods: Counts, share: Counts) -> dict[str, int]:
    """The goods that the other seat gets."""
    return {name: count - share.get(name, 0) for name, count in goods.items()}


def worth(share: Counts, values: Counts) -> int:
    """The total value of goods for a seat."""
    return sum(count * values[name] for name, count in share.items())


class Market:
    """The goods and their values for each seat, and all divisions of them."""

    def __init__(self, goods: Counts, values: Mapping[str, Counts]) -> None:
        self.goods, self.values = goods, values
        self._all = {seat: worth(goods, values[seat]) for seat in SEATS}

    def divisions(self) -> Iterator[dict[str, int]]:
        """All possible shares of the first seat."""
        for counts in product(*(range(count + 1) for count in self.goods.values())):
            yield dict(zip(self.goods, counts, strict=True))

    def shares(self, of_first: Counts) -> tuple[float, float]:
        """The value of a division for each seat, as a share of the value of all goods for it."""
        first, second = (self._all[seat] for seat in SEATS)
        rest = rest_of(self.goods, of_first)
        return worth(of_first, self.values["first"]) / first, worth(rest, self.values["second"]) / second

    def nearness(self, of_first: Counts) -> float:
        """How close a division is to the Pareto frontier: 1 on it, less if both seats could have had more.

        The sum of both shares divided by the largest such sum that leaves neither seat with less.
        """
        first, second = self.shares(of_first)
        best = max(sum(pair) for pair in map(self.shares, self.divisions()) if pair[0] >= first and pair[1] >= second)
        return 1.0 if isclose(first + second, best) else (first + second) / best

    def fairest(self) -> dict[str, int]:
        """The division with the largest product of both shares (Nash's bargaining solution), which is
        Pareto-optimal.
        """
        return max(self.divisions(), key=lambda division: _nash(*self.shares(division)))

    @property
    def most(self) -> float:
        """The largest possible sum of both shares."""
        return max(sum(self.shares(division)) for division in self.divisions())


def _nash(first: float, second: float) -> tuple[float, float]:
    return round(first * second, 12), first + second
