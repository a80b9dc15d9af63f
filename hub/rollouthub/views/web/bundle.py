"""The pages as files: a folder for a static host, or to open as it is; one rollout is one file."""

import base64
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rollouthub.analysis.compare.board import board_rows
from rollouthub.analysis.compare.receipt_check import check_receipt_now
from rollouthub.errors import ConfigError, RunDirectoryError, StoreError, UnknownNameError, UsageError
from rollouthub.live.follow import SeenRun
from rollouthub.live.follow.run_tallies import Tallies
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.plugins.plain_files import read_plain
from rollouthub.statistics.amounts import count
from rollouthub.store import RunReader
from rollouthub.store.run_directories import receipt_of
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.web.board_page import board_page
from rollouthub.views.web.bundle_links import (
    BOARD,
    COMPARISON,
    INDEX,
    RECEIPT,
    BundleLinks,
    file_name,
    page_file,
    rollout_file,
)
from rollouthub.views.web.compare_page import compare_page, read_side_by_side
from rollouthub.views.web.kept_boards import Board
from rollouthub.views.web.notes_html import PageNotes
from rollouthub.views.web.opened_runs import OpenedRun, address_name
from rollouthub.views.web.report_page import report_page
from rollouthub.views.web.review_page import review_page
from rollouthub.views.web.rollout_page import read_rollout, rollout_page
from rollouthub.views.web.rollout_rows import PAGE_ROWS
from rollouthub.views.web.row_query import RowQuery
from rollouthub.views.web.run_page import run_page
from rollouthub.views.web.runs_page import RunLine, RunsQuery, runs_page
from rollouthub.views.web.served_media import served_media
from rollouthub.views.web.tasks_page import tasks_page

MOST_ROLLOUTS = 20_000
"""Most rollouts of a bundle: each is a file of its own."""
EMBEDDED_BYTES, PAGE_BYTES = 2 * 2**20, 16 * 2**20
"""Largest picture or sound that is in a page, and most bytes of all in one page."""
MOST_RECEIPT = 9_000_000
"""Most bytes of a receipt that are copied: `hub attest` writes none that is larger."""


def write_bundle(
    directories: Sequence[Path], output: Path, expression: str, plainness: Plainness, *, has_board: bool = False
) -> str:
    """Write runs as pages into a folder, which appears when it is complete; returns what was written, in words.

    `has_board` adds a leaderboard, for which the receipts of the runs are verified.

    Raises:
        UsageError: no run is named, the folder is not empty or cannot be made, the filter is not valid, or there are
            too many rollouts.
        StoreError: a run cannot be read, or the folder cannot be written.
    """
    if not directories:
        raise UsageError("name the runs to write: hub view RUN… --bundle DIR")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise ConfigError(f"{output} is there and not empty; name a folder that is not there yet")
    with ExitStack() as stack:
        runs = [_opened(directory, plainness, stack) for directory in directories]
        bundle = RunBundle(runs, RowQuery(filter=expression), has_board=has_board)
        parent = output.absolute().parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=parent))
        except OSError as error:
            raise ConfigError(f"cannot write {output}: {error.strerror or error}; name another folder") from error
        stack.callback(shutil.rmtree, partial, ignore_errors=True)
        try:
            partial.chmod(0o777 & ~_umask())
            bundle.write(partial)
            partial.replace(output)
        except OSError as error:
            raise StoreError(f"the pages cannot be written to {output}: {error.strerror or error}") from error
    return f"{count(len(runs), 'run')} with {count(bundle.rollouts, 'rollout')}"


def _nothing(digest: str) -> None:
    """The address of a medium on a page that shows none."""
    return


def _read_receipt(receipt: Path) -> bytes:
    try:
        with read_plain(receipt) as file:
            return file.read(MOST_RECEIPT)
    except OSError as error:
        why = "it is a link" if receipt.is_symlink() else error.strerror or error
        raise RunDirectoryError(f"{receipt} is not copied ({why}); move it away, or leave out --board") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _opened(directory: Path, plainness: Plainness, stack: ExitStack) -> OpenedRun:
    watched = WatchedRun(directory, {})
    stack.callback(watched.close)
    watched.feed.refresh()
    watched.is_open = True
    return OpenedRun(address_name(directory.resolve()), watched, plainness)


class RunBundle:
    """Some runs and the rollouts of them that get pages."""

    def __init__(self, runs: Sequence[OpenedRun], query: RowQuery, *, has_board: bool = False) -> None:
        """
        Raises:
            UsageError: the filter is not valid, two runs have one name, or there are too many rollouts.
        """
        names = [file_name(run.name) for run in runs]
        if len(set(names)) < len(names):
            raise UsageError("two of the runs have one name; write a bundle for each")
        self._runs, self._query, self._has_board = runs, query, has_board
        self._written: set[tuple[str, str, int | None]] = set()
        for run in runs:
            found = run.lists.find(query)
            if found.problem is not None:
                raise found.problem
            ids = run.feed.columns.texts["rollout_id"]
            self._written.update((run.name, ids[place], None) for place in found.rows.page(0, len(found.rows)))
        if self.rollouts > MOST_ROLLOUTS:
            raise UsageError(
                f"{self.rollouts:,} rollouts are more than the {MOST_ROLLOUTS:,} of a bundle; choose some with --filter"
            )

    @property
    def rollouts(self) -> int:
        """Number of rollouts that get pages."""
        return len(self._written)

    def write(self, folder: Path) -> None:
        """Write all pages into an empty folder."""
        has_comparison = len(self._runs) > 1
        if has_comparison:
            try:
                _put(folder / COMPARISON, compare_page(read_side_by_side(self._runs), self._links(0)))
            except ConfigError:
                has_comparison = False  # they have no task in common
        if self._has_board:
            self._write_board(folder)
        _put(folder / INDEX, self._list(has_comparison))
        for run in self._runs:
            self._write_run(run, folder / "run" / file_name(run.name))

    def _links(
        self, depth: int, embedded: "EmbeddedMedia | None" = None, *, has_comparison: bool = False
    ) -> BundleLinks:
        def is_written(run: str, rollout: str, attempt: int | None) -> bool:
            return (run, rollout, attempt) in self._written

        embed = _nothing if embedded is None else embedded.address
        return BundleLinks(depth, is_written, embed, has_comparison=has_comparison, has_board=self._has_board)

    def _list(self, has_comparison: bool) -> str:
        seen = [SeenRun(run.watched.directory, run.feed.info, None, None) for run in self._runs]
        tallies = Tallies()
        tallies.read(seen)
        lines = [RunLine(each, run.name, tallies.of(each)) for each, run in zip(seen, self._runs, strict=True)]
        return runs_page(lines, RunsQuery(), 0, self._links(0, has_comparison=has_comparison))

    def _write_board(self, folder: Path) -> None:
        """The leaderboard, and beside each run the receipt that it has."""
        names = {run.watched.directory.resolve(): run.name for run in self._runs}
        board = Board(board_rows(names))
        for directory, name in names.items():
            if (receipt := receipt_of(directory)) is not None:
                copied = folder / "run" / file_name(name) / RECEIPT
                copied.parent.mkdir(parents=True, exist_ok=True)
                copied.write_bytes(_read_receipt(receipt))
                check = check_receipt_now(receipt, directory)
                board.checks.update({row.run: check for row in board.rows if Path(row.run).resolve() == directory})
        _put(folder / BOARD, board_page(board, lambda run: names[run.resolve()], self._links(0)))

    def _write_run(self, run: OpenedRun, folder: Path) -> None:
        links = self._links(2)
        rows = run.lists.find(self._query).rows
        for start in range(0, max(1, len(rows)), PAGE_ROWS):
            _put(folder / page_file(start), run_page(run, self._query, start, links, None))
        queue = replace(self._query, review=True)
        for start in range(0, max(1, len(run.lists.find(queue).rows)), PAGE_ROWS):
            _put(folder / page_file(start, is_review=True), review_page(run, queue, start, links, None))
        _put(folder / "tasks.html", tasks_page(run, "mixed", 0, links))
        _put(folder / "report.html", report_page(run, links))
        ids = run.feed.columns.texts["rollout_id"]
        for rollout_id in [ids[place] for place in rows.page(0, len(rows))]:
            rollout, context = read_rollout(run, rollout_id, None, self._query)
            page_links = self._links(3, EmbeddedMedia(run.feed.reader))
            notes = PageNotes(run, rollout, page_links, self._query)
            html = rollout_page(run, rollout, context, page_links, self._query, notes=notes)
            _put(folder / "rollout" / rollout_file(rollout_id, None), html)


class EmbeddedMedia:
    """The pictures and sounds of one page, as long as there is room."""

    def __init__(self, reader: RunReader) -> None:
        self._reader, self._left = reader, PAGE_BYTES

    def address(self, digest: str) -> str | None:
        """A picture or sound as a `data:` address; None if it is none, is too large or is not there."""
        try:
            content, kind, _ = served_media(self._reader, digest)
        except (UnknownNameError, RunDirectoryError):
            return None
        if not kind.startswith(("image/", "audio/")) or len(content) > min(EMBEDDED_BYTES, self._left):
            return None
        self._left -= len(content)
        return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _put(file: Path, html: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(html, encoding="utf-8")
