"""What a leaderboard needs of runs, read once for each state of a run and kept while pages ask for it."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from rollouthub.analysis.compare.board import BoardRow, in_order, rows_of
from rollouthub.analysis.compare.receipt_check import ReceiptCheck, check_receipt
from rollouthub.errors import HubError, said
from rollouthub.store.run_directories import DATABASE, receipt_of

MOST_KEPT = 500
"""Most runs whose rows, and most receipts of which the check, are kept."""
_READ_SECONDS = 1.0
"""Seconds of reading after which a page is shown without the runs that were not read yet."""
_PLAYING_SECONDS = 15.0
"""Seconds for which the rows of a run that changes are good enough."""
Stamp = tuple[tuple[int, int, int] | None, ...]


def stamp_of(*files: Path | None) -> Stamp:
    """What changes when one of these files does, for the price of a `stat` each."""
    found: list[tuple[int, int, int] | None] = []
    for file in files:
        try:
            facts = None if file is None else file.stat()
        except OSError:
            facts = None
        found.append(None if facts is None else (facts.st_ino, facts.st_size, facts.st_mtime_ns))
    return tuple(found)


def run_stamp(directory: Path) -> Stamp:
    """What changes when a run does."""
    return stamp_of(directory / DATABASE, directory / f"{DATABASE}-wal", receipt_of(directory))


@dataclass
class Board:
    """The rows of some runs, in order, with what is known of their receipts."""

    rows: list[BoardRow]
    problems: list[str] = field(default_factory=list[str])
    """Runs that cannot be read, and why."""
    unread: int = 0
    """Number of runs that are not read yet."""
    checks: dict[str, ReceiptCheck] = field(default_factory=dict[str, ReceiptCheck])
    """Directory of a run → the check of its receipt, where it was checked."""


class KeptBoards:
    """Rows and checks of receipts of runs, as long as the runs are as they were."""

    def __init__(self) -> None:
        self._rows: OrderedDict[Path, tuple[Stamp, float, list[BoardRow], str | None]] = OrderedDict()
        self._checks: OrderedDict[Path, tuple[Stamp, ReceiptCheck]] = OrderedDict()
        self._checking = anyio.Lock()

    def read(self, directories: Sequence[Path]) -> Board:
        """The rows of runs; what was not read before is read for a moment, but at least one run. Blocking."""
        until = time.monotonic() + _READ_SECONDS
        board = Board([])
        for directory in directories:
            stamp, kept = run_stamp(directory), self._rows.get(directory)
            is_fresh = kept is not None and (kept[0] == stamp or _plays_on(kept[1], kept[2]))
            if not is_fresh and time.monotonic() > until:
                board.unread += 1
                continue
            if kept is None or not is_fresh:
                kept = self._rows[directory] = _read(directory, stamp)
            self._rows.move_to_end(directory)
            board.rows += kept[2]
            if kept[3] is not None:
                board.problems.append(kept[3])
            if (check := self.checked(directory)) is not None:
                board.checks.update({row.run: check for row in kept[2]})
        while len(self._rows) > max(MOST_KEPT, len(directories)):
            self._rows.popitem(last=False)
        board.rows = in_order(board.rows)
        return board

    def checked(self, directory: Path) -> ReceiptCheck | None:
        """The check of a run's receipt, where run and receipt are as they were then."""
        kept = self._checks.get(directory)
        return kept[1] if kept is not None and kept[0] == run_stamp(directory) else None

    async def check(self, directory: Path) -> ReceiptCheck | None:
        """Verify the receipt of a run, unless that was done; None without a receipt. One at a time."""
        async with self._checking:
            receipt = receipt_of(directory)
            if receipt is None:
                return None
            if (known := self.checked(directory)) is not None:
                return known
            stamp = run_stamp(directory)
            found = await check_receipt(receipt, directory)
            self._checks[directory] = stamp, found
            if len(self._checks) > MOST_KEPT:
                self._checks.popitem(last=False)
            return found


def _plays_on(read_at: float, rows: Sequence[BoardRow]) -> bool:
    """Whether rows are of a run that changes all the time, and not old."""
    plays = any(row.status == "running" for row in rows)
    return plays and time.monotonic() - read_at < _PLAYING_SECONDS


def _read(directory: Path, stamp: Stamp) -> tuple[Stamp, float, list[BoardRow], str | None]:
    try:
        return stamp, time.monotonic(), rows_of(directory), None
    except (HubError, OSError) as error:
        return stamp, time.monotonic(), [], f"{directory.name}: {said(error)}"
