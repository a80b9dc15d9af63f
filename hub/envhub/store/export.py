"""Writing a run's records elsewhere: full records, one JSON object a line."""

import os
from pathlib import Path
from typing import IO

from envhub.errors import StoreError
from envhub.store.reader import RunReader

_ARRAYS = {"prompt_token_ids", "output_token_ids", "output_logprobs", "output_mask", "policy_versions"}
_WITHOUT_TOKENS = {"turns": {"__all__": _ARRAYS}}


def export_jsonl(reader: RunReader, out: IO[str] | Path, *, effective: bool = True, with_tokens: bool = True) -> int:
    """Write every record as a line of JSON, arrays of tokens in base64; how many there were.

    A path gets its file only when it is complete; a device or pipe is written as it comes.
    A line is read back by `Rollout.model_validate_json`.

    Raises:
        StoreError: the file could not be written.
    """
    if not isinstance(out, Path):
        return _export(reader, out, effective, with_tokens)
    out = out.resolve()  # a link stays, and what it leads to is replaced
    if out.exists() and not out.is_file() and not out.is_dir():
        try:
            with out.open("w", encoding="utf-8", newline="\n") as file:
                return _export(reader, file, effective, with_tokens)
        except OSError as error:
            raise StoreError(f"could not export to {out}: {error.strerror or error}") from error
    if out.is_dir():
        raise StoreError(f"could not export to {out}: it is a folder; name a file in it")
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            count = _export(reader, file, effective, with_tokens)
        partial.replace(out)
    except OSError as error:
        raise StoreError(f"could not export to {out}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return count


def _export(reader: RunReader, out: IO[str], effective: bool, with_tokens: bool) -> int:
    count = 0
    for rollout in reader.rollouts(effective=effective):
        out.write(rollout.model_dump_json(exclude=None if with_tokens else _WITHOUT_TOKENS) + "\n")
        count += 1
    return count
