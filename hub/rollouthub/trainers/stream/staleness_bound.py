"""How many units may be begun: a bound that keeps what is handed out fresh, and the memory flat."""

from dataclasses import dataclass


@dataclass(slots=True)
class StalenessBound:
    """Counts units begun and handed out.

    The bound on freshness is AReaL's (`StalenessManager.get_capacity`): of `batch` units a version, no more are begun
    than will be trained on within `max_staleness` versions, counting all that were handed out. Unlike there, a
    trainer that takes more than `batch` between two versions is not starved: see `lend`.
    """

    batch: int
    max_staleness: int | None
    most_outstanding: int
    outstanding: int = 0
    """Begun, and neither handed out nor dropped."""
    handed_out: int = 0
    versions: int = 0
    """Published since the supply was opened."""
    lent: int = 0

    @property
    def left(self) -> int:
        """How many may be begun now; negative where a bound was lowered."""
        room = self.most_outstanding - self.outstanding
        if self.max_staleness is None:
            return room
        fresh = (self.max_staleness + self.versions + 1) * self.batch + self.lent
        return min(room, fresh - self.handed_out - self.outstanding)

    def lend(self) -> bool:
        """The consumer waits and nothing is under way: let another batch begin, whatever version comes of it.

        Whether that was needed.
        """
        if self.outstanding or self.left > 0:
            return False
        self.lent += self.batch
        return True
