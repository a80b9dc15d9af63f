"""Claims: what the verification of a receipt found, each with what was compared and over how many rollouts."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from rollouthub.text import one_line

Verdict = Literal["proven", "consistent", "not_provable", "refuted"]
"""`proven`: recomputed, and equal. `consistent`: nothing speaks against it, and a forger could have made it so.
`not_provable`: cannot be known from what is there. `refuted`: it is not so.
"""
VERDICTS: tuple[Verdict, ...] = ("refuted", "proven", "consistent", "not_provable")
"""In the order in which they are shown."""
MOST_EXAMPLES = 5


@dataclass(frozen=True)
class Claim:
    """One claim and its verdict."""

    name: str
    """A word that stays the same, for scripts."""
    verdict: Verdict
    said: str
    """A sentence for people. It may quote a stranger's names, made harmless."""
    rollouts: int = 0
    """Number of attempts that were compared; 0 where the claim is about the run as a whole."""
    examples: tuple[str, ...] = ()
    """The first few things that differ, one line each."""

    def as_json(self) -> dict[str, Any]:
        """The object that `hub verify --json` prints."""
        return {
            "claim": self.name,
            "verdict": self.verdict,
            "said": self.said,
            "rollouts": self.rollouts,
            "examples": list(self.examples),
        }


class Problems:
    """Counts what differs, and keeps the first few examples, made harmless."""

    def __init__(self) -> None:
        self.count = 0
        self.examples: list[str] = []

    def add(self, example: str) -> None:
        """Count one problem."""
        self.count += 1
        if len(self.examples) < MOST_EXAMPLES:
            self.examples.append(one_line(example, 200))

    def __bool__(self) -> bool:
        return self.count > 0

    def refutes(self, name: str, said: str, rollouts: int) -> Claim:
        """The claim that these problems refute."""
        return Claim(name, "refuted", said, rollouts, tuple(self.examples))


def in_order(claims: Iterable[Claim]) -> list[Claim]:
    """Claims by verdict, what is refuted first; in each the order in which they were made."""
    return sorted(claims, key=lambda claim: VERDICTS.index(claim.verdict))


def counted(number: int, noun: str) -> str:
    """`1 rollout`, `1,000 rollouts`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
