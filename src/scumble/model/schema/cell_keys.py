"""CellKeys: tuples of codes as single numbers, in lexicographic order, for domains of any size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from scumble.model.errors import ParameterError

_WORD = 1 << 64


class CellKeys:
    """Mixed-radix numbers over columns of the given sizes; the first column counts most.

    Neighbouring columns share a 64-bit word as long as the product of their sizes fits; a domain
    beyond 2^64 takes several words, the first counting most, so that sorting by words sorts tuples.

    >>> keys = CellKeys([3, 10])
    >>> keys.pack([np.array([0, 2]), np.array([7, 1])])
    array([ 7, 21], dtype=uint64)
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(int(size) for size in sizes)
        if any(not 1 <= size <= _WORD for size in self.sizes):
            raise ParameterError.of("CellKeys", "sizes", "numbers from 1 to 2^64", list(sizes))
        self.size = prod(self.sizes)
        self._groups = _group(self.sizes)
        self.words = len(self._groups)
        # How many numbers each word can be: all of them, since its columns are complete.
        self.capacities = [prod(self.sizes[place] for place in group) for group in self._groups]

    def __repr__(self) -> str:
        return f"CellKeys({list(self.sizes)})"

    def pack(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """One uint64 key per row, or one row of `words` keys where one word is too small."""
        if len(columns) != len(self.sizes) or not columns:
            allowed = f"{len(self.sizes)} arrays of codes"
            raise ParameterError.of("CellKeys.pack", "columns", allowed, len(columns))
        if self.words == 1:
            return self._pack_word(columns, self._groups[0])
        keys = np.empty((len(columns[0]), self.words), np.uint64)
        for word, group in enumerate(self._groups):
            keys[:, word] = self._pack_word(columns, group)
        return keys

    def unpack(
        self, keys: np.ndarray, dtypes: Sequence[np.dtype] | None = None
    ) -> list[np.ndarray]:
        """The columns of codes behind the keys; by default in the smallest type that holds each."""
        types = [smallest(size) for size in self.sizes] if dtypes is None else list(dtypes)
        columns: dict[int, np.ndarray] = {}
        for word, group in enumerate(self._groups):
            rest = keys if self.words == 1 else keys[:, word]
            if self.capacities[word] <= 1 << 32:
                rest = rest.astype(np.uint32)  # division of half words is much faster
            for place in reversed(group[1:]):
                # A size of 2^64 can only stand beside sizes of 1; then it is all of the rest.
                if self.sizes[place] == _WORD:
                    columns[place], rest = rest.astype(types[place]), np.zeros_like(rest)
                    continue
                divisor = rest.dtype.type(self.sizes[place])
                quotient = rest // divisor
                columns[place] = (rest - quotient * divisor).astype(types[place])
                rest = quotient
            for place in group[:1]:
                columns[place] = rest.astype(types[place])
        return [columns[place] for place in range(len(self.sizes))]

    def to_integers(self, keys: np.ndarray) -> list[int]:
        """Each key as one Python integer from 0 to size - 1."""
        if self.words == 1:
            return [int(key) for key in keys]
        return [self._join(row) for row in keys.tolist()]

    def from_integers(self, integers: Iterable[int]) -> np.ndarray:
        """The keys of Python integers from 0 to size - 1."""
        rows = [self._split(int(integer)) for integer in integers]
        keys = np.array(rows, np.uint64).reshape(len(rows), self.words)
        return keys[:, 0] if self.words == 1 else keys

    def _pack_word(self, columns: Sequence[np.ndarray], group: Sequence[int]) -> np.ndarray:
        key = columns[group[0]].astype(np.uint64)
        for place in group[1:]:
            key *= np.uint64(self.sizes[place] % _WORD)
            key += columns[place].astype(np.uint64, copy=False)
        return key

    def _join(self, row: Sequence[int]) -> int:
        total = 0
        for key, capacity in zip(row, self.capacities, strict=True):
            total = total * capacity + key
        return total

    def _split(self, integer: int) -> list[int]:
        if not 0 <= integer < self.size:
            raise ParameterError.of(
                "CellKeys.from_integers", "integers", f"from 0 to {self.size - 1}", integer
            )
        row = []
        for capacity in reversed(self.capacities):
            integer, key = divmod(integer, capacity)
            row.append(key)
        return row[::-1]


def smallest(size: int) -> np.dtype:
    """The smallest unsigned type that holds the codes 0 to size - 1."""
    return np.min_scalar_type(max(size - 1, 0))


def _group(sizes: Sequence[int]) -> list[list[int]]:
    """Greedily, neighbours together, while a word holds them; at least one word."""
    groups: list[list[int]] = [[]]
    capacity = 1
    for place, size in enumerate(sizes):
        if capacity * size > _WORD:
            groups.append([])
            capacity = 1
        groups[-1].append(place)
        capacity *= size
    return groups
