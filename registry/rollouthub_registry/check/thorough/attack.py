"""`Attack` and `AttackResult`: the definition of an attack, and its result."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rollouthub_registry.check.defect_class import DefectClass
from rollouthub_registry.check.thorough.raw_exchange import RawExchange

if TYPE_CHECKING:
    from rollouthub_registry.check.thorough.attack_context import AttackContext

State = Literal["held", "broke", "not_tried"]


class NotTried(Exception):
    """The attack cannot be made here, and why; if something is missing, how to get it."""


@dataclass(frozen=True)
class Attack:
    """A way to try to get something that an agent must not have."""

    name: str
    leak: DefectClass
    title: str
    """The property under attack, in one sentence."""
    run: "Callable[[AttackContext], Awaitable[str]]"
    """What was tried, in a few words; vulnerabilities are noted in the context.

        Raises:
            NotTried: the attack cannot be made here.

    Raises:
        NotTried: it cannot be made here.
    """
    seconds: float = 180.0
    """Most seconds that the attack may take."""


@dataclass(frozen=True)
class Vulnerability:
    """Something that an attack got although it should not have."""

    says: str
    exchange: RawExchange | None = None


@dataclass(frozen=True)
class AttackResult:
    """The result of an attack."""

    attack: str
    leak: DefectClass
    title: str
    state: State
    says: str
    problems: tuple[Vulnerability, ...] = ()
    left_out: tuple[str, ...] = ()
    """Parts of the attack that could not be tried."""
    samples: tuple[RawExchange, ...] = ()
    """A few of the requests that were answered as they should be."""
    requests: int = 0
    seconds: float = 0.0
    is_cut: bool = False
    """Whether the attack was not tried because the time was over."""

    def as_json(self, redact: Callable[[str], str]) -> dict[str, Any]:
        """The object `hub check --thorough --json` prints for it."""
        return {
            "attack": self.attack,
            "leak": self.leak,
            "title": self.title,
            "state": self.state,
            "says": redact(self.says),
            "problems": [
                {"says": redact(problem.says), "exchange": problem.exchange and problem.exchange.as_json(redact)}
                for problem in self.problems
            ],
            "left_out": [redact(line) for line in self.left_out],
            "samples": [exchange.as_json(redact) for exchange in self.samples],
            "requests": self.requests,
            "seconds": round(self.seconds, 3),
        }
