"""One thing that `hub doctor` looked at."""

from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `broken` must be mended; `missing` is only needed for what `says` names."""

    name: str
    state: Literal["ok", "missing", "broken"]
    says: str
    mend: str = ""

    def as_json(self) -> dict[str, str]:
        """As plain fields."""
        return asdict(self)
