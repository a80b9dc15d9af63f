"""Runs commands one by one; a failed command is reported, and the next one is run."""

import sqlite3

import anyio

from rollouthub.errors import HubError, said
from rollouthub.live.follow.filter import FilterError
from rollouthub.live.follow.transcript_search import PatternError
from rollouthub_tui.text.pages import Pages
from rollouthub_tui.text.position import Position
from rollouthub_tui.text.vocabulary import find_word, more


def converse(session: Position) -> None:
    """Run commands until one quits or there are no more."""
    while True:
        try:
            line = session.ahead or session.lines.next()
        except KeyboardInterrupt:
            line = None
        session.ahead = None
        if line is None:
            if session.lines.is_prompted:
                session.output.say("")  # what comes after it begins a line
            return
        try:
            if not anyio.run(do, session, line, backend="asyncio"):
                return
        except KeyboardInterrupt:
            session.output.say("")


async def do(session: Position, line: str) -> bool:
    """Run a command; returns False if it quits."""
    name, _, rest = line.strip().partition(" ")
    try:
        if not name:
            if session.pages.has_more:
                session.turn_page()
            return True
        word = find_word(name)
        if word.act is None:
            return False
        if word.act is not more:
            session.pages = Pages()  # what was not read of it is done with
        await session.look()
        await word.act(session, rest.strip())
    except (FilterError, PatternError) as error:
        kind = "a filter" if isinstance(error, FilterError) else "a regular expression"
        session.output.complain(f"That is not {kind}, at character {error.column + 1} of it: {error.problem}")
    except (HubError, OSError, ValueError, sqlite3.Error) as error:
        if isinstance(error, BrokenPipeError):
            raise
        session.output.complain(said(error))
    return True
