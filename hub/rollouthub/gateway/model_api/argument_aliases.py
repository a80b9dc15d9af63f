"""Remembers the exact text of tool arguments: agents that get them parsed send them back formatted differently.

A conversation continues an earlier turn only if it repeats the turn exactly, and training needs the model's own tokens.
So the original text is kept for a while, keyed by the arguments' meaning.
"""

import hashlib
import json
from typing import Any, cast

from rollouthub.gateway.model_api.decode_cache import DecodeCache


class ArgumentAliases:
    """Original texts of tool arguments, by conversation owner, call id and meaning."""

    def __init__(self, known: DecodeCache[str] | None = None, scope: bytes = b"") -> None:
        self._known: DecodeCache[str] = DecodeCache(32 * 2**20) if known is None else known
        # Ids of calls may be equal in two episodes: some servers name none, and ours are then counted.
        self._scope = hashlib.blake2b(scope, digest_size=16).digest()

    def of(self, scope: bytes) -> "ArgumentAliases":
        """A view for one scope, over the same memory."""
        return ArgumentAliases(self._known, scope)

    def keep(self, call_id: str, said: object, written: str) -> None:
        """Remember the original text, unless it equals the default formatting."""
        if written != spelled(said):
            self._known.keep(self._key(call_id, said), written, len(written))

    def find(self, call_id: str, said: object) -> str:
        """The original text; if it is not remembered, the default formatting."""
        written = self._known.get(self._key(call_id, said))
        return spelled(said) if written is None else written

    def _key(self, call_id: str, said: object) -> bytes:
        """A key from the call and the arguments' meaning, independent of key order and of 1 versus 1.0, which differ
        between languages.
        """
        meaning = json.dumps(_plain(said), sort_keys=True)
        return hashlib.blake2b(self._scope + f"{call_id}\0{meaning}".encode(), digest_size=16).digest()


def spelled(said: object) -> str:
    """JSON text in the default formatting, which most models use."""
    return json.dumps(said, ensure_ascii=False)


def _plain(said: object) -> object:
    if isinstance(said, float) and said.is_integer():
        return int(said)
    if isinstance(said, dict):
        return {key: _plain(value) for key, value in cast(dict[str, Any], said).items()}
    if isinstance(said, list):
        return [_plain(value) for value in cast(list[Any], said)]
    return said
