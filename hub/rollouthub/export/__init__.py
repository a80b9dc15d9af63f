"""Between records and trainers: which rollouts may be learnt from, the rows they make, and what each row is worth."""

from rollouthub.export.batch import BatchRows, batch_rows
from rollouthub.export.credit import Credit, turn_returns
from rollouthub.export.not_trainable import NotTrainable, Refusal, Refused, why_refused
from rollouthub.export.stale_mask import is_masked, mask_stale
from rollouthub.export.task_reference import TaskReference
from rollouthub.export.training_row import TrainingRow, training_rows

__all__ = [
    "BatchRows",
    "Credit",
    "NotTrainable",
    "Refusal",
    "Refused",
    "TaskReference",
    "TrainingRow",
    "batch_rows",
    "is_masked",
    "mask_stale",
    "training_rows",
    "turn_returns",
    "why_refused",
]
