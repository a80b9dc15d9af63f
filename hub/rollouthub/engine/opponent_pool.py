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
        self._drawn: OrderedDict[tuple[str, int], int] = OrderedDict()
        """Group and seed → the place of their opponent."""

    def __len__(self) -> int:
        return len(self._opponents)

    def add(self, opponent: Opponent) -> None:
        """Add a model; groups that have begun keep their opponents. One of the same name and version is replaced, as by
        itself at another address.
        """
        place = self._place_of(opponent.model.name, opponent.version)
        if place is None:
            self._opponents.append(opponent)
        else:
            self._opponents[place] = opponent

    def draw(self, group_id: str, seed: int) -> Opponent:
        """The opponent of a group: the same for all its samples, even if models are added meanwhile."""
        place = self._drawn.get((group_id, seed))
        if place is None:
            digest = blake2b(f"{self._seat}\0{group_id}\0{seed}".encode(), digest_size=8).digest()
            place = int.from_bytes(digest, "little") % len(self._opponents)
            self._remember(group_id, seed, place)
        return self._opponents[place]

    def meet(self, group_id: str, seed: int, name: str | None, version: int | None) -> None:
        """Give a group the opponent that its earlier samples met, by their record, if the pool has it."""
        place = self._place_of(name, version)
        if place is not None:
            self._remember(group_id, seed, place)

    def _place_of(self, name: str | None, version: int | None) -> int | None:
        places = enumerate(self._opponents)
        return next((place for place, each in places if (each.model.name, each.version) == (name, version)), None)

    def _remember(self, group_id: str, seed: int, place: int) -> None:
        self._drawn[group_id, seed] = place
        if len(self._drawn) > _REMEMBERED:
            self._drawn.popitem(last=False)
