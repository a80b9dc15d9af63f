"""Reads the record of one rollout in a thread, with its own database connection."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rollouthub.errors import RunDirectoryError
from rollouthub.export.segment import segments
from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import count
from rollouthub.store import open_run

MOST_PROMPT_BYTES = 64 * 2**20
"""Most bytes of a rollout's prompts for which its training rows are derived here."""


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A record without prompt token ids, and the number of them in each turn."""

    rollout: Rollout
    prompt_lengths: tuple[int | None, ...]


def read_record(directory: Path, rollout_id: str, attempt: int) -> ReadRecord:
    """Read a rollout's record. Blocking.

    Raises:
        UnknownNameError: there is no such record.
        RunDirectoryError, StoreError: the record cannot be read.
    """
    with open_run(directory) as reader:
        record = ReadRecord(*reader.rollout_without_prompts(rollout_id, attempt))
    if any(turn.index != place for place, turn in enumerate(record.rollout.turns)):
        raise RunDirectoryError(f"the turns of {rollout_id} in {directory} are not numbered one by one; it is damaged")
    return record


def training_rows(directory: Path, record: ReadRecord) -> str:
    """How many training rows the rollout gives, in words. Blocking."""
    rollout = record.rollout
    sampled = sum(turn.output_token_ids is not None for turn in rollout.turns)
    if not sampled:
        return "no token ids: the backend gave none, and text is never tokenised again"
    size = 4 * sum(length or 0 for length in record.prompt_lengths)
    if size > MOST_PROMPT_BYTES:
        return f"its prompts together are {size / 2**20:,.0f} MiB: training rows are not counted here"
    with open_run(directory) as reader:
        rows = segments(reader.rollout(rollout.rollout_id, rollout.attempt))
    forks = len(rows) - 1
    told = f"{count(len(rows), 'training row')} of {sum(len(row.token_ids) for row in rows):,} tokens"
    return f"{told}, {sum(sum(row.loss_mask) for row in rows):,} of them learnt from" + (
        f"; {count(forks, 'fork')}: a prompt that is not what came before it" if forks > 0 else ""
    )


def place_of(columns: AttemptColumns, rollout_id: str, attempt: int) -> int | None:
    """The index of an attempt in its run's columns; None if it has no record yet."""
    attempts = columns.wholes["attempt"]
    return next(
        (place for place in _places(columns.texts["rollout_id"], rollout_id) if attempts[place] == attempt), None
    )


def _places(ids: list[str], wanted: str) -> Iterator[int]:
    at = -1
    try:
        while True:
            at = ids.index(wanted, at + 1)
            yield at
    except ValueError:
        return


def other_sample(columns: AttemptColumns, place: int) -> int | None:
    """The next sample of the same task that counts, wrapping around; None if there is no other."""
    codes = columns.words["group_id"].codes
    own, sample = columns.texts["rollout_id"], columns.wholes["sample"]
    mates = [
        row
        for row, code in enumerate(codes)
        if code == codes[place] and columns.effective[row] and own[row] != own[place]
    ]
    mates.sort(key=lambda row: ((sample[row] - sample[place]) <= 0, sample[row]))
    return mates[0] if mates else None
