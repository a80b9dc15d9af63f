"""Between records and trainers: which rollouts may be learnt from, the rows they make, and what each row is worth."""

from envhub.training.batch import BatchRows, batch_rows
from envhub.training.credit import Credit, turn_returns
from envhub.training.reference import TaskReference
from envhub.training.refusal import NotTrainable, Refusal, Refused, why_refused
from envhub.training.row import TrainingRow, training_rows
from envhub.training.stale import is_masked, mask_stale

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
