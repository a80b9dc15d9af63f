"""Training rows of groups, with advantages; a group is used as a whole, or refused with a reason."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rollouthub.authoring.rewards.advantages import GroupMethod
from rollouthub.export.credit import WHOLE, Credit
from rollouthub.export.learning_seats import seat_advantages
from rollouthub.export.not_trainable import Need, Refusal, RefusalReason, why_refused
from rollouthub.export.stale_mask import is_masked, mask_stale
from rollouthub.export.training_row import TrainingRow, training_rows
from rollouthub.rollout import Rollout


class ExportGroup(Protocol):
    """The members of one group, such as a supply's `RolloutGroup`."""

    @property
    def group_id(self) -> str: ...
    @property
    def rollouts(self) -> Sequence[Rollout]: ...
    @property
    def size(self) -> int:
        """How many members complete the group."""
        ...


@dataclass(frozen=True, slots=True)
class BatchRows:
    """The training rows of a batch, and the refused groups."""

    rows: list[tuple[TrainingRow, float]]
    """Each row with the advantage of its rollout, or of its seat if there are several; the rows of a group are
    adjacent, in the order of its members.
    """
    refused: list[RefusalReason]
    """The reason for each group that makes no rows."""

    @property
    def counts(self) -> dict[Refusal, int]:
        """How many groups were refused, by reason."""
        return dict(Counter(refused.refusal for refused in self.refused))


def batch_rows(
    groups: Iterable[ExportGroup],
    method: GroupMethod = "mean_std",
    *,
    need: Need = "logprobs",
    credit: Credit = WHOLE,
    partial: bool = False,
    policy_version: int | None = None,
    max_staleness: int = 0,
    suspect: bool = False,
    reward_of: Callable[[Rollout, str], float | None] = Rollout.reward_of,
) -> BatchRows:
    """The training rows of whole groups, with advantages.

    A group that lacks members (unless `partial`), or has a member that must not be trained on, makes no rows, because
    the other members' advantages would be computed against a wrong baseline. With a `policy_version`, tokens more than
    `max_staleness` versions older are masked (`mask_stale`), and fully masked rows are dropped; a group without
    remaining rows is refused as stale. With `suspect`, rewards that their verifier calls suspect are used, too.
    `reward_of` may shape the reward of a rollout's seat, such as by a penalty for length, before it is compared.
    """
    rows: list[tuple[TrainingRow, float]] = []
    refusals: list[RefusalReason] = []
    for group in groups:
        refused = _why_refused(group, need, partial, suspect)
        if refused is None:
            made = group_rows(group.rollouts, method, need=need, credit=credit, suspect=suspect, reward_of=reward_of)
            if policy_version is not None:
                made = _fresh(made, policy_version, max_staleness)
            if not made:
                said = f"every token is more than {max_staleness} versions behind {policy_version}"
                refused = RefusalReason(Refusal.STALE, f"group {group.group_id}: {said}", group.rollouts[0].rollout_id)
            rows += made
        if refused is not None:
            refusals.append(refused)
    return BatchRows(rows, refusals)


def _why_refused(group: ExportGroup, need: Need, partial: bool, suspect: bool) -> RefusalReason | None:
    members, wanted = group.rollouts, group.size
    if not members or (len(members) < wanted and not partial):
        said = f"group {group.group_id} has {len(members)} of {wanted} members that can be learnt from"
        return RefusalReason(Refusal.INCOMPLETE_GROUP, said)
    found = (why_refused(member, need, suspect=suspect) for member in members)
    return next((refused for refused in found if refused is not None), None)


def group_rows(
    rollouts: Sequence[Rollout],
    method: GroupMethod,
    *,
    need: Need = "logprobs",
    credit: Credit = WHOLE,
    suspect: bool = False,
    reward_of: Callable[[Rollout, str], float | None] = Rollout.reward_of,
) -> list[tuple[TrainingRow, float]]:
    """The training rows of one group's members, each with its advantage.

    Raises:
        NotTrainable: a member must not be trained on.
    """
    advantages = seat_advantages(rollouts, method, reward_of)
    made: list[tuple[TrainingRow, float]] = []
    for place, member in enumerate(rollouts):
        for row in training_rows(member, credit, need=need, suspect=suspect):
            advantage = advantages[row.seat][place]
            assert advantage is not None, "who is not scored is refused"
            made.append((row, advantage))
    return made


def _fresh(rows: list[tuple[TrainingRow, float]], version: int, bound: int) -> list[tuple[TrainingRow, float]]:
    masked = [(replace(row, segment=mask_stale(row.segment, version, bound)), advantage) for row, advantage in rows]
    return [(row, advantage) for row, advantage in masked if not is_masked(row.segment)]
