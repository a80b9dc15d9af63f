"""What changed between a stored run and a request to resume it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import JsonValue, ValidationError

from envhub.engine.request import RunRequest
from envhub.errors import RunDirectoryError

HARMLESS = frozenset(
    {
        "concurrency",
        "retries",
        "deadlines",
        "limit",
        "repeats",
        "skip_bad",
        "max_tries",
        "base_url",
        "lane",
        "requests_per_minute",
        "tokens_per_minute",
        "budget",
        "servers",
        "pool",
        "workers",
        "ray",
        "run_limits",
        "track",
        "metrics",
        "traces",
        "hub_version",
    }
)
"""Settings that may change when a run is resumed: they do not change what a rollout means."""
IN_FORCE = frozenset(
    {"request.split", "request.limits", "request.in_process", "request.served", "request.environments"}
)
"""Settings judged by what comes of them, which stands with each environment, and not by how they were asked for."""


def changed_settings(stored: dict[str, JsonValue], now: dict[str, JsonValue]) -> list[str]:
    """What changed between a stored run and a request to resume it, harmless settings left out; a line each."""
    return [
        line
        for line in _differences({**stored, "request": _completed(stored.get("request"))}, now)
        if (path := line.partition(":")[0].split("."))[0] not in HARMLESS
        and not (path[0] == "request" and path[1] in HARMLESS)
        and not (path[0] == "environments" and len(path) > 2 and path[2] in HARMLESS)
        and ".".join(path[:2]) not in IN_FORCE
    ]


def refuse_changes(directory: Path, changes: Sequence[str]) -> None:
    """Refuse to go on with a run whose settings have changed.

    Raises:
        RunDirectoryError: they have, and how.
    """
    if changes:
        listing = "\n  ".join(changes)
        raise RunDirectoryError(
            f"{directory} was made with other settings, so its rollouts would not compare:\n  {listing}\n"
            "Resume with the settings it was made with, or start a new run in another directory (-o)."
        )


def _completed(request: JsonValue) -> JsonValue:
    """A stored request with the defaults of settings that its version of the hub did not know."""
    try:
        return RunRequest.model_validate(request).model_dump(mode="json")
    except ValidationError:
        return request


def _differences(before: JsonValue, after: JsonValue, path: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from _differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, f"{path}.{place}")
    elif before != after:
        yield f"{path}: {before!r} → {after!r}"
