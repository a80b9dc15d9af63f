"""A cache of parsed values: agents send the same tools, and nearly the same conversation, with each call."""

from threading import Lock
from typing import Generic, TypeVar

_V = TypeVar("_V")


class DecodeCache(Generic[_V]):
    """Values by the bytes they were parsed from, bounded in bytes.

    There are two generations: when the younger is full it becomes the older, and entries of the previous older one that
    were not used since are dropped. It is thread-safe, because large requests are parsed in worker threads.
    """

    def __init__(self, most_bytes: int, most_bytes_each: int = 2**20) -> None:
        self._most, self._most_each, self._held = most_bytes // 2, most_bytes_each, 0
        self._younger: dict[bytes, tuple[_V, int]] = {}
        self._older: dict[bytes, tuple[_V, int]] = {}
        self._lock = Lock()

    def get(self, key: bytes) -> _V | None:
        """The value parsed from these bytes; None if it is not cached."""
        with self._lock:
            entry = self._younger.get(key)
            if entry is None:
                entry = self._older.get(key)
                if entry is None:
                    return None
                self._keep(key, *entry)
            return entry[0]

    def keep(self, key: bytes, value: _V, extra_bytes: int = 0) -> None:
        """Store a value; `extra_bytes` is its estimated size beside the key."""
        # What the objects themselves take; else nothing would bound a great many small ones.
        size = len(key) + extra_bytes + 256
        if size <= self._most_each:
            with self._lock:
                self._keep(key, value, size)

    def _keep(self, key: bytes, value: _V, size: int) -> None:
        if self._held + size > self._most:
            self._older, self._younger, self._held = self._younger, {}, 0
        self._younger[key] = value, size
        self._held += size
