"""Writes a run's complete records, one JSON object per line."""

import json
from pathlib import Path
from typing import IO

from rollouthub.rollout import Rollout
from rollouthub.store.atomic_files import complete_file
from rollouthub.store.notes import NO_NOTES, RolloutNotes, RunNotes
from rollouthub.store.reader import RunReader
from rollouthub.store.record_rows import Chosen

_ARRAYS = {
    "prompt_token_ids",
    "output_token_ids",
    "output_logprobs",
    "output_text_ends",
    "output_mask",
    "policy_versions",
}
_WITHOUT_TOKENS = {"turns": {"__all__": _ARRAYS}}


def export_jsonl(
    reader: RunReader,
    out: IO[str] | Path,
    *,
    effective: bool = True,
    with_tokens: bool = True,
    chosen: Chosen | None = None,
) -> int:
    """Write every record as a line of JSON, token arrays in base64. Returns the number of records.

    A file at a path appears only when it is complete; a device or pipe is written immediately.
    `Rollout.model_validate_json` reads a line back.

    Raises:
        ConfigError: the place cannot be written.
        StoreError: the file could not be written.
    """
    if not isinstance(out, Path):
        return _export(reader, out, effective, with_tokens, chosen)
    with complete_file(out) as path, path.open("w", encoding="utf-8", newline="\n") as file:
        return _export(reader, file, effective, with_tokens, chosen)


def record_line(rollout: Rollout, notes: RolloutNotes = NO_NOTES, *, with_tokens: bool = True) -> str:
    """A record as one line of JSON, without the line break; `notes` are its last field, if there are any."""
    text = rollout.model_dump_json(exclude=None if with_tokens else _WITHOUT_TOKENS)
    return f'{text[:-1]},"notes":{json.dumps(notes.as_json(), ensure_ascii=False)}}}' if notes else text


def _export(reader: RunReader, out: IO[str], effective: bool, with_tokens: bool, chosen: Chosen | None) -> int:
    notes, count = RunNotes.read(reader.directory), 0
    for rollout in reader.rollouts(effective=effective, chosen=chosen):
        found = notes.of(rollout.rollout_id, rollout.attempt)
        out.write(record_line(rollout, found, with_tokens=with_tokens) + "\n")
        count += 1
    return count
