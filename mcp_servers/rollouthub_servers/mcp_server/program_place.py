"""`ProgramPlace`: the folders that the programs of a declared environment run in."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProgramPlace:
    """The folder of an env.toml, and the interpreter that its programs run with."""

    folder: Path
    python: str

    @property
    def variables(self) -> dict[str, str]:
        """PATH; first the programs of an interpreter of the environment's own, which leaves its files as they are."""
        path = os.environ.get("PATH", os.defpath)
        if self.python == sys.executable:
            return {"PATH": path}
        return {"PATH": f"{Path(self.python).parent}{os.pathsep}{path}", "PYTHONDONTWRITEBYTECODE": "1"}
