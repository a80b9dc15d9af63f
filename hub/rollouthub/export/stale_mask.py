"""Masks for partial rollouts: what an older policy sampled stays in a row, and is not learnt from."""

from rollouthub.export.segment import Segment
from rollouthub.packed import Int32s


def mask_stale(segment: Segment, version: int, max_staleness: int = 0) -> Segment:
    """The row with no loss on tokens sampled more than `max_staleness` versions before `version`.

    A token whose version nobody knows counts as too old. Ids, log-probabilities and versions stay as they are. The row
    may be left without any token to learn from; `is_masked` says so.
    """
    oldest = max(0, version - max_staleness)
    mask = [kept if sampled >= oldest else 0 for kept, sampled in zip(segment.loss_mask, segment.versions, strict=True)]
    if mask == list(segment.loss_mask):
        return segment
    return segment.model_copy(update={"loss_mask": Int32s(mask)})


def is_masked(segment: Segment) -> bool:
    """Whether nothing in a row is to be learnt from."""
    return not any(segment.loss_mask)
