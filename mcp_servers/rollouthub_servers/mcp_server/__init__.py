"""Any MCP server as an environment: a server, a file of tasks and a verifier, declared in an `env.toml`.

Server and verifier run in separate processes; this process imports nothing of theirs.
"""

from pathlib import Path
from typing import Any

from rollouthub.authoring.judges import find_judge
from rollouthub.environment import AnyEnvironment
from rollouthub.plugins.manifest import Manifest, VerifierSection
from rollouthub_servers.mcp_server.program_place import ProgramPlace
from rollouthub_servers.mcp_server.server_environment import McpServer
from rollouthub_servers.mcp_server.server_verifiers import ComparedServer, ForeignVerifiedServer, JudgedServer

__all__ = ["McpServer", "adapt"]


def adapt(manifest: Manifest, file: Path, python: str) -> AnyEnvironment:
    """The environment class of one manifest; `file` is the path of its `env.toml`, and `python` replaces `{python}`.

    Raises:
        UsageError: the verifier is a judge that is not installed, or refuses its settings.
    """
    assert manifest.server is not None
    assert manifest.verifier is not None
    base, attributes = _verified(manifest.verifier, file)
    attributes |= {
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
    }
    return type("McpServer", (base,), attributes)


def _verified(section: VerifierSection, file: Path) -> tuple[type[McpServer], dict[str, Any]]:
    """The base class for a verifier, and what of it the class says."""
    if section.judge is None:
        return ForeignVerifiedServer, {"scores_transcripts": section.transcripts}
    judge = find_judge(section.judge, section.settings, f"{file}: [verifier.settings]")
    return ComparedServer if judge.compares else JudgedServer, {"judge": judge, "reads_turns": judge.reads_turns}
