"""`OpponentPool`: the models that may play a seat; one of them is drawn for each group of samples."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from rollouthub.generation import Model

_REMEMBERED = 16_384
"""Number of latest groups whose opponents are kept, so that an added model does not change them."""


@dataclass(frozen=True, slots=True)
class Opponent:
    """An open model of a pool."""

    model: Model
    version: int | None = None
    """The policy version that the model is; None if it has none."""


class OpponentPool:
    """Draws one of its models for each group, with equal chance; the group and its seed determine the draw."""

    def __init__(self, seat: str, opponents: Iterable[Opponent]) -> None:
        self._seat, self._opponents = seat, list(opponents)
        self._drawn: OrderedDict[tuple[str, int], Opponent] = OrderedDict()

    def __len__(self) -> int:
        return len(self._opponents)

    def add(self, opponent: Opponent) -> None:
        """Add a model; groups that have begun keep their opponents."""
        self._opponents.append(opponent)

    def draw(self, group_id: str, seed: int) -> Opponent:
        """The opponent of a group: the same for all its samples, even if models are added meanwhile."""
        found = self._drawn.get((group_id, seed))
        if found is None:
            digest = blake2b(f"{self._seat}\0{group_id}\0{seed}".encode(), digest_size=8).digest()
            found = self._opponents[int.from_bytes(digest, "little") % len(self._opponents)]
            self._drawn[group_id, seed] = found
            if len(self._drawn) > _REMEMBERED:
                self._drawn.popitem(last=False)
        return found
