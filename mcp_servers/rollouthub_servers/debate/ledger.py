"""Generated ledgers: sales of two people, one of whom sold more in total."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

PEOPLE = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana")
GOODS = ("apples", "bread", "candles", "eggs", "honey", "rope", "salt", "wool")


@dataclass(frozen=True, slots=True)
class Sale:
    """One line of a ledger."""

    person: str
    goods: str
    crates: int

    def __str__(self) -> str:
        return f"{self.person} sold {self.crates} crates of {self.goods}"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The sales of two people, in random order."""

    people: tuple[str, str]
    """The two people; the first debater claims that the first sold more, the second that the second did."""
    sales: tuple[Sale, ...]

    def total(self, person: str) -> int:
        """Number of crates that a person sold."""
        return total(self.sales, person)

    @property
    def right(self) -> int:
        """Index of the person who sold more: 0 or 1."""
        first, second = map(self.total, self.people)
        return 0 if first > second else 1


def total(sales: Sequence[Sale], person: str) -> int:
    """Number of crates that a person sold in these lines."""
    return sum(sale.crates for sale in sales if sale.person == person)


def draw_ledger(random: Random, lines: int) -> Ledger:
    """Generate a ledger with this many lines, in which one of two people sold more."""
    first, second = random.sample(PEOPLE, 2)
    while True:
        owners = [first, second] + [random.choice((first, second)) for _ in range(lines - 2)]
        random.shuffle(owners)
        ledger = Ledger(
            (first, second), tuple(Sale(owner, random.choice(GOODS), random.randint(1, 30)) for owner in owners)
        )
        if ledger.total(first) != ledger.total(second):
            return ledger
