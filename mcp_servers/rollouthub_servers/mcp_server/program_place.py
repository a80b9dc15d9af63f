"""`ProgramPlace`: the folders that the programs of a declared environment run in."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProgramPlace:
    """The folder of an env.toml, and the Python interpreter for its programs."""

    folder: Path
    python: str

    @property
    def variables(self) -> dict[str, str]:
        """PATH, beginning with the programs of the environment's own interpreter; bytecode is not written there."""
        path = os.environ.get("PATH", os.defpath)
        if self.python == sys.executable:
            return {"PATH": path}
        return {"PATH": f"{Path(self.python).parent}{os.pathsep}{path}", "PYTHONDONTWRITEBYTECODE": "1"}
