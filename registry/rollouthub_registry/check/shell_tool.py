"""Finds the tool of an environment that runs commands."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mcp_types import Tool

from rollouthub_registry.check.argument_samples import well_formed

_RUNS = re.compile(r"command|cmd|script|code|program|source|shell|input|expression|keystrokes", re.IGNORECASE)

CallTool = Callable[[str, Mapping[str, Any]], Awaitable[str]]
"""Calls a tool by name with arguments, and returns the text of its result."""


@dataclass(frozen=True)
class Shell:
    """A tool that runs commands."""

    tool: Tool
    argument: str
    is_python: bool

    def arguments(self, script: str) -> dict[str, Any]:
        """The arguments of a call that runs a shell script."""
        text = (
            f"import subprocess; print(subprocess.run({script!r}, shell=True, capture_output=True, text=True).stdout)"
        )
        return {**next(well_formed(self.tool, "")), self.argument: text if self.is_python else script}


async def shell_among(tools: Sequence[Tool], call: CallTool) -> Shell | None:
    """The first tool that runs commands, found by trying those whose schema suggests it."""
    for tool in tools:
        fields = cast(dict[str, dict[str, Any]], tool.input_schema.get("properties", {}))
        for name, field in fields.items():
            if field.get("type") != "string" or not _RUNS.search(f"{name} {tool.name}"):
                continue
            for is_python, probe in ((False, "echo $((40+2))-ran"), (True, "print(str(40+2)+'-ran')")):
                arguments = {**next(well_formed(tool, "")), name: probe}
                if "42-ran" in await call(tool.name, arguments):
                    return Shell(tool, name, is_python)
    return None
