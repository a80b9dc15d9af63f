"""Any MCP server as an environment: a server, a file of tasks and a verifier, declared in an `env.toml`.

Server and verifier run in separate processes; this process imports nothing of theirs.
"""

from pathlib import Path

from rollouthub.environment import AnyEnvironment
from rollouthub.plugins.manifest import Manifest
from rollouthub_servers.mcp_server.program_place import ProgramPlace
from rollouthub_servers.mcp_server.server_environment import McpServer

__all__ = ["McpServer", "adapt"]


def adapt(manifest: Manifest, file: Path, python: str) -> AnyEnvironment:
    """The environment class of one manifest; `file` is the path of its `env.toml`, and `python` replaces `{python}`."""
    assert manifest.server is not None
    assert manifest.verifier is not None
    attributes = {
        "__module__": __name__,
        "__doc__": manifest.description or f"The MCP server of {manifest.name}.",
        "manifest": manifest,
        "server": manifest.server,
        "verifier": manifest.verifier,
        "place": ProgramPlace(file.parent, python),
        "file": file,
        "version": manifest.version,
        "submits": manifest.submit,
        "default_agent": manifest.default_agent,
        "scores_transcripts": manifest.verifier.transcripts,
    }
    return type("McpServer", (McpServer,), attributes)
