"""The MCP `server.json` of an environment has the fields, forms and bounds of the official schema of 2025-12-11."""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft7Validator

from rollouthub.errors import UsageError
from rollouthub.plugins.manifest import Manifest, load_manifest, parse_manifest
from rollouthub_registry.manifest import MANIFEST_META, PublishedVersion, server_json
from rollouthub_registry.manifest.server_entry import LONGEST_META, PUBLISHER_META, SCHEMA
from tests.registry.server.kinds import official_schema

DIGEST = "0123456789abcdef" * 4
BUNDLE = PublishedVersion(
    DIGEST, "sha256:" + "1" * 32, "sha256:" + DIGEST, "https://example.org/me__notes-1.2.0.envhub"
)
ABOUT = """\
name = "me.example/notes_2"
version = "1.2.0"
description = "Notes."
license = "MIT"
homepage = "https://example.org/"
repository = "https://www.github.com/someone/notes"
tags = ["writing"]
secrets = ["NOTES_KEY"]
determinism = "seeded"
"""
REST = f"""\
[tasks]
test = "tasks.jsonl"
[verifier]
command = ["x"]
[reward]
[sandbox]
images = ["a@sha256:{"0" * 64}"]
"""
KINDS = {
    "command": ABOUT + '[server]\ncommand = ["{python}", "server.py"]\n' + REST,
    "image": ABOUT + f'[server]\nimage = "notes@sha256:{DIGEST}"\nargs = ["--quiet"]\n' + REST,
    "url": ABOUT + '[server]\nurl = "https://example.org/mcp"\ntoken_variable = "NOTES_TOKEN"\n' + REST,
    "python": ABOUT + '[python]\nentry = "a.b:C"\ndistribution = "a"\n',
}
ENVIRONMENTS = [
    *Path(__file__).parents[3].glob("mcp_servers/rollouthub_servers/*/env.toml"),
    *Path(__file__).parents[3].glob("examples/*/env.toml"),
]


def read(text: str) -> Manifest:
    return parse_manifest(text.encode())


def provided(entry: dict[str, Any]) -> dict[str, Any]:
    """What the publisher says beyond the schema."""
    return entry["_meta"][PUBLISHER_META][MANIFEST_META]


def entries() -> dict[str, dict[str, Any]]:
    """A `server.json` of every kind, with and without a bundle, and of everything that ships."""
    found = {f"{kind} alone": server_json(read(text), PublishedVersion(DIGEST)) for kind, text in KINDS.items()}
    found |= {kind: server_json(read(text), BUNDLE) for kind, text in KINDS.items()}
    return found | {file.parent.name: server_json(load_manifest(file), BUNDLE) for file in ENVIRONMENTS}


@pytest.mark.parametrize("entry", entries().values(), ids=entries())
def test_every_field_has_the_form_that_registries_ask_for(entry: dict[str, Any]) -> None:
    known = {"$schema", "name", "title", "description", "version", "websiteUrl", "repository", "packages", "remotes"}
    assert entry.keys() <= known | {"_meta"}
    assert entry["$schema"] == SCHEMA
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 1 <= len(entry["description"]) <= 100
    assert 1 <= len(entry["title"]) <= 100
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])
    for package in entry.get("packages", []):
        assert package.keys() >= {"registryType", "identifier", "transport"}
        assert re.fullmatch(r"[a-f0-9]{64}", package.get("fileSha256", DIGEST))
        assert package["transport"] == {"type": "stdio"}
    assert entry["_meta"].keys() == {PUBLISHER_META}
    assert len(json.dumps(entry["_meta"][PUBLISHER_META]).encode()) <= LONGEST_META


def test_the_exact_bytes_are_named() -> None:
    assert provided(server_json(read(KINDS["image"]), BUNDLE)) == {
        "contract": 1,
        "manifest_sha256": DIGEST,
        "tools_digest": "sha256:" + "1" * 32,
        "bundle_sha256": DIGEST,
        "license": "MIT",
        "images": [f"notes@sha256:{DIGEST}", "a@sha256:" + "0" * 64],
        "reward": {"range": [0.0, 1.0], "better": "higher"},
        "determinism": "seeded",
        "network": "none",
        "tags": ["writing"],
    }


def test_a_bundle_and_an_image_are_packages() -> None:
    bundle, image = server_json(read(KINDS["image"]), BUNDLE)["packages"]
    variables = [{"name": "NOTES_KEY", "isRequired": True, "isSecret": True}]
    assert bundle == {
        "registryType": "envhub",
        "identifier": BUNDLE.bundle_url,
        "version": "1.2.0",
        "runtimeHint": "hub",
        "fileSha256": DIGEST,
        "transport": {"type": "stdio"},
        "environmentVariables": variables,
    }
    assert image["registryType"] == "oci"
    assert image["identifier"] == f"notes@sha256:{DIGEST}"
    assert image["packageArguments"] == [{"type": "positional", "value": "--quiet"}]


def test_an_image_that_an_episode_must_fill_in_is_no_package() -> None:
    text = KINDS["image"].replace("--quiet", "--seed={seed}")
    assert "packages" not in server_json(read(text), PublishedVersion(DIGEST))


def test_a_server_elsewhere_is_a_remote_whose_token_is_a_secret() -> None:
    (remote,) = server_json(read(KINDS["url"]), PublishedVersion(DIGEST))["remotes"]
    assert (remote["type"], remote["url"]) == ("streamable-http", "https://example.org/mcp")
    (header,) = remote["headers"]
    assert (header["name"], header["value"], header["isSecret"]) == ("Authorization", "Bearer {token}", True)


def test_a_repository_names_its_forge() -> None:
    entry = server_json(read(KINDS["python"]), PublishedVersion(DIGEST))
    assert entry["repository"] == {"url": "https://www.github.com/someone/notes", "source": "github"}
    other = ABOUT.replace("https://www.github.com", "https://git.example.org")
    text = other + '[python]\nentry = "a.b:C"\ndistribution = "a"\n'
    assert server_json(read(text), PublishedVersion(DIGEST))["repository"]["source"] == "git.example.org"


@pytest.mark.parametrize("description", ["word " * 60, "x" * 300, "ä" * 300, ""])
def test_a_description_is_shortened_to_what_fits(description: str) -> None:
    entry = server_json(read(KINDS["python"].replace("Notes.", description)), PublishedVersion(DIGEST))
    assert 1 <= len(entry["description"]) <= 100


def test_what_has_no_room_is_left_out_and_the_digests_stay() -> None:
    images = ", ".join(f'"registry.example/{number}@sha256:{DIGEST}"' for number in range(100))
    entry = server_json(read(KINDS["command"].replace(f'"a@sha256:{"0" * 64}"', images)), BUNDLE)
    assert "images" not in provided(entry)
    assert provided(entry)["manifest_sha256"] == DIGEST
    assert provided(entry)["tags"] == ["writing"]


def test_a_namespace_that_mcp_does_not_take_is_refused() -> None:
    text = KINDS["command"].replace("me.example/", "m_e/")
    with pytest.raises(UsageError, match="'m_e' holds `_`"):
        server_json(read(text), BUNDLE)


@pytest.mark.live
@pytest.mark.parametrize("entry", entries().values(), ids=entries())
def test_the_official_schema_lets_it_pass(entry: dict[str, Any]) -> None:
    validator = cast(Any, Draft7Validator(official_schema(), format_checker=Draft7Validator.FORMAT_CHECKER))
    assert [problem.message for problem in validator.iter_errors(entry)] == []
