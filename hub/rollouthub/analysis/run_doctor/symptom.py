"""One symptom that the doctor reports of a run."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Weight = Literal["problem", "remark", "fact"]
"""`problem` must be looked into; `remark` is unusual, or costs something; `fact` is for information."""
Field = Literal["connection", "performance", "data", "agent", "verifier", "run"]
EXAMPLES = 5


@dataclass(frozen=True)
class Symptom:
    """An observation about a run, its cause, and what to do."""

    name: str
    weight: Weight
    field: Field
    says: str
    cause: str = ""
    mend: str = ""
    count: int = 0
    """Number of rollouts (or attempts) with the symptom."""
    examples: tuple[str, ...] = ()
    """Ids of rollouts to look at."""

    def as_json(self) -> dict[str, Any]:
        """The symptom as plain JSON fields."""
        return {**asdict(self), "examples": list(self.examples)}


def some_ids(ids: Iterable[str]) -> tuple[str, ...]:
    """Return the first few distinct ids, in their order."""
    found: dict[str, None] = {}
    for name in ids:
        found[name] = None
        if len(found) == EXAMPLES:
            break
    return tuple(found)


def share(count: int, whole: int) -> str:
    """Format a count and its share, such as `3 of 40 (7.5 %)`."""
    return f"{count:,} of {whole:,}" + (f" ({count / whole:.1%})" if whole else "")
