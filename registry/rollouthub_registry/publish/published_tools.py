"""The tools of an environment as they are published: bounded, whatever its server says of itself."""

import json
from collections.abc import Sequence

from mcp_types import Tool

from rollouthub.text import plain, plain_name
from rollouthub_registry.bundle.attestation import ShownTool

MOST_TOOLS = 200
MOST_BYTES = 256 * 1024
"""Most bytes of all schemas together; of a tool beyond them the name and description are published."""
_DESCRIPTION = 1900


def shown_tools(tools: Sequence[Tool]) -> tuple[ShownTool, ...]:
    """The first tools, with their schemas as far as these are small."""
    found: list[ShownTool] = []
    left = MOST_BYTES
    for tool in tools[:MOST_TOOLS]:
        size = len(json.dumps(tool.input_schema))
        schema = tool.input_schema if size <= left else None
        left -= size if schema is not None else 0
        said = plain(tool.description or "", _DESCRIPTION)
        found.append(ShownTool(name=plain_name(tool.name)[:200], description=said, input_schema=schema))
    return tuple(found)
