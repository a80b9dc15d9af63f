"""How models wrote their arguments: agents that are given them parsed send them back written in another way.

A conversation continues a turn only where it repeats it to the letter, and the model's own letters are what it learns
from. So what was written is kept for a while, by what it says.
"""

import hashlib
import json
from typing import Any, cast

from envhub.gateway.seam.recent import Recent


class Spellings:
    """Arguments as they were written, by the call they belong to and what they say."""

    def __init__(self, most_bytes: int = 32 * 2**20) -> None:
        self._known: Recent[str] = Recent(most_bytes)

    def keep(self, call_id: str, said: object, written: str) -> None:
        """Keep how something was written, unless it would be written so anyway."""
        if written != spelled(said):
            self._known.keep(_key(call_id, said), written, len(written))

    def find(self, call_id: str, said: object) -> str:
        """How it was written; where nobody knows any more, how it is commonly written."""
        written = self._known.get(_key(call_id, said))
        return spelled(said) if written is None else written


def spelled(said: object) -> str:
    """As most models write JSON."""
    return json.dumps(said, ensure_ascii=False)


def _key(call_id: str, said: object) -> bytes:
    """The call and its meaning: other languages put keys in another order and write 1.0 as 1."""
    meaning = json.dumps(_plain(said), sort_keys=True)
    return hashlib.blake2b(f"{call_id}\0{meaning}".encode(), digest_size=16).digest()


def _plain(said: object) -> object:
    if isinstance(said, float) and said.is_integer():
        return int(said)
    if isinstance(said, dict):
        return {key: _plain(value) for key, value in cast(dict[str, Any], said).items()}
    if isinstance(said, list):
        return [_plain(value) for value in cast(list[Any], said)]
    return said
