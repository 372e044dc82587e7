"""What was worked out already, for the next question: up to some size, then all is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cache(Generic[Key, Value]):
    """Values by their keys; any thread may ask and add. What is there may be gone at the next look,
    for beyond so much in all everything is forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._known: dict[Key, Value] = {}
        self.held = 0  # the sizes of all that is there

    def get(self, key: Key) -> Value | None:
        return self._known.get(key)

    def keep(self, key: Key, value: Value, size: int) -> None:
        with self._lock:
            if key in self._known or size > self._most:
                return
            if self.held + size > self._most:
                self._known.clear()
                self.held = 0
            self._known[key] = value
            self.held += size

    def of(self, key: Key, size: int, make: Callable[[], Value]) -> Value:
        """The value of a key, made now if it is not there."""
        found = self._known.get(key)
        if found is None:
            found = make()
            self.keep(key, found, size)
        return found
