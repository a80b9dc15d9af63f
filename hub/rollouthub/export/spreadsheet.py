"""Writes a run's rollouts as comma-separated values for spreadsheets, one row per rollout."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from rollouthub.export.record_columns import KEYS, STAGES
from rollouthub.export.record_tables import rows_of
from rollouthub.store.atomic_files import complete_file
from rollouthub.store.notes import RunNotes
from rollouthub.store.reader import RunReader
from rollouthub.store.record_rows import Chosen

COLUMNS = (
    *KEYS,
    *("task_digest", "source", "seed", "environment_version", "environment_digest", "environment_bundle"),
    *("environment_dependencies", "agent", "agent_version", "model"),
    *("outcome", "stop", "reward", "passed", "components", "metrics", "suspect", "feedback"),
    *("verifier", "verifier_version", "verifier_digest", "answer"),
    *("turns", "tool_calls", "prompt_tokens", "output_tokens", "cost", "started_at"),
    *(f"{stage}_seconds" for stage in STAGES),
    *("faults", "isolation", "sandboxes", "policy_version_min", "policy_version_max"),
    *("trainable", "trainable_reason", "gaps", "notes"),
)
"""The columns of the Parquet table in its order, without `messages`, which does not fit a cell."""
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")


def export_csv(reader: RunReader, out: IO[str] | Path, *, effective: bool = True, chosen: Chosen | None = None) -> int:
    """Write a header line and one row per rollout, in UTF-8. Returns the number of rollouts.

    A missing value is an empty cell: no reward is not a 0. Lists and notes are JSON, times UTC. Text that a spreadsheet
    would execute as a formula gets a leading apostrophe, because models write the answers.

    Raises:
        ConfigError: the place cannot be written.
        StoreError: the file could not be written.
    """
    if not isinstance(out, Path):
        return _export(reader, out, effective, chosen)
    with complete_file(out) as path, path.open("w", encoding="utf-8", newline="") as file:
        return _export(reader, file, effective, chosen)


def _export(reader: RunReader, out: IO[str], effective: bool, chosen: Chosen | None) -> int:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    count, notes = 0, RunNotes.read(reader.directory)
    for rollout in reader.rollouts(effective=effective, chosen=chosen):
        for row in rows_of(rollout, "rollouts", notes):
            writer.writerow([_cell(name, row[name]) for name in COLUMNS])
            count += 1
    return count


def _cell(name: str, value: Any) -> object:
    """A value in the form of a cell."""
    if name == "started_at":
        return datetime.fromtimestamp(value / 1e6, UTC).replace(tzinfo=None).isoformat(" ", "milliseconds")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return _list(cast(list[Any], value))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return _plain(value) if isinstance(value, str) else value


def _list(items: list[Any]) -> str | None:
    """Named values as a JSON object, other lists as a JSON list; None if empty."""
    if not items:
        return None
    is_named = all(isinstance(item, dict) and "value" in item for item in items)
    return json.dumps({item["name"]: item["value"] for item in items} if is_named else items, ensure_ascii=False)


def _plain(text: str) -> str:
    """Text that no spreadsheet executes as a formula; numbers are unchanged."""
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
