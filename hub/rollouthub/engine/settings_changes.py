"""Compares a stored run with the request that resumes it: which changes are harmless, and which are refused."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue, ValidationError

from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import RunDirectoryError
from rollouthub.models.config import ModelConfig
from rollouthub.settings import OnResume, on_resume

ENVIRONMENT_HARMLESS = frozenset({"deadlines", "files"})
"""Recorded facts of an environment that may change; `files` is judged by `_is_moved`."""


@dataclass(frozen=True)
class SettingChange:
    """One value that differs between the stored run and the request."""

    path: tuple[str, ...]
    before: JsonValue
    after: JsonValue
    remark: str = ""

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}: {self.before!r} → {self.after!r}{self.remark}"


def changed_settings(stored: dict[str, JsonValue], now: dict[str, JsonValue]) -> list[str]:
    """The harmful changes between a stored run and the request that resumes it, a line for each."""
    judge = _Judge(stored, now)
    return [str(judge.remarked(change)) for change in _changes(stored, now) if judge.is_harmful(change)]


def all_changes(before: dict[str, JsonValue], now: dict[str, JsonValue]) -> list[str]:
    """All changes between two resolved requests, harmless ones included, a line for each."""
    return [str(change) for change in _changes(before, now)]


def refuse_others(directory: Path, stored: dict[str, JsonValue], now: dict[str, JsonValue]) -> None:
    """Refuse to resume a run of other environments.

    Raises:
        RunDirectoryError: names the run's environments.
    """
    before, asked = (" and ".join(sorted(_environments(resolved))) for resolved in (stored, now))
    if before and before != asked:
        raise RunDirectoryError(
            f"{directory} is a run of {before}, not of {asked}; go on with it with `hub run --resume -o {directory}`, "
            "or start a new run in another directory (-o)"
        )


def refuse_changes(directory: Path, changes: Sequence[str]) -> None:
    """Refuse to resume a run whose settings have changed.

    Raises:
        RunDirectoryError: lists the changes.
    """
    if changes:
        listing = "\n  ".join(changes)
        raise RunDirectoryError(
            f"{directory} was made with other settings, so its rollouts would not compare:\n  {listing}\n"
            "Resume with the settings it was made with, or start a new run in another directory (-o)."
        )


class _Judge:
    """Decides which changes make new rollouts incomparable with the stored ones."""

    def __init__(self, stored: dict[str, JsonValue], now: dict[str, JsonValue]) -> None:
        self._before, self._now = _environments(stored), _environments(now)

    def is_harmful(self, change: SettingChange) -> bool:
        """Whether a change makes rollouts before and after it incomparable; `OnResume` marks settings that may
        change.
        """
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
                return self._is_harmful_mark(on_resume(RunRequest, field))
            case _:
                return True

    def remarked(self, change: SettingChange) -> SettingChange:
        """The change, with a remark if the setting names a file whose contents differ or were not recorded."""
        found = self._files_of(change)
        if found is None:
            return change
        before, after = found
        remark = "another content" if before else "the run did not note what it held"
        return SettingChange(change.path, change.before, change.after, f" ({remark})") if after else change

    def _is_harmful_within(self, path: Sequence[str]) -> bool:
        """As `is_harmful`, for a field of a model; `path` is the fallback's index or the role, then the field."""
        match path:
            case (_, "fallbacks", *within):
                return self._is_harmful_within(within)
            case (_, field, *_):
                return self._is_harmful_mark(on_resume(ModelConfig, field))
            case _:
                return True

    def _is_harmful_mark(self, mark: OnResume | None) -> bool:
        return mark is None or (mark is OnResume.PRICE and self._has_cost_limit)

    @property
    def _has_cost_limit(self) -> bool:
        limits = (cast(dict[str, Any], found.get("limits") or {}) for found in self._now.values())
        return any(found.get("max_cost") is not None for found in limits)

    def _is_moved(self, change: SettingChange) -> bool:
        """Whether a setting still names a file or folder of the same contents, only at another path."""
        found = self._files_of(change)
        return found is not None and found[0] is not None and found[0] == found[1]

    def _files_of(self, change: SettingChange) -> tuple[str | None, str | None] | None:
        """The digests of the file that a setting named before and names now; None if it names no file."""
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
    """Name → what is recorded of each environment."""
    found = cast(list[dict[str, Any]], resolved.get("environments") or [])
    return {str(environment.get("name")): environment for environment in found}


def _file(environment: dict[str, Any], key: str) -> str | None:
    files = cast(dict[str, str], environment.get("files") or {})
    return files.get(key)


def _changes(before: dict[str, JsonValue], now: dict[str, JsonValue]) -> Iterator[SettingChange]:
    one, other = ({**resolved, "request": _completed(resolved.get("request"))} for resolved in (before, now))
    return _differences(one, other, ())


def _completed(request: JsonValue) -> JsonValue:
    """A recorded request, with defaults for settings that the version of the hub which recorded it did not have."""
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
