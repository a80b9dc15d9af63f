"""A whole answer of the HTTP client."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from rollouthub.text import one_line

_SHOWN_BYTES = 2000


class WholeAnswer(NamedTuple):
    """Status, body and headers of a response."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    """By their names in lower case; of a repeated one the first."""

    @property
    def words(self) -> str:
        """Status and beginning of the body on one line, for a message."""
        return f"HTTP {self.status}: {one_line(self.body[:_SHOWN_BYTES].decode(errors='replace'))}"

    def json(self) -> Any:
        """The body as JSON.

        Raises:
            ValueError: it is none.
        """
        try:
            return msgspec.json.decode(self.body)
        except RecursionError:
            raise ValueError("the answer is nested too deeply") from None
