"""An environment over a foreign driver, as an import writes one, for runs from their beginning to their end."""

import sys
from pathlib import Path
from typing import Any

from rollouthub import Environment, Public
from rollouthub_servers.bfcl import Bfcl, BfclConfig
from rollouthub_servers.bfcl.row import BfclSecret
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.runtime import ForeignRuntime


class Killed(Bfcl, Environment[BfclConfig, Public, BfclSecret]):
    """Rows of BFCL's shape, over a driver of its shape."""

    version = "0.1.0"

    @classmethod
    async def prepare(cls, config: Any) -> None:
        """Take the tests' own interpreter."""
        module = "tests.mcp_servers.foreign_formats.shaped_bfcl"
        cls.runtimes.setdefault(
            config.data, ForeignRuntime(ForeignProgram(name="BFCL", python=Path(sys.executable), module=module))
        )
