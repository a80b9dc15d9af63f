"""Searches the transcripts of a run, live or ended, for a regular expression."""

import json
import os
import re
import warnings
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from rollouthub.errors import StoreError, UsageError
from rollouthub.live.follow import transcript_scan
from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.processes import PYTHON, clean_environment
from rollouthub.store.read_only_source import ReadOnlySource
from rollouthub.text import plain_name

LONGEST = 1000
"""Maximum number of characters of an expression."""
PATIENCE_SECONDS = 1.0
"""Seconds for the search of one transcript; a slower one is skipped and reported."""
MOST_SLOW = 5
"""Number of skipped transcripts at which the whole search ends with an error."""
_SILENCE_SECONDS = 15.0
_LONGEST_ANSWER = 2**24


class PatternError(UsageError):
    """A text that is no valid regular expression, with the position of the mistake."""

    def __init__(self, problem: str, text: str, column: int) -> None:
        self.problem = problem
        self.column = column
        """Number of characters before the mistake."""
        super().__init__(f"no regular expression: {problem} (at column {column + 1}): {text[:200]!r}")


@dataclass(frozen=True, slots=True)
class Match:
    """The first match of an expression in an attempt."""

    row_id: int
    """The row's id; `place_of` returns its index in the columns."""
    turn: int
    """Index of the turn."""
    excerpt: str
    """Text around the match, on one line, safe to show in a terminal."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one step of the search."""

    matches: tuple[Match, ...]
    searched: int
    """Number of rollouts searched in this step."""
    last: int
    """Id of the last row searched; the search goes on after it."""
    slow: tuple[int, ...]
    """Ids of rows that took too long and were skipped."""


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile an expression: `^` and `$` match at lines, and case is ignored unless the expression has a capital
    letter.

    Raises:
        PatternError: the text is not a valid regular expression.
    """
    if len(text) > LONGEST:
        raise PatternError(f"it has at most {LONGEST} characters, not {len(text)}", text, LONGEST)
    # An escape such as \S is no capital that was asked for.
    is_any_case = not any(letter.isupper() for letter in re.sub(r"\\.", "", text))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what may mean something else in a later version
            return re.compile(text, re.MULTILINE | (re.IGNORECASE if is_any_case else 0))
    except re.error as error:
        raise PatternError(error.msg, text, error.pos or 0) from error
    except (OverflowError, RecursionError) as error:
        raise PatternError(f"it is too large ({error})", text, 0) from error


def place_of(columns: AttemptColumns, row_id: int) -> int | None:
    """Index of a row in the columns; None if it has not been read yet."""
    ids = columns.ids
    if 0 < row_id <= len(ids) and ids[row_id - 1] == row_id:
        return row_id - 1
    try:
        return ids.index(row_id)
    except ValueError:
        return None


async def search_transcripts(
    directory: Path, pattern: re.Pattern[str], *, after: int = 0, patience: float = PATIENCE_SECONDS
) -> AsyncGenerator[Found]:
    """Search every attempt's messages, reasoning, tool names, arguments and results; yields about ten results a second.

    The search runs in a process that ends with this generator: close it (`contextlib.aclosing`) when leaving early. For
    rows added later to a live run, call it again with `after`. `patience` is the time in seconds for each transcript.

    Raises:
        UsageError: the expression takes too long.
        RunDirectoryError, StoreError: the run cannot be read.
    """
    source = ReadOnlySource(directory)
    slow = 0
    expression = {"pattern": pattern.pattern, "flags": pattern.flags & ~re.UNICODE}
    try:
        command = [*PYTHON, "-I", transcript_scan.__file__]
        async with await anyio.open_process(
            command, stderr=DEVNULL, start_new_session=True, env=clean_environment(os.environ)
        ) as process:
            try:
                answers = BufferedByteReceiveStream(_output(process))
                while True:
                    database = await anyio.to_thread.run_sync(_database, source)
                    question = {"database": database, "after": after, "patience": patience, **expression}
                    answer = await _ask(process, answers, question)
                    if "problem" in answer:
                        raise StoreError(f"could not search the run in {directory}: {answer['problem']}; try again")
                    after = answer["last"]
                    slow += len(answer["slow"])
                    matches = tuple(Match(row, turn, plain_name(text)) for row, turn, text in answer["matches"])
                    yield Found(matches, answer["searched"], after, tuple(answer["slow"]))
                    if slow >= MOST_SLOW:
                        raise _too_slow(pattern.pattern)
                    if answer["done"]:
                        return
            finally:
                if process.returncode is None:
                    process.kill()
    finally:
        source.close()


def _output(process: Process) -> Any:
    assert process.stdout is not None
    return process.stdout


def _database(source: ReadOnlySource) -> str:
    """The path of the file to read now: the run's database, or a copy of it where its writer died."""
    with source.connect() as connection:
        return connection.execute("PRAGMA database_list").fetchone()[2]


async def _ask(process: Process, answers: BufferedByteReceiveStream, question: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    try:
        with anyio.fail_after(_SILENCE_SECONDS):
            await process.stdin.send(json.dumps(question).encode() + b"\n")
            line = await answers.receive_until(b"\n", _LONGEST_ANSWER)
    except TimeoutError as error:
        raise _too_slow(question["pattern"]) from error
    except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead, anyio.ClosedResourceError) as error:
        raise StoreError("the search ended before it was done; try again") from error
    found: dict[str, Any] = json.loads(line)
    return found


def _too_slow(pattern: str) -> UsageError:
    return UsageError(
        f"/{plain_name(pattern)}/ takes too long on some transcripts: a repetition inside a repetition, "
        "such as (a+)+, may take forever; write it without"
    )
