"""Named benchmarks: the folder of each has an `env.toml` that pins its data by digest; `hub fetch NAME` brings them."""

from functools import cache
from pathlib import Path

from pydantic import JsonValue

from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.manifest import load_manifest
from rollouthub.plugins.preset import Preset
from rollouthub_servers.code import Code
from rollouthub_servers.math import MathProblems

_INPUT: dict[str, JsonValue] = {"problem": "input", "answer": "target"}
_SETTINGS: dict[str, dict[str, JsonValue]] = {
    "aime24": {"response_tokens": 24_576},
    "amc": {},
    "amc23": {},
    "college-math": {},
    "gsm-hard": _INPUT,
    "gsm8k": {"problem": "question", "answer": "answer"},
    "hendrycks-math": {},
    "humaneval": {},
    "math500": {},
    "mawps": _INPUT,
    "minerva-math": {},
    "olympiadbench": {},
    "svamp": {"context": "Body", "problem": "Question", "answer": "Answer", "id_column": "ID"},
}
"""Benchmark → settings of its environment beside the data."""


def __getattr__(name: str) -> Preset:
    """The benchmark that an entry point names, with underscores for hyphens; read when it is asked for."""
    folder = name.replace("_", "-")
    if folder not in _SETTINGS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _read(folder)


@cache
def _read(name: str) -> Preset:
    manifest = load_manifest(Path(__file__).with_name(name) / FILE_NAME)
    splits: dict[str, JsonValue] = {
        split: source.model_dump(mode="json", include={"url", "sha256", "bytes", "rows"})
        for split, source in manifest.tasks.items()
    }
    environment = Code if name == "humaneval" else MathProblems
    origin = manifest.adopted_from
    assert origin is not None
    data: dict[str, JsonValue] = {"name": name, "source": origin.source, "license": origin.license, "splits": splits}
    return Preset(environment, {"data": data, **_SETTINGS[name]}, manifest.description)
