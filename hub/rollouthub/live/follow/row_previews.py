"""What a rollout was asked, what it answered and what its verifier said, in a line each, for lists of rollouts."""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rollouthub.store.sql_schema import TURN_BITS
from rollouthub.text import one_line

CHARACTERS = 240
"""Most characters of a preview."""
_READ = 4 * CHARACTERS
_MOST_MESSAGES = 12
MOST_BODY = 2**23
"""Records and turns stored in more characters than this are not parsed for a preview."""


@dataclass(frozen=True, slots=True)
class RowPreview:
    """The beginnings of a rollout's texts; None where there is none."""

    prompt: str | None = None
    """The last message to the agent before its first response."""
    answer: str | None = None
    """The submitted answer, else the text of the last response."""
    feedback: str | None = None
    """The verifier's feedback, else the message of the first fault."""


def _text_at(path: str) -> str:
    """SQL for the beginning of a message's content, which is a text or a list of parts."""
    parts = f"(SELECT group_concat(json_extract(part.value, '$.text'), ' ') FROM json_each(turns.body, {path}) AS part)"
    whole = f"json_extract(turns.body, {path})"
    return f"substr(CASE json_type(turns.body, {path}) WHEN 'text' THEN {whole} ELSE {parts} END, 1, {_READ})"


_SMALL = f"length(body) <= {MOST_BODY}"
_RECORD = f"""
SELECT substr(json_extract(body, '$.answer'), 1, {_READ}),
    substr(coalesce(json_extract(body, '$.score.feedback'), json_extract(body, '$.faults[0].message')), 1, {_READ})
FROM rollouts WHERE id = ? AND {_SMALL}
"""
_PROMPT = f"""
SELECT {_text_at("message.fullkey || '.content'")}
FROM turns, json_each(turns.body, '$.messages') AS message
WHERE turns.id = ? AND message.key < {_MOST_MESSAGES} AND {_SMALL}
ORDER BY json_extract(message.value, '$.role') = 'user' DESC, message.key DESC LIMIT 1
"""
_RESPONSE = f"""
SELECT {_text_at("'$.response.content'")}
FROM turns WHERE id >= ? AND id < ? AND {_SMALL} ORDER BY id DESC LIMIT 1
"""


def read_previews(connection: sqlite3.Connection, row_ids: Sequence[int]) -> Iterator[RowPreview]:
    """Yield the previews of these rows, in their order; a record that is damaged or too large has none.

    Raises:
        sqlite3.Error: the database cannot be read.
    """
    for row_id in row_ids:
        first, last = row_id << TURN_BITS, row_id + 1 << TURN_BITS
        try:
            answer, feedback = connection.execute(_RECORD, (row_id,)).fetchone() or (None, None)
            (prompt,) = connection.execute(_PROMPT, (first,)).fetchone() or (None,)
            if answer is None:
                (answer,) = connection.execute(_RESPONSE, (first, last)).fetchone() or (None,)
        except sqlite3.OperationalError as error:
            if "malformed JSON" not in str(error):
                raise
            answer = feedback = prompt = None
        yield RowPreview(_line(prompt), _line(answer), _line(feedback))


def _line(text: object) -> str | None:
    return one_line(text, CHARACTERS) or None if isinstance(text, str) else None
