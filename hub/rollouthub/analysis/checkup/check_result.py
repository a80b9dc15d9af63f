"""The result of one check of `hub doctor`."""

from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """The result of one check. `broken` must be repaired; `poor` works badly; `missing` is needed only for the
    purpose it names.
    """

    name: str
    state: Literal["ok", "missing", "poor", "broken"]
    says: str
    mend: str = ""

    def as_json(self) -> dict[str, str]:
        """The finding as plain JSON fields."""
        return asdict(self)
