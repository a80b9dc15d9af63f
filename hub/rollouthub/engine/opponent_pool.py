"""`OpponentPool`: the models that may play a seat, one of which meets each group of samples."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from rollouthub.generation import Model

_REMEMBERED = 16_384


@dataclass(frozen=True, slots=True)
class Opponent:
    """An open model of a pool."""

    model: Model
    version: int | None = None
    """The policy version that the model is; None if it has none."""


class OpponentPool:
    """Draws one of its models for each group, with equal chance; the draw follows from the group and its seed."""

    def __init__(self, seat: str, opponents: Iterable[Opponent]) -> None:
        self._seat, self._opponents = seat, list(opponents)
        self._drawn: OrderedDict[tuple[str, int], Opponent] = OrderedDict()

    def __len__(self) -> int:
        return len(self._opponents)

    def add(self, opponent: Opponent) -> None:
        """Add a model; groups that have begun keep theirs."""
        self._opponents.append(opponent)

    def drawn(self, group_id: str, seed: int) -> Opponent:
        """The opponent of a group: the same for all its samples, also if others are added meanwhile."""
        found = self._drawn.get((group_id, seed))
        if found is None:
            digest = blake2b(f"{self._seat}\0{group_id}\0{seed}".encode(), digest_size=8).digest()
            found = self._opponents[int.from_bytes(digest, "little") % len(self._opponents)]
            self._drawn[group_id, seed] = found
            if len(self._drawn) > _REMEMBERED:
                self._drawn.popitem(last=False)
        return found
