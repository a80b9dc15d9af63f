"""Pinned tool lists: an environment whose tools differ from the published ones is refused."""

import hashlib
from collections.abc import Sequence
from typing import Any

import rfc8785
from mcp_types import Tool
from pydantic import JsonValue

from rollouthub.errors import UsageError
from rollouthub_registry.names import Release
from rollouthub_registry.trust.trust_error import TrustRefused

_SCHEMAS = ("inputSchema", "outputSchema", "_meta")
_EXACT = 2**53
"""Largest integer that JSON represents exactly; beyond it, numbers are doubles (RFC 8785, 3.2.2.3)."""


class ToolsChanged(TrustRefused):
    """An environment offers tools other than those it was published with."""


def tool_list_digest(tools: Sequence[Tool]) -> str:
    """`sha256:…` of a tool list's canonical JSON (RFC 8785), in the list's order, which the model sees.

    This is not `EnvironmentInfo.tools_digest`, which identifies tools within the records of a run: that one depends on
    the order of keys, which a server in another language need not preserve.

    Raises:
        UsageError: a schema holds a value that JSON cannot represent.
    """
    try:
        content = rfc8785.dumps([_canonical(_listed(tool)) for tool in tools])
    except (rfc8785.CanonicalizationError, OverflowError, RecursionError, UnicodeEncodeError) as error:
        raise UsageError(f"the tool list has no canonical form: {error}") from error
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def tools_match(tools: Sequence[Tool], digest: str | None) -> bool:
    """Whether a tool list is the published one; False if no digest was published."""
    return digest is not None and tool_list_digest(tools) == digest


def check_tools(tools: Sequence[Tool], digest: str, release: Release) -> None:
    """Check that an environment offers the tools that it was published with.

    Raises:
        ToolsChanged: it offers other tools.
    """
    if not tools_match(tools, digest):
        names = ", ".join(tool.name for tool in tools) or "none"
        raise ToolsChanged(
            f"{release} offers other tools than when it was published ({tool_list_digest(tools)} instead of {digest}; "
            f"now: {names}); it is not used: install it again, and if that does not help, tell its owner"
        )


def _listed(tool: Tool) -> dict[str, JsonValue]:
    """A tool as MCP lists it: absent fields are left out, but a schema's own nulls are kept."""
    listed = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    whole = tool.model_dump(mode="json", by_alias=True)
    return {key: whole[key] if key in _SCHEMAS else value for key, value in listed.items()}


def _canonical(value: JsonValue) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _EXACT:
        return float(value)
    return value
