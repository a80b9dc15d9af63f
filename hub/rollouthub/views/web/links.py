"""The addresses of the pages, as one page links to another: of a server, or of files in a folder."""

from collections.abc import Sequence
from typing import Protocol
from urllib.parse import quote, urlencode

from rollouthub.views.web.row_query import RowQuery

ALL = RowQuery()


class Links(Protocol):
    """Makes the addresses for one page."""

    is_static: bool
    """Whether the pages are files: nothing answers, so that there are no forms."""

    def asset(self, name: str) -> str:
        """The style sheet, the script or the icon."""
        ...

    def runs(self) -> str:
        """The list of runs."""
        ...

    def run(self, run: str, query: RowQuery = ALL, offset: int = 0) -> str:
        """A run, with its rollouts from a position on."""
        ...

    def part(self, run: str, name: str) -> str:
        """A further page of a run: `tasks` or `report`."""
        ...

    def task(self, run: str, group: str) -> str | None:
        """A task's samples; None if there is no such page."""
        ...

    def rollout(
        self, run: str, rollout: str, attempt: int | None = None, query: RowQuery = ALL, turn: int | None = None
    ) -> str | None:
        """A rollout, at a turn counted from 0; None if there is no such page."""
        ...

    def all_tokens(self, run: str, rollout: str, attempt: int, query: RowQuery = ALL) -> str | None:
        """A rollout with all of its tokens; None if its page has them."""
        ...

    def media(self, run: str, digest: str) -> str | None:
        """A picture, a sound or a file of a rollout; None if there is none."""
        ...

    def compare(self, runs: Sequence[str], task: Sequence[str] = ()) -> str | None:
        """Runs side by side, or one task of theirs, by environment, split, id and digest; None if there is no such
        page.
        """
        ...

    def board(self, runs: Sequence[str] = ()) -> str | None:
        """The leaderboard, of all runs or of these; None if there is no such page."""
        ...

    def receipt(self, run: str) -> str:
        """The receipt of a run that has one."""
        ...

    def action(self, run: str, action: str, rollout: str = "") -> str:
        """The page that asks before an action of a person."""
        ...

    def note(self, run: str, rollout: str, attempt: int, turn: int | None = None, query: RowQuery = ALL) -> str:
        """The page that takes notes on an attempt at a rollout, or on a turn of it, counted from 1."""
        ...


class ServedLinks:
    """The addresses of a server's pages."""

    is_static = False

    def __init__(self, place: str) -> None:
        """`place` is the path of the list of runs, with slashes at both ends."""
        self._place = place

    def asset(self, name: str) -> str:
        """The style sheet, the script or the icon."""
        return self._place + name

    def runs(self) -> str:
        """The list of runs."""
        return self._place

    def run(self, run: str, query: RowQuery = ALL, offset: int = 0) -> str:
        """A run, with its rollouts from a position on."""
        return self._run(run) + (query.written(offset=offset) if offset else query.written())

    def part(self, run: str, name: str) -> str:
        """A further page of a run."""
        return f"{self._run(run)}/{name}"

    def task(self, run: str, group: str) -> str:
        """A task's samples."""
        return f"{self._run(run)}/task/{_word(group)}"

    def rollout(
        self, run: str, rollout: str, attempt: int | None = None, query: RowQuery = ALL, turn: int | None = None
    ) -> str:
        """A rollout."""
        asked = query.written() if attempt is None else query.written(attempt=attempt)
        return f"{self._run(run)}/rollout/{_word(rollout)}{asked}" + ("" if turn is None else f"#turn-{turn + 1}")

    def all_tokens(self, run: str, rollout: str, attempt: int, query: RowQuery = ALL) -> str:
        """A rollout with all of its tokens."""
        return f"{self._run(run)}/rollout/{_word(rollout)}{query.written(attempt=attempt, tokens='all')}"

    def media(self, run: str, digest: str) -> str:
        """A picture, a sound or a file of a rollout."""
        return f"{self._run(run)}/media/{_word(digest)}"

    def compare(self, runs: Sequence[str], task: Sequence[str] = ()) -> str:
        """Runs side by side, or one task of theirs."""
        return (
            f"{self._place}compare?{urlencode([*(('run', run) for run in runs), *(('task', part) for part in task)])}"
        )

    def board(self, runs: Sequence[str] = ()) -> str:
        """The leaderboard, of all runs or of these."""
        return f"{self._place}board" + (f"?{urlencode([('run', run) for run in runs])}" if runs else "")

    def receipt(self, run: str) -> str:
        """What `hub verify` says of the run's receipt."""
        return self.part(run, "receipt")

    def action(self, run: str, action: str, rollout: str = "") -> str:
        """The page that asks before an action of a person."""
        return f"{self._run(run)}/do/{action}" + (f"?{urlencode({'rollout': rollout})}" if rollout else "")

    def note(self, run: str, rollout: str, attempt: int, turn: int | None = None, query: RowQuery = ALL) -> str:
        """The page that takes notes."""
        place = {} if turn is None else {"turn": turn}
        return f"{self._run(run)}/note{query.written(rollout=rollout, attempt=attempt, **place)}"

    def _run(self, run: str) -> str:
        return f"{self._place}run/{_word(run)}"


def _word(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")
