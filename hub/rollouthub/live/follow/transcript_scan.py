"""Searches transcripts in a process of its own, because a regular expression may take forever and must not block the
hub.

The file runs as a script and imports nothing of the project, so it starts fast. Each request is one line of JSON,
`{"database", "pattern", "flags", "after", "patience"}`. The script searches from that row on for about a tenth of a
second and answers in one line: `{"last", "searched", "matches": [[row, turn, excerpt], …], "slow": [row, …], "done"}`
or `{"problem"}`.
"""

import json
import re
import signal
import sqlite3
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

STRETCH_SECONDS = 0.1
"""Seconds to search before answering."""
_MOST = 512
"""Maximum number of rollouts searched for one answer."""
_TURN_BITS = 20  # as in the store's schema, which is not imported
_BEFORE, _AFTER = 24, 88
_DAMAGES = (
    sqlite3.Error,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
"""Errors that a run from elsewhere may cause: its content may be anything, such as endlessly nested or with huge
numbers.
"""


class _TookTooLong(Exception):
    """The time for one transcript is over."""


def texts_of(turn: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of a stored turn: messages, reasoning, tool names, arguments, results."""
    messages: list[dict[str, Any]] = [*turn.get("messages", ()), turn.get("response") or {}]
    for message in messages:
        content: Any = message.get("content", "")
        if isinstance(content, str):
            yield content
        else:
            yield from (part["text"] for part in content if isinstance(part.get("text"), str))
        if message.get("reasoning"):
            yield message["reasoning"]
        for request in message.get("tool_requests", ()):
            yield request["name"]
            yield request["arguments"]
    calls: list[dict[str, Any]] = turn.get("tool_calls", [])
    for call in calls:
        yield call["name"]
        arguments = call["arguments"]
        yield arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        for part in call["result"].get("content", ()):
            resource: dict[str, Any] = part.get("resource") or {}
            text = part.get("text") or resource.get("text")
            if isinstance(text, str):
                yield text


def first_match(pattern: re.Pattern[str], turn: dict[str, Any]) -> str | None:
    """Return the text around the first match in a turn; None without a match."""
    for text in texts_of(turn):
        if found := pattern.search(text):
            start = found.start()
            return text[max(0, start - _BEFORE) : start + _AFTER]
    return None


def scan(database: str, pattern: re.Pattern[str], after: int, patience: float) -> dict[str, Any]:
    """Search the transcripts after a row for a limited time; skip a transcript that takes longer than `patience`
    seconds.

    The database connection is closed after each call, because a run that ends waits for open connections.
    """
    until = time.monotonic() + STRETCH_SECONDS
    matches: list[tuple[int, int, str]] = []
    slow: list[int] = []
    last, searched = after, 0
    uri = f"{Path(database).absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=5)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        rows = connection.execute("SELECT id FROM rollouts WHERE id > ? ORDER BY id LIMIT ?", (after, _MOST)).fetchall()
        for (row,) in rows:
            try:
                with _at_most(patience):
                    turns = connection.execute(
                        "SELECT body FROM turns WHERE id >= ? AND id < ? ORDER BY id",
                        (row << _TURN_BITS, row + 1 << _TURN_BITS),
                    )
                    for (body,) in turns:
                        turn = json.loads(body)
                        excerpt = first_match(pattern, turn)
                        if excerpt is not None:
                            matches.append((row, int(turn["index"]), excerpt))
                            break
            except _TookTooLong:
                slow.append(row)
            last, searched = row, searched + 1
            if time.monotonic() > until:
                break
    done = len(rows) < _MOST and searched == len(rows)
    return {"last": last, "searched": searched, "matches": matches, "slow": slow, "done": done}


@contextmanager
def _at_most(seconds: float) -> Generator[None]:
    if not hasattr(signal, "setitimer"):  # whoever asked loses patience then, and ends the process
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _give_up(*_: object) -> None:
    raise _TookTooLong


def main() -> None:
    """Answer requests until stdin ends."""
    if hasattr(signal, "SIGALRM"):
        # The matcher looks for signals as it goes, so that this ends it in the middle.
        signal.signal(signal.SIGALRM, _give_up)
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        try:
            pattern = re.compile(asked["pattern"], asked["flags"])
            answer = scan(asked["database"], pattern, asked["after"], asked["patience"])
        except _DAMAGES as error:
            answer = {"problem": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
