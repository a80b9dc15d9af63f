"""What changed between a stored run and a request to resume it: what is harmless, and what is refused by name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue, ValidationError

from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import RunDirectoryError

HARMLESS = frozenset(
    {
        "concurrency",
        "retries",
        "deadlines",
        "tasks",
        "shuffle",
        "skip",
        "sample",
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
        "lock",
    }
)
"""Settings that may change when a run is resumed: they do not change what a rollout means."""
PRICES = frozenset({"price_prompt", "price_output"})
"""Harmless, unless episodes end where they have cost so much."""
HARMFUL = frozenset({"model", "agent", "agent_set", "seed", "sampling"})
"""Settings that change what a rollout means."""
IN_FORCE = frozenset({"split", "limits", "in_process", "served", "environments"})
"""Settings judged by what comes of them, which stands with each environment, and not by how they were asked for."""
JUDGED_WITHIN = frozenset({"fallbacks", "roles", "set"})
"""Settings of which some parts may change."""

MODEL_HARMLESS = frozenset(
    {
        "base_url",
        "replicas",
        "lane",
        "max_tries",
        "max_connections",
        "requests_per_minute",
        "tokens_per_minute",
        "budget",
    }
)
"""What may change of a model that stands in, or that environments ask."""
MODEL_HARMFUL = frozenset({"name", "sampling", "fallbacks"})
ENVIRONMENT_HARMLESS = frozenset({"deadlines", "files"})
"""What may change of an environment as it was played; of `files` see `_is_moved`."""


@dataclass(frozen=True)
class SettingChange:
    """One value that is not as it was."""

    path: tuple[str, ...]
    before: JsonValue
    after: JsonValue
    remark: str = ""

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.before!r} → {self.after!r}{self.remark}"


def changed_settings(stored: dict[str, JsonValue], now: dict[str, JsonValue]) -> list[str]:
    """What changed between a stored run and a request to resume it, harmless settings left out; a line each."""
    judge = _Judge(stored, now)
    return [str(judge.remarked(change)) for change in _changes(stored, now) if judge.is_harmful(change)]


def all_changes(before: dict[str, JsonValue], now: dict[str, JsonValue]) -> list[str]:
    """Everything that is set otherwise than before, a line each; how that is asked for and what comes of it count."""
    return [str(change) for change in _changes(before, now)]


def refuse_others(directory: Path, stored: dict[str, JsonValue], now: dict[str, JsonValue]) -> None:
    """Refuse to go on with a run of other environments.

    Raises:
        RunDirectoryError: says whose it is.
    """
    before, asked = (" and ".join(sorted(_environments(resolved))) for resolved in (stored, now))
    if before and before != asked:
        raise RunDirectoryError(
            f"{directory} is a run of {before}, not of {asked}; go on with it with `hub run --resume -o {directory}`, "
            "or start a new run in another directory (-o)"
        )


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


class _Judge:
    """Says which changes would make rollouts that do not compare."""

    def __init__(self, stored: dict[str, JsonValue], now: dict[str, JsonValue]) -> None:
        self._before, self._now = _environments(stored), _environments(now)

    def is_harmful(self, change: SettingChange) -> bool:
        """Whether rollouts made before and after it do not compare. What nobody has judged is harmful."""
        match change.path:
            case ("hub_version", *_):
                return False
            case ("environments", _, field, *_):
                return field not in ENVIRONMENT_HARMLESS
            case ("request", "set", *_):
                return not self._is_moved(change)
            case ("request", "fallbacks" | "roles", *within):
                return self._is_harmful_within(within)
            case ("request", field, *_):
                return not (field in HARMLESS or field in IN_FORCE or (field in PRICES and not self._has_cost_limit))
            case _:
                return True

    def remarked(self, change: SettingChange) -> SettingChange:
        """With what to know about a file that is not where it was."""
        found = self._files_of(change)
        if found is None:
            return change
        before, after = found
        remark = "another content" if before else "the run did not note what it held"
        return SettingChange(change.path, change.before, change.after, f" ({remark})") if after else change

    def _is_harmful_within(self, path: Sequence[str]) -> bool:
        """Of models, by fallback's place or role's name, and by field; fallbacks may have their own."""
        match path:
            case (_, "fallbacks", *within):
                return self._is_harmful_within(within)
            case (_, field, *_):
                return not (field in MODEL_HARMLESS or (field in PRICES and not self._has_cost_limit))
            case _:
                return True

    @property
    def _has_cost_limit(self) -> bool:
        limits = (cast(dict[str, Any], found.get("limits") or {}) for found in self._now.values())
        return any(found.get("max_cost") is not None for found in limits)

    def _is_moved(self, change: SettingChange) -> bool:
        """Whether a setting names the same file or folder, which is only somewhere else than it was."""
        found = self._files_of(change)
        return found is not None and found[0] is not None and found[0] == found[1]

    def _files_of(self, change: SettingChange) -> tuple[str | None, str | None] | None:
        """The digests of what a setting named and names now; None where it never was a file."""
        if change.path[:2] != ("request", "set"):
            return None
        setting = ".".join(change.path[2:])
        for name, now in self._now.items():
            if setting.startswith(f"{name}.") and name in self._before:
                key, before = setting.removeprefix(f"{name}."), self._before[name]
                old, new = _file(before, key), _file(now, key)
                return (old, new) if before.get("digest") == now.get("digest") and (old or new) else None
        return None


def _environments(resolved: dict[str, JsonValue]) -> dict[str, dict[str, Any]]:
    """What stands with each environment, by its name."""
    found = cast(list[dict[str, Any]], resolved.get("environments") or [])
    return {str(environment.get("name")): environment for environment in found}


def _file(environment: dict[str, Any], key: str) -> str | None:
    files = cast(dict[str, str], environment.get("files") or {})
    return files.get(key)


def _changes(before: dict[str, JsonValue], now: dict[str, JsonValue]) -> Iterator[SettingChange]:
    one, other = ({**resolved, "request": _completed(resolved.get("request"))} for resolved in (before, now))
    return _differences(one, other, ())


def _completed(request: JsonValue) -> JsonValue:
    """A recorded request with the defaults of settings that its version of the hub did not know."""
    try:
        completed = RunRequest.model_validate(request)
    except ValidationError:
        return request
    # Deadlines are recorded as they were given, so that environments can suggest the others then as now.
    deadlines = completed.deadlines.model_dump(mode="json", exclude_unset=True)
    return {**completed.model_dump(mode="json"), "deadlines": deadlines}


def _differences(before: JsonValue, after: JsonValue, path: tuple[str, ...]) -> Iterator[SettingChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from _differences(before.get(key), after.get(key), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(one, other, (*path, str(place)))
    elif before != after:
        yield SettingChange(path, before, after)
