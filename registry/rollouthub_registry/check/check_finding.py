"""The result of a check, and the exceptions with which a check reports it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rollouthub_registry.check.defect_class import DefectClass

if TYPE_CHECKING:
    from rollouthub_registry.check.checked_environment import CheckedEnvironment

State = Literal["passed", "failed", "not_applicable"]


class Broken(Exception):
    """The check failed: what was seen, and how to fix it."""

    def __init__(self, says: str, fix: str, details: Sequence[str] = ()) -> None:
        self.fix, self.details = fix, tuple(details)
        super().__init__(says)


class NotApplicable(Exception):
    """The check does not apply to this environment, and why."""


@dataclass(frozen=True)
class Check:
    """A property that an environment must have."""

    name: str
    defect: DefectClass
    """The class of what it finds."""
    title: str
    run: "Callable[[CheckedEnvironment], Awaitable[str]]"
    """What was seen, in a few words, if the check passes.

        Raises:
            Broken: the check fails.
            NotApplicable: the check does not apply.

    Raises:
        Broken: it does not pass.
        NotApplicable: there is nothing to look at.
    """


@dataclass(frozen=True)
class Finding:
    """The result of a check."""

    check: str
    defect: DefectClass
    title: str
    state: State
    says: str
    details: tuple[str, ...] = ()
    fix: str | None = None
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The object `hub check --json` prints."""
        return {**vars(self), "details": list(self.details), "seconds": round(self.seconds, 4)}
