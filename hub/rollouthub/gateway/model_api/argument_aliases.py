"""How models wrote their arguments: agents that are given them parsed send them back written in another way.

A conversation continues a turn only where it repeats it to the letter, and the model's own letters are what it learns
from. So what was written is kept for a while, by what it says.
"""

import hashlib
import json
from typing import Any, cast

from rollouthub.gateway.model_api.decode_cache import DecodeCache


class Spellings:
    """Arguments as they were written, by whose they are, the call they belong to and what they say."""

    def __init__(self, known: DecodeCache[str] | None = None, scope: bytes = b"") -> None:
        self._known: DecodeCache[str] = DecodeCache(32 * 2**20) if known is None else known
        # Ids of calls may be equal in two episodes: some servers name none, and ours are then counted.
        self._scope = hashlib.blake2b(scope, digest_size=16).digest()

    def of(self, scope: bytes) -> "Spellings":
        """Those of one scope alone; the memory is shared."""
        return Spellings(self._known, scope)

    def keep(self, call_id: str, said: object, written: str) -> None:
        """Keep how something was written, unless it would be written so anyway."""
        if written != spelled(said):
            self._known.keep(self._key(call_id, said), written, len(written))

    def find(self, call_id: str, said: object) -> str:
        """How it was written; where nobody knows any more, how it is commonly written."""
        written = self._known.get(self._key(call_id, said))
        return spelled(said) if written is None else written

    def _key(self, call_id: str, said: object) -> bytes:
        """The call and its meaning: other languages put keys in another order and write 1.0 as 1."""
        meaning = json.dumps(_plain(said), sort_keys=True)
        return hashlib.blake2b(self._scope + f"{call_id}\0{meaning}".encode(), digest_size=16).digest()


def spelled(said: object) -> str:
    """As most models write JSON."""
    return json.dumps(said, ensure_ascii=False)


def _plain(said: object) -> object:
    if isinstance(said, float) and said.is_integer():
        return int(said)
    if isinstance(said, dict):
        return {key: _plain(value) for key, value in cast(dict[str, Any], said).items()}
    if isinstance(said, list):
        return [_plain(value) for value in cast(list[Any], said)]
    return said
