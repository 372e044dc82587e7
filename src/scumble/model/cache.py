"""A bounded, thread-safe cache of computed values."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cache(Generic[Key, Value]):
    """A mapping that holds values up to a total size of `limit`.

    The caller states the size of each value, in any unit. All entries are dropped when the total
    size would exceed `limit`; a value that is larger than `limit` is not stored. Several threads
    may use one cache: two of them may compute the same value, and the first one stored is kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._values: dict[Key, Value] = {}
        self.size = 0  # the total size of the entries

    def get(self, key: Key) -> Value | None:
        """Return the value of `key`, or None if there is no entry."""
        return self._values.get(key)

    def __contains__(self, key: Key) -> bool:
        return key in self._values

    def put(self, key: Key, value: Value, size: int) -> None:
        """Store a value of the given size, unless `key` has an entry already."""
        with self._lock:
            if key in self._values or size > self._limit:
                return
            if self.size + size > self._limit:
                self._values.clear()
                self.size = 0
            self._values[key] = value
            self.size += size

    def get_or_make(self, key: Key, size: int, make: Callable[[], Value]) -> Value:
        """Return the value of `key`; if there is none, call `make()` and store its result."""
        found = self._values.get(key)
        if found is None:
            found = make()
            self.put(key, found, size)
        return found
