"""The published JSON Schema says of an `env.toml` what the hub does."""

import json
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from rollouthub.plugins.manifest.json_schema import manifest_schema, schema_text

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docs" / "schemas" / "env.schema.json"
WRITTEN = [*ROOT.glob("examples/*/env.toml"), *ROOT.glob("mcp_servers/rollouthub_servers/*/env.toml")]


def is_valid(values: dict[str, Any]) -> bool:
    """Whether the schema lets it pass."""
    return cast(bool, cast(Any, Draft202012Validator(manifest_schema())).is_valid(values))


def test_the_published_schema_is_that_of_the_manifest() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert text == schema_text(), (
        "write it anew: python -m rollouthub.plugins.manifest.json_schema docs/schemas/env.schema.json"
    )
    Draft202012Validator.check_schema(json.loads(text))


@pytest.mark.parametrize("file", sorted(WRITTEN), ids=lambda file: file.parent.name)
def test_a_manifest_that_holds_passes(file: Path) -> None:
    assert is_valid(tomllib.loads(file.read_text()))


SOUND: dict[str, Any] = {
    "name": "me/a",
    "server": {"command": ["x"]},
    "tasks": {"test": "a.jsonl", "more": {"file": "b.jsonl"}},
    "verifier": {"command": ["y"]},
}


@pytest.mark.parametrize(
    "change",
    [
        {"sever": 1},
        {"name": "me"},
        {"server": {"command": []}},
        {"server": {"comand": ["x"]}},
        {"tasks": {"test": {"fil": "x"}}},
        {"reward": {"better": "up"}},
        {"secrets": ["A=1"]},
        {"python": {"entry": "a:B", "distribution": "a"}},
        {"server": None},
    ],
    ids=str,
)
def test_a_manifest_that_does_not_hold_fails(change: dict[str, Any]) -> None:
    assert is_valid(SOUND)
    assert not is_valid(SOUND | change)


def test_one_kind_of_environment_is_needed() -> None:
    assert not is_valid({"name": "me/a"})
    assert is_valid({"name": "me/a", "python": {"entry": "a:B", "distribution": "a"}})


def test_every_key_is_described() -> None:
    schema = manifest_schema()
    bare = [
        f"{name}.{key}"
        for name, model in {"": schema, **schema["$defs"]}.items()
        for key, value in model.get("properties", {}).items()
        if not value.get("description")
    ]
    assert bare == []
