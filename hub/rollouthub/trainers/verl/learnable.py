"""Which of a stream of rollouts make rows for veRL: whole groups that may be learnt from; the others are named."""

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
    """The rows of each group, as its members follow one another; one group is held at a time.

    With `group_size`, a group with fewer members to learn from is refused whole. Every refusal goes to `on_refused`,
    and the log counts them by name at the end.
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
