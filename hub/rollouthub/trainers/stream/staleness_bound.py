"""How many units may be begun: a bound that limits both staleness and memory."""

from dataclasses import dataclass


@dataclass(slots=True)
class StalenessBound:
    """Counts units begun and handed out, and limits how many may be begun.

    The staleness bound is AReaL's (`StalenessManager.get_capacity`): with `batch` units per policy version, no more
    units are begun than will be trained on within `max_staleness` versions, counting all that were handed out. Unlike
    in AReaL, a trainer that takes more than `batch` units between two versions is not starved: see `lend`.
    """

    batch: int
    max_staleness: int | None
    most_outstanding: int
    outstanding: int = 0
    """Units begun, and neither handed out nor dropped."""
    handed_out: int = 0
    versions: int = 0
    """Policy versions published since the supply was opened."""
    lent: int = 0

    @property
    def left(self) -> int:
        """How many units may be begun now; negative if a bound was lowered."""
        room = self.most_outstanding - self.outstanding
        if self.max_staleness is None:
            return room
        fresh = (self.max_staleness + self.versions + 1) * self.batch + self.lent
        return min(room, fresh - self.handed_out - self.outstanding)

    def lend(self) -> bool:
        """Allow one more batch beyond the staleness bound if nothing is in flight and the bound allows nothing, so that
        a waiting consumer is not blocked for ever.

        Returns whether that was needed.
        """
        if self.outstanding or self.left > 0:
            return False
        self.lent += self.batch
        return True
