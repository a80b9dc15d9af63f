"""Rollouts as data sets: which may be trained on, their training rows, and the file formats.

Imports `store` and below. Begin with `training_row.py` and `formats/`.
"""

from rollouthub.export.anchor_states import anchor_group, anchor_of_turn, anchor_state, gigpo_advantages
from rollouthub.export.batch import BatchRows, batch_rows, group_rows
from rollouthub.export.credit import Credit, turn_returns, turn_rewards
from rollouthub.export.critic_view import critic_view
from rollouthub.export.learning_seats import check_one_seat, one_reward, seat_advantages, seat_id
from rollouthub.export.not_trainable import NotTrainable, Refusal, RefusalReason, why_refused
from rollouthub.export.stale_mask import is_masked, mask_stale
from rollouthub.export.task_reference import TaskReference
from rollouthub.export.training_row import TrainingRow, training_rows

__all__ = [
    "BatchRows",
    "Credit",
    "NotTrainable",
    "Refusal",
    "RefusalReason",
    "TaskReference",
    "TrainingRow",
    "anchor_group",
    "anchor_of_turn",
    "anchor_state",
    "batch_rows",
    "check_one_seat",
    "critic_view",
    "gigpo_advantages",
    "group_rows",
    "is_masked",
    "mask_stale",
    "one_reward",
    "seat_advantages",
    "seat_id",
    "training_rows",
    "turn_returns",
    "turn_rewards",
    "why_refused",
]
