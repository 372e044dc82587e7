"""CellKeys: tuples of codes as single integers, for product domains of any size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from scumble.model.errors import ParameterError

_WORD = 1 << 64
_HALF_WORD = 1 << 32
_BLOCK = 1 << 16  # keys at a time: what is computed of them stays in cache


class CellKeys:
    """Mixed-radix keys of tuples over columns of the given sizes.

    The first column is the most significant, so keys sort as tuples do. Adjacent columns share a
    64-bit word as long as the product of their sizes fits. A domain beyond 2^64 takes several
    words, the first of them the most significant.

    >>> keys = CellKeys([3, 10])
    >>> keys.pack([np.array([0, 2]), np.array([7, 1])])
    array([ 7, 21], dtype=uint64)
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes: tuple[int, ...] = tuple(int(size) for size in sizes)
        if any(not 1 <= size <= _WORD for size in self.sizes):
            raise ParameterError.of("CellKeys", "sizes", "numbers from 1 to 2^64", list(sizes))
        self.size: int = prod(self.sizes)
        self._groups = _group(self.sizes)
        self.words: int = len(self._groups)
        # The number of values of each word: the product of the sizes of its columns.
        self.capacities: list[int] = [
            prod(self.sizes[place] for place in group) for group in self._groups
        ]

    def __repr__(self) -> str:
        return f"CellKeys({list(self.sizes)})"

    def pack(self, columns: Sequence[np.ndarray], *, narrow: bool = False) -> np.ndarray:
        """Return one uint64 key per row, or `words` columns if one word is too small.

        With `narrow`, keys that have less than 2^32 values are uint32, which is twice as fast.
        """
        if len(columns) != len(self.sizes) or not columns:
            allowed = f"{len(self.sizes)} arrays of codes"
            raise ParameterError.of("CellKeys.pack", "columns", allowed, len(columns))
        if self.words == 1:
            half = narrow and self.size < _HALF_WORD
            return self._pack_word(columns, self._groups[0], np.uint32 if half else np.uint64)
        keys = np.empty((len(columns[0]), self.words), np.uint64)
        for word, group in enumerate(self._groups):
            keys[:, word] = self._pack_word(columns, group)
        return keys

    def unpack(
        self, keys: np.ndarray, dtypes: Sequence[np.dtype] | None = None
    ) -> list[np.ndarray]:
        """Return the columns of codes of the keys, by default in the smallest type for each."""
        types = [smallest_unsigned(size) for size in self.sizes] if dtypes is None else list(dtypes)
        columns = [np.empty(len(keys), kind) for kind in types]
        for begin in range(0, len(keys), _BLOCK):
            part = slice(begin, begin + _BLOCK)
            for word, group in enumerate(self._groups):
                rest = keys[part] if self.words == 1 else keys[part, word]
                self._unpack_word(rest, self.capacities[word], group, columns, part)
        return columns

    def _unpack_word(
        self,
        rest: np.ndarray,
        capacity: int,
        group: Sequence[int],
        columns: Sequence[np.ndarray],
        part: slice,
    ) -> None:
        """Write the codes of one word of some keys into the columns of its group."""
        if capacity < _HALF_WORD:
            rest = rest.astype(np.uint32, copy=False)  # 32-bit division is much faster
        for place in reversed(group[1:]):
            # A size of 2^64 shares a word only with sizes of 1, so the code is all of `rest`.
            if self.sizes[place] == _WORD:
                columns[place][part], rest = rest, np.zeros_like(rest)
                continue
            divisor = rest.dtype.type(self.sizes[place])
            quotient = rest // divisor
            columns[place][part] = rest - quotient * divisor
            rest = quotient
        for place in group[:1]:
            columns[place][part] = rest

    def to_integers(self, keys: np.ndarray) -> list[int]:
        """Return each key as one Python integer from 0 to size - 1."""
        if self.words == 1:
            return [int(key) for key in keys]
        return [self._join(row) for row in keys.tolist()]

    def from_integers(self, integers: Iterable[int]) -> np.ndarray:
        """Return the keys of Python integers from 0 to size - 1."""
        rows = [self._split(int(integer)) for integer in integers]
        keys = np.array(rows, np.uint64).reshape(len(rows), self.words)
        return keys[:, 0] if self.words == 1 else keys

    def _pack_word(
        self,
        columns: Sequence[np.ndarray],
        group: Sequence[int],
        kind: type[np.uint32] | type[np.uint64] = np.uint64,
    ) -> np.ndarray:
        keys: np.ndarray = columns[group[0]].astype(kind)
        for begin in range(0, len(keys), _BLOCK):
            part = slice(begin, begin + _BLOCK)
            key = keys[part]
            for place in group[1:]:
                key *= kind(self.sizes[place] % _WORD)
                key += columns[place][part].astype(kind, copy=False)
        return keys

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


def smallest_unsigned(size: int) -> np.dtype:
    """Return the smallest unsigned type that holds the codes 0 to size - 1."""
    return np.min_scalar_type(max(size - 1, 0))


def _group(sizes: Sequence[int]) -> list[list[int]]:
    """Group adjacent columns greedily as long as a word holds them; there is at least one group."""
    groups: list[list[int]] = [[]]
    capacity = 1
    for place, size in enumerate(sizes):
        if capacity * size > _WORD:
            groups.append([])
            capacity = 1
        groups[-1].append(place)
        capacity *= size
    return groups
