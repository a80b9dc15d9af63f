"""Counts of a supply's progress."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class SupplyStats:
    """Counts since the supply was opened, in units (groups, or single rollouts) unless stated otherwise."""

    policy_version: int = 0
    epoch: int = 0
    """The epoch whose tasks are being begun, from 0."""
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
    """Dropped by the trainer's filters, by the filter's name."""
    stale: int = 0
    """Dropped because too few members were fresh."""
    stale_rollouts: int = 0
    """Scored rollouts that were not handed out because their oldest token was too old."""
    partial: int = 0
    """Handed out without all their members."""
    short: int = 0
    """Dropped because too few members were scored."""
    requeued: int = 0
    """Tasks played again because their rollouts had become stale."""
    set_aside: int = 0
    """Tasks that are not played any more, because every sample of them was faulty each time."""
    resting: int = 0
    """Times a task was left out of an epoch because its pass rate lay outside the band."""
    redundant: int = 0
    """Samples cancelled because their group was complete without them."""
    discarded: int = 0
    """Episodes cancelled by a pause, and played again."""
    aborted_calls: int = 0
    """Model calls cancelled by a pause, and repeated."""

    @property
    def dropped(self) -> int:
        """Units that were begun and dropped."""
        return self.constant + self.stale + self.short + sum(self.filtered.values())

    def explained(self) -> str:
        """The counts of dropped groups by reason, as a sentence."""
        said = (
            f"{self.constant} had equal rewards, {self.short} too few scored members, {self.stale} were stale"
            + "".join(f", {count} were against {name}" for name, count in self.filtered.items())
        )
        return f"of all so far {said}"
