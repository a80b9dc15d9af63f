"""What publishing requires of an `env.toml`, and the MCP `server.json` made from it."""

from rollouthub_registry.manifest.publish_rules import ManifestProblem, check_publishable
from rollouthub_registry.manifest.server_entry import MANIFEST_META, PublishedVersion, server_json

__all__ = ["MANIFEST_META", "ManifestProblem", "PublishedVersion", "check_publishable", "server_json"]
