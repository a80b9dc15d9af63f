"""What a supply has done so far, in numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class SupplyStats:
    """Counted since the supply was opened, in units (groups, or single rollouts) unless said otherwise."""

    policy_version: int = 0
    epoch: int = 0
    """The epoch that is being dispatched, from 0."""
    is_paused: bool = False
    begun: int = 0
    handed_out: int = 0
    in_flight: int = 0
    """Begun and not yet finished."""
    ready: int = 0
    """Finished, and waiting for the consumer."""
    rollouts: int = 0
    """Attempts committed to the store."""
    constant: int = 0
    """Dropped because all rewards were equal."""
    filtered: Mapping[str, int] = field(default_factory=dict[str, int])
    """Dropped by filters of the trainer's, by the filter's name."""
    stale: int = 0
    """Dropped because too few members were fresh when they were asked for."""
    stale_rollouts: int = 0
    """Scored rollouts not handed out because their oldest token was too old."""
    partial: int = 0
    """Handed out without all their members."""
    short: int = 0
    """Dropped because too few members were scored."""
    requeued: int = 0
    """Tasks played once more because their rollouts had become stale."""
    set_aside: int = 0
    """Tasks not played again: every sample of them broke each time."""
    redundant: int = 0
    """Samples broken off, since their group was whole without them."""
    discarded: int = 0
    """Episodes broken off by a pause, and played again."""
    aborted_calls: int = 0
    """Model calls broken off by a pause, and asked again."""

    @property
    def dropped(self) -> int:
        """Units begun and never handed out."""
        return self.constant + self.stale + self.short + sum(self.filtered.values())

    def explained(self) -> str:
        """What became of those that were dropped, in words."""
        said = (
            f"{self.constant} had equal rewards, {self.short} too few scored members, {self.stale} were stale"
            + "".join(f", {count} were against {name}" for name, count in self.filtered.items())
        )
        return f"of all so far {said}"
