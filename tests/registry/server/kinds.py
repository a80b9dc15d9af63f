"""Manifests of every kind that can be published, and what registries and clients of MCP judge their entries by."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rollouthub_registry.manifest.server_entry import SCHEMA
from tests.registry.bundle.packages import small_wheel
from tests.registry.server.publishers import Offer, Publisher

FOREIGN = Path(__file__).parents[3] / ".ci" / "foreign"
DIGEST = "0123456789abcdef" * 4
WHEEL = ("kinds-1.0.0-py3-none-any.whl", small_wheel("kinds", "1.0.0"))
TASKS = '[tasks]\ntest = "tasks.jsonl"\n[verifier]\ncommand = ["{python}", "verify.py"]\n'
KINDS = {
    "python": '[python]\nentry = "kinds:Kind"\ndistribution = "kinds"\n',
    "command": '[server]\ncommand = ["{python}", "server.py"]\nenv = { MODE = "quiet" }\n' + TASKS,
    "image": f'[server]\nimage = "registry.example/a/kinds@sha256:{DIGEST}"\nargs = ["--mode", "quiet"]\n' + TASKS,
    "filled-image": f'[server]\nimage = "kinds@sha256:{DIGEST}"\nargs = ["--seed={{seed}}"]\n' + TASKS,
    "url": '[server]\nurl = "https://tools.example/mcp?x=1&y={task}"\ntoken_variable = "KINDS_TOKEN"\n' + TASKS,
    "open-url": '[server]\nurl = "http://tools.example:8443/mcp"\n' + TASKS,
}
ABOUTS: dict[str, dict[str, Any]] = {
    "plain": {"description": "An environment."},
    "long": {"description": "Long sums of numbers, and what to do with them. " * 20},
    "unbroken": {"description": "x" * 1000},
    "unicode": {
        "description": "Déjà vu 数学 \U0001f9ee \u202egnivael \u0000\u007f\u2028 e\u0301" * 9,
        "authors": ["Zoë <z@example.org>"],
        "homepage": 'https://exämple.org/π?q=<">{x}|`^\\',
        "repository": "https://www.github.com/someone/wörds",
    },
    "everything": {
        "description": "Everything there is to say.",
        "homepage": "https://example.org/",
        "repository": "https://gitlab.com/someone/kinds.git",
        "tags": [f"tag-{number}-{'x' * 30}" for number in range(20)],
        "secrets": [f"SECRET_{number}_{'X' * 80}" for number in range(20)],
        "determinism": "seeded",
    },
}


def manifest(name: str, version: str, kind: str, about: dict[str, Any]) -> str:
    """The text of an env.toml."""
    said = {"name": name, "version": version, "license": "MIT", **about}
    return "".join(f"{key} = {_toml(value)}\n" for key, value in said.items()) + KINDS[kind]


def offer(publisher: Publisher, name: str, version: str, kind: str, about: dict[str, Any]) -> Offer:
    """An environment of a kind, to be published."""
    return publisher.offer_of(manifest(name, version, kind, about), WHEEL if kind == "python" else None)


def offers(publisher: Publisher) -> Iterable[Offer]:
    """Every kind, with all that can be said of one."""
    for kind in KINDS:
        for about, said in ABOUTS.items():
            yield offer(publisher, f"lab/{kind}-{about}", "1.0.0", kind, said)


def official_schema() -> Any:
    """The schema of a `server.json`: the copy that ROLLOUTHUB_MCP_SERVER_SCHEMA names, or a client's own."""
    there = [Path(file) for file in [os.environ.get("ROLLOUTHUB_MCP_SERVER_SCHEMA")] if file]
    there += [FOREIGN / "mcp-server.schema.json"]
    there += FOREIGN.glob("registry-sdk/lib/python*/site-packages/mcpreg/_spec/server.schema.snapshot.json")
    file = next((file for file in there if file.exists()), None)
    if file is None:
        pytest.skip(
            "the official schema is not there; run .ci/foreign.sh, or name a copy as ROLLOUTHUB_MCP_SERVER_SCHEMA"
        )
    schema = json.loads(file.read_text())
    assert schema["$id"] == SCHEMA
    return schema


def _toml(value: str | list[str]) -> str:
    # JSON's strings are TOML's, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\u007f", "\\u007f")
