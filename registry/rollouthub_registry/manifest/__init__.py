"""What a registry wants of an `env.toml` beyond its being right: that it can be published, and an MCP `server.json`."""

from rollouthub_registry.manifest.publish_rules import ManifestProblem, check_publishable
from rollouthub_registry.manifest.server_entry import MANIFEST_META, PublishedVersion, server_json

__all__ = ["MANIFEST_META", "ManifestProblem", "PublishedVersion", "check_publishable", "server_json"]
