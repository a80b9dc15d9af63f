"""The JSON Schema of `env.toml`, for editors and for registries in other languages.

`python -m rollouthub.plugins.manifest.json_schema FILE` writes it to a file; docs/schemas/env.schema.json is its
output.
"""

import ast
import inspect
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

from rollouthub.plugins.manifest.manifest import Manifest
from rollouthub.plugins.manifest.manifest_file import SECTIONS
from rollouthub.values import Frozen

DIALECT = "https://json-schema.org/draft/2020-12/schema"
IDENTIFIER = "urn:envhub:schema:env:1"


def manifest_schema() -> dict[str, Any]:
    """Return the JSON Schema of an env.toml parsed to JSON. Most rules that span several keys appear only in
    descriptions.
    """
    schema = Manifest.model_json_schema(mode="validation")
    for model in (Manifest, *SECTIONS.values()):
        section = schema if model is Manifest else schema["$defs"][model.__name__]
        for key, said in _sayings(model).items():
            section["properties"][key]["description"] = said
    described = cast(dict[str, Any], _plain(schema))
    # What the class checks across keys, where a schema can say it.
    described["oneOf"] = [
        {"required": ["server", "tasks", "verifier"], "not": {"required": ["python"]}},
        {"required": ["python"], "not": {"anyOf": [{"required": [key]} for key in ("server", "verifier", "limits")]}},
    ]
    return {"$schema": DIALECT, "$id": IDENTIFIER, **described, "title": "env.toml"}


def schema_text() -> str:
    """Return the schema as the text of its file."""
    return json.dumps(manifest_schema(), indent=2, ensure_ascii=False) + "\n"


def _sayings(model: type[Frozen]) -> dict[str, str]:
    """Return the docstring below each field of a model, each joined to one line."""
    # Read here, and not by pydantic's own setting, which reads every model's source whenever the hub starts.
    defined = ast.parse(inspect.getsource(model)).body[0]
    assert isinstance(defined, ast.ClassDef)
    found: dict[str, str] = {}
    for field, below in pairwise(defined.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=str(said))):
                found[key] = " ".join(said.split())
            case _:
                pass
    return found


def _plain(node: Any) -> Any:
    """Return a schema without what only pydantic's models need: titles, and `null`, which TOML does not have."""
    if isinstance(node, list):
        return [_plain(entry) for entry in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    found = {
        key: value
        for key, value in cast(dict[str, Any], node).items()
        if not (key == "title" and isinstance(value, str)) and not (key == "default" and value is None)
    }
    options = [option for option in found.pop("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        found = {**options[0], **found}
    elif options:
        found["anyOf"] = options
    return {key: _plain(value) for key, value in found.items()}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(schema_text(), encoding="utf-8")
