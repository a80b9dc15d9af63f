"""Between records and trainers: which rollouts may be learnt from, the rows they make, and what each row is worth."""

from rollouthub.training.batch import BatchRows, batch_rows
from rollouthub.training.credit import Credit, turn_returns
from rollouthub.training.reference import TaskReference
from rollouthub.training.refusal import NotTrainable, Refusal, Refused, why_refused
from rollouthub.training.row import TrainingRow, training_rows
from rollouthub.training.stale import is_masked, mask_stale

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
