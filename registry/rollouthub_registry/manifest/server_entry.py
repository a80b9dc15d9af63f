"""The MCP `server.json` (schema 2025-12-11) of an environment, so that MCP registries and clients can list it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from rollouthub.plugins.manifest import Manifest, ServerSection
from rollouthub_registry.names import PackageName

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
PUBLISHER_META = "io.modelcontextprotocol.registry/publisher-provided"
MANIFEST_META = "envhub"
"""The hub's key in the `_meta` field that publishers may fill."""
LONGEST_META = 4096
"""Most bytes of that field; an MCP registry refuses more."""
LONGEST_DESCRIPTION = 100
_FORGES = {"github.com": "github", "gitlab.com": "gitlab", "codeberg.org": "codeberg"}


@dataclass(frozen=True)
class PublishedVersion:
    """What is known of a version besides its manifest. Digests are 64 hexadecimal digits, with or without `sha256:`."""

    manifest_sha256: str
    """Digest of the bytes of env.toml."""
    tools_digest: str | None = None
    """Digest of the tool list, as the hub computes it."""
    bundle_sha256: str | None = None
    """Digest of the bundle's bytes."""
    bundle_url: str | None = None
    """URL of the bundle."""


def server_json(manifest: Manifest, published: PublishedVersion) -> dict[str, Any]:
    """The `server.json` for one version.

    Raises:
        NameRefused: its name is not valid for a package.
    """
    package = PackageName.parse(manifest.name)
    found: dict[str, Any] = {
        "$schema": SCHEMA,
        "name": manifest.name,
        "title": package.name,
        "description": _shortened(manifest.description.strip() or f"The environment {manifest.name}."),
        "version": manifest.version,
    }
    if manifest.homepage is not None:
        found["websiteUrl"] = _uri(manifest.homepage)
    if manifest.repository is not None:
        found["repository"] = {"url": _uri(manifest.repository), "source": _forge(manifest.repository)}
    if packages := list(_packages(manifest, published)):
        found["packages"] = packages
    if manifest.server is not None and manifest.server.url is not None:
        found["remotes"] = [_remote(manifest.server.url, manifest.server.token_variable)]
    found["_meta"] = {PUBLISHER_META: {MANIFEST_META: _provided(manifest, published)}}
    return found


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    if len(line) <= LONGEST_DESCRIPTION:
        return line
    cut = line[: LONGEST_DESCRIPTION - 1]
    return (cut.rpartition(" ")[0] or cut).rstrip(" ,;:") + "…"


def _uri(url: str) -> str:
    """A URL in the form of RFC 3986; non-ASCII characters, and braces (MCP's variables), are percent-encoded."""
    return quote(url, safe=":/?#[]@!$&'()*+,;=%-._~")


def _forge(repository: str) -> str:
    host = (urlsplit(repository).hostname or "git").removeprefix("www.")
    return _FORGES.get(host, host)


def _packages(manifest: Manifest, published: PublishedVersion) -> Iterator[dict[str, Any]]:
    variables = [{"name": name, "isRequired": True, "isSecret": True} for name in manifest.needed_variables]
    common: dict[str, Any] = {"transport": {"type": "stdio"}}
    if variables:
        common["environmentVariables"] = variables
    if published.bundle_url is not None:
        bundle: dict[str, Any] = {
            "registryType": "envhub",
            "identifier": published.bundle_url,
            "version": manifest.version,
            "runtimeHint": "hub",
        }
        if published.bundle_sha256 is not None:
            bundle["fileSha256"] = published.bundle_sha256.removeprefix("sha256:")
        yield bundle | common
    server = manifest.server
    if server is not None and server.image is not None and _is_startable(server):
        arguments = [{"type": "positional", "value": word} for word in server.args]
        more = {"packageArguments": arguments} if arguments else {}
        yield {"registryType": "oci", "identifier": server.image, "runtimeHint": "docker"} | more | common


def _is_startable(server: ServerSection) -> bool:
    """Whether the image can be started without an episode: it needs no environment variables and has no
    placeholders.
    """
    return not server.env and not any("{" in word for word in server.args)


def _remote(url: str, token_variable: str | None) -> dict[str, Any]:
    remote: dict[str, Any] = {"type": "streamable-http", "url": _uri(url)}
    if token_variable is not None:
        remote["headers"] = [
            {
                "name": "Authorization",
                "value": "Bearer {token}",
                "isRequired": True,
                "isSecret": True,
                "variables": {"token": {"isRequired": True, "isSecret": True, "placeholder": token_variable}},
            }
        ]
    return remote


def _provided(manifest: Manifest, published: PublishedVersion) -> dict[str, Any]:
    """The digests that identify the bytes, then facts that help people choose, as far as the size limit allows."""
    found: dict[str, Any] = {"contract": manifest.contract, "manifest_sha256": _bare(published.manifest_sha256)}
    if published.tools_digest is not None:
        found["tools_digest"] = published.tools_digest
    if published.bundle_sha256 is not None:
        found["bundle_sha256"] = _bare(published.bundle_sha256)
    reward = manifest.reward
    images = [manifest.server.image] if manifest.server is not None and manifest.server.image is not None else []
    images += manifest.sandbox.images if manifest.sandbox is not None else ()
    further: dict[str, Any] = {
        "license": manifest.license,
        "images": images,
        "reward": None if reward is None else {"range": list(reward.range), "better": reward.better},
        "determinism": manifest.determinism,
        "network": None if manifest.sandbox is None else manifest.sandbox.network,
        "tags": list(manifest.tags),
        "unpromised": [] if manifest.adopted_from is None else list(manifest.adopted_from.unpromised),
    }
    given = {key: value for key, value in further.items() if value}
    if _size(found | given) <= LONGEST_META:
        return found | given
    for key, value in given.items():
        if _size(found | {key: value}) <= LONGEST_META:
            found[key] = value
    return found


def _bare(digest: str) -> str:
    return digest.removeprefix("sha256:")


def _size(provided: dict[str, Any]) -> int:
    # Spaced and escaped, the longest way a registry may measure it.
    return len(json.dumps({MANIFEST_META: provided}).encode())
