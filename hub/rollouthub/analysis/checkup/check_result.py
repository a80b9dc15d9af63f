"""One thing that `hub doctor` looked at."""

from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `broken` must be mended; `poor` works, badly; `missing` is only needed for what it says."""

    name: str
    state: Literal["ok", "missing", "poor", "broken"]
    says: str
    mend: str = ""

    def as_json(self) -> dict[str, str]:
        """As plain fields."""
        return asdict(self)
