"""The addresses of pages that are files: relative, so that the folder may lie anywhere."""

import re
from collections.abc import Callable, Sequence
from hashlib import sha256

from rollouthub.views.web.links import ALL
from rollouthub.views.web.rollout_rows import PAGE_ROWS
from rollouthub.views.web.row_query import RowQuery

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\.[A-Za-z0-9_-]{1,40})*")
INDEX = "index.html"
COMPARISON = "compare.html"
BOARD = "board.html"
RECEIPT = "receipt.json"


def file_name(name: str) -> str:
    """A name as that of a file: itself if it is plain, else a digest of it."""
    return name if _PLAIN.fullmatch(name) and len(name) < 120 else sha256(name.encode()).hexdigest()[:24]


def rollout_file(rollout: str, attempt: int | None) -> str:
    """The file of a rollout's page; an attempt that was replaced has its own."""
    return f"{file_name(rollout)}{'' if attempt is None else f'-attempt-{attempt}'}.html"


class BundleLinks:
    """The addresses in one file of a bundle."""

    is_static = True

    def __init__(
        self,
        depth: int,
        is_written: Callable[[str, str, int | None], bool],
        embed: Callable[[str], str | None] = lambda digest: None,
        *,
        has_comparison: bool = False,
        has_board: bool = False,
    ) -> None:
        """`depth` is the number of folders that the file is in. `is_written` says whether a rollout of a run has a
        page, `embed` gives a picture or sound by its digest as a `data:` address.
        """
        self._up = "../" * depth
        self._is_written, self._embed = is_written, embed
        self._has_comparison, self._has_board = has_comparison, has_board

    def asset(self, name: str) -> str:
        """A file of the pages; every page has its style and script in itself."""
        return self._up + name

    def runs(self) -> str:
        """The list of runs."""
        return self._up + INDEX

    def run(self, run: str, query: RowQuery = ALL, offset: int = 0) -> str:
        """A run, with its rollouts from a position on, or with what needs a review; a file has one order."""
        return f"{self._up}run/{file_name(run)}/{page_file(offset, is_review=query.review)}"

    def part(self, run: str, name: str) -> str:
        """A further page of a run."""
        return f"{self._up}run/{file_name(run)}/{name}.html"

    def task(self, run: str, group: str) -> None:
        """There are no pages of tasks: a rollout's page names the other samples."""
        return

    def rollout(
        self, run: str, rollout: str, attempt: int | None = None, query: RowQuery = ALL, turn: int | None = None
    ) -> str | None:
        """A rollout, if it is in the bundle."""
        if not self._is_written(run, rollout, attempt):
            return None
        anchor = "" if turn is None else f"#turn-{turn + 1}"
        return f"{self._up}run/{file_name(run)}/rollout/{rollout_file(rollout, attempt)}{anchor}"

    def all_tokens(self, run: str, rollout: str, attempt: int, query: RowQuery = ALL) -> str | None:
        """A file has all tokens that are shown."""
        return None

    def media(self, run: str, digest: str) -> str | None:
        """A picture or a sound, as it is."""
        return self._embed(digest)

    def compare(self, runs: Sequence[str], task: Sequence[str] = ()) -> str | None:
        """The comparison of all runs of the bundle."""
        return self._up + COMPARISON if self._has_comparison and not task else None

    def board(self, runs: Sequence[str] = ()) -> str | None:
        """The leaderboard of all runs of the bundle."""
        return self._up + BOARD if self._has_board else None

    def receipt(self, run: str) -> str:
        """The receipt itself."""
        return f"{self._up}run/{file_name(run)}/{RECEIPT}"

    def action(self, run: str, action: str, rollout: str = "") -> str:
        """Nothing answers a file."""
        raise AssertionError("pages that are files offer no action")

    def note(self, run: str, rollout: str, attempt: int, turn: int | None = None, query: RowQuery = ALL) -> str:
        """Nothing answers a file."""
        raise AssertionError("pages that are files take no notes")


def page_file(offset: int, *, is_review: bool = False) -> str:
    """The file with a page of a run's table, or of what needs a review."""
    number = offset // PAGE_ROWS
    first, name = ("review.html", "review") if is_review else (INDEX, "page")
    return first if number == 0 else f"{name}-{number + 1}.html"
