"""torch, for the modules of the learner; the error where it is missing says how to install it."""

from importlib import import_module
from typing import Any


def _torch() -> Any:
    try:
        return import_module("torch")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the learner needs torch and transformers: install the extra `learn` (pip install 'rollouthub[learn]'), or "
            "use the interpreter that has them",
            name="torch",
        ) from error


torch: Any = _torch()
checkpoint: Any = import_module("torch.utils.checkpoint").checkpoint
