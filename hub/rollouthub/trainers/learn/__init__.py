"""A learner of our own: policy-gradient steps in plain torch on the rows of a stream, and the loop around them.

torch is imported only when a class that needs it is named.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rollouthub.trainers.learn.learn_settings import VARIANTS, LearnSettings

if TYPE_CHECKING:
    from rollouthub.trainers.learn.learner import Learner
    from rollouthub.trainers.learn.model_loading import open_policy
    from rollouthub.trainers.learn.ranks import Ranks
    from rollouthub.trainers.learn.training_loop import train
    from rollouthub.trainers.learn.weight_transfer import CheckpointTransfer, NoTransfer, VllmTransfer

_MODULES = {
    "CheckpointTransfer": "weight_transfer",
    "Learner": "learner",
    "NoTransfer": "weight_transfer",
    "Ranks": "ranks",
    "VllmTransfer": "weight_transfer",
    "open_policy": "model_loading",
    "train": "training_loop",
}

__all__ = [
    "VARIANTS",
    "CheckpointTransfer",
    "LearnSettings",
    "Learner",
    "NoTransfer",
    "Ranks",
    "VllmTransfer",
    "open_policy",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
