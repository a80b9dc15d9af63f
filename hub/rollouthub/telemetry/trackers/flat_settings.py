"""A run's settings for trackers: flat, and without anything that may be secret."""

from collections.abc import Callable, Iterator

from pydantic import JsonValue

from rollouthub.models.credentials import is_secret_name
from rollouthub.telemetry.trackers.tracker import Setting

_PRIVATE = ("request.ray.runtime_env",)
"""Sections with arbitrary user content, such as environment variables with keys; they are left out."""
_LONGEST = 200


def shown_settings(resolved: dict[str, JsonValue], redact: Callable[[str], str]) -> dict[str, Setting]:
    """The settings in `resolved.json`, flat and shortened, without those that may be secret, since a tracker's
    server may be a third party's.
    """
    shown: dict[str, Setting] = {}
    for path, value in _leaves(resolved, ""):
        name = path.removeprefix("request.")
        if any(path.startswith(private) for private in _PRIVATE) or is_secret_name(name):
            continue
        if isinstance(value, str):
            shown[name] = redact(value)[:_LONGEST]
        elif isinstance(value, bool | int | float):
            shown[name] = value
    return shown


def _leaves(value: JsonValue, path: str) -> Iterator[tuple[str, JsonValue]]:
    if isinstance(value, dict):
        for key, held in value.items():
            yield from _leaves(held, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        if all(isinstance(item, str | int | float) for item in value):
            if value:
                yield path, ", ".join(str(item) for item in value)
        else:
            for place, held in enumerate(value):
                yield from _leaves(held, f"{path}.{place}")
    elif value is not None:
        yield path, value
