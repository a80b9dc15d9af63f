"""Files of rows."""

# pyright: basic

import json
from pathlib import Path
from typing import Any

from hud.eval.task import Task


class Taskset(list):
    """Tasks."""

    @classmethod
    def from_file(cls, path: Path) -> Any:
        """Read a file."""
        return cls(Task.model_validate(row) for row in json.loads(path.read_text()))
