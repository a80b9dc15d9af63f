"""Where `.ci/foreign.sh` puts the conformance suite and the Inspector."""

import os
from pathlib import Path

import pytest

from rollouthub_registry.check.thorough.node_programs import TOOLS_VARIABLE, NodeTools, NoNodeTools, find_node_tools

FOLDER = Path(__file__).parents[2] / ".ci" / "foreign" / "mcp-tools"


async def node_tools() -> NodeTools:
    """The programs; the test is skipped where there are none."""
    try:
        return await find_node_tools(None if TOOLS_VARIABLE in os.environ else FOLDER, os.environ)
    except NoNodeTools as problem:
        pytest.skip(f"{problem}; or run .ci/foreign.sh")
