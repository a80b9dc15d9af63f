"""Selects the groups of a stream of rollouts that make training rows for veRL; the refused rollouts are reported."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from rollouthub.export import Credit, Refusal, RefusalReason, TrainingRow, training_rows, why_refused
from rollouthub.export.not_trainable import Need
from rollouthub.rollout import Rollout

logger = logging.getLogger(__name__)

WHOLE = Credit()


def learnable(
    rollouts: Iterable[Rollout],
    *,
    need: Need = "logprobs",
    group_size: int | None = None,
    credit: Credit = WHOLE,
    on_refused: Callable[[RefusalReason], None] | None = None,
) -> Iterator[list[TrainingRow]]:
    """The training rows of each group, in the order of its members; one group is in memory at a time.

    With `group_size`, a group with fewer trainable members is refused as a whole. Every refusal is passed to
    `on_refused`, and the log counts them by reason at the end.
    """
    counts: Counter[str] = Counter()

    def refuse(refused: RefusalReason) -> None:
        counts[refused.refusal.value] += 1
        if on_refused is not None:
            on_refused(refused)

    for _, members in groupby(rollouts, key=lambda rollout: rollout.group_id):
        kept: list[Rollout] = []
        for rollout in members:
            refused = why_refused(rollout, need)
            if refused is None:
                kept.append(rollout)
            else:
                refuse(refused)
        if group_size is not None and len(kept) < group_size:
            for rollout in kept:
                why = f"its group has {len(kept)} of {group_size} members to learn from"
                refuse(RefusalReason(Refusal.INCOMPLETE_GROUP, why, rollout.rollout_id))
            continue
        if kept:
            yield [row for rollout in kept for row in training_rows(rollout, credit, need=need)]
    if counts:
        said = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        logger.warning("%d rollouts are not learnt from: %s", counts.total(), said)
