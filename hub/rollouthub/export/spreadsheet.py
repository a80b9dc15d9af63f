"""Writing a run's rollouts as comma-separated values, a row each, for spreadsheets."""

import csv
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

from rollouthub.export.record_columns import KEYS, STAGES
from rollouthub.export.record_tables import rows_of
from rollouthub.store.atomic_files import complete_file
from rollouthub.store.reader import RunReader

COLUMNS = (
    *KEYS,
    *("task_digest", "source", "seed", "environment_version", "environment_digest", "environment_bundle"),
    *("environment_dependencies", "agent", "agent_version", "model"),
    *("outcome", "stop", "reward", "passed", "components", "metrics", "suspect", "feedback"),
    *("verifier", "verifier_version", "verifier_digest", "answer"),
    *("turns", "tool_calls", "prompt_tokens", "output_tokens", "cost", "started_at"),
    *(f"{stage}_seconds" for stage in STAGES),
    *("faults", "isolation", "sandboxes", "policy_version_min", "policy_version_max"),
    *("trainable", "trainable_reason", "gaps"),
)
"""Those of the table in Parquet, in its order, without `messages`: a conversation is no cell."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export_csv(reader: RunReader, out: IO[str] | Path, *, effective: bool = True) -> int:
    """Write a line of names and a row a rollout, in UTF-8; how many rollouts there were.

    What is not there is an empty cell: no reward is no 0. Lists are JSON, times UTC. Text that a spreadsheet would run
    as a formula has an apostrophe before it: models write the answers.

    Raises:
        ConfigError: nothing can be written there.
        StoreError: the file could not be written.
    """
    if not isinstance(out, Path):
        return _export(reader, out, effective)
    with complete_file(out) as path, path.open("w", encoding="utf-8", newline="") as file:
        return _export(reader, file, effective)


def _export(reader: RunReader, out: IO[str], effective: bool) -> int:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for rollout in reader.rollouts(effective=effective):
        for row in rows_of(rollout, "rollouts"):
            writer.writerow([_cell(name, row[name]) for name in COLUMNS])
            count += 1
    return count


def _cell(name: str, value: Any) -> object:
    """A value as a cell has it."""
    if name == "started_at":
        return datetime.fromtimestamp(value / 1e6, UTC).replace(tzinfo=None).isoformat(" ", "milliseconds")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return _list(cast(list[Any], value))
    return _plain(value) if isinstance(value, str) else value


def _list(items: list[Any]) -> str | None:
    """Named values as an object, other things as a list; nothing of none."""
    if not items:
        return None
    is_named = all(isinstance(item, dict) and "value" in item for item in items)
    return json.dumps({item["name"]: item["value"] for item in items} if is_named else items, ensure_ascii=False)


def _plain(text: str) -> str:
    """Text that no spreadsheet takes for a formula; numbers stay as they are."""
    if not text.startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
