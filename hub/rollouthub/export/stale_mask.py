"""Masks for rollouts with tokens of several policy versions: stale tokens remain in the row, but not in the loss."""

from rollouthub.export.segment import Segment
from rollouthub.values import Int32s


def mask_stale(segment: Segment, version: int, max_staleness: int = 0) -> Segment:
    """The segment with tokens masked that were sampled more than `max_staleness` versions before `version`.

    A token of unknown version counts as stale. Ids, log-probabilities and versions are unchanged. The segment may end
    up fully masked; `is_masked` tells.
    """
    oldest = max(0, version - max_staleness)
    mask = [kept if sampled >= oldest else 0 for kept, sampled in zip(segment.loss_mask, segment.versions, strict=True)]
    if mask == list(segment.loss_mask):
        return segment
    return segment.model_copy(update={"loss_mask": Int32s(mask)})


def is_masked(segment: Segment) -> bool:
    """Whether no token of a segment is to be trained on."""
    return not any(segment.loss_mask)
