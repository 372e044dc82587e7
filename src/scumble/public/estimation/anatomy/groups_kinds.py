"""Kinds: the different combinations of some attributes among lines, numbered from 0 on, so that an
expression over them is evaluated once for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model.schema.domains import lookup
from scumble.model.schema.schema import Schema

Codes = npt.NDArray[Any]

# Up to so many possible numbers, those that occur are marked in an array; beyond, hashed.
_MARKED = 1 << 22


@dataclass(frozen=True, eq=False)
class Kinds:
    """The codes of every kind, and the kind of every line."""

    codes: Mapping[str, Codes]
    size: int
    of: Codes

    @classmethod
    def among(cls, columns: Mapping[str, Codes], lines: int) -> Kinds:
        """The combinations of these columns that occur; without columns all lines are alike."""
        codes: dict[str, Codes] = {}
        size, of = 1, cast(Codes, np.zeros(lines, np.int8))
        for name, column in columns.items():
            values, places = _distinct(column)
            both, of = _distinct(of * np.int64(len(values)) + places if codes else places)
            before, here = np.divmod(both, max(len(values), 1))
            codes = {known: code[before] for known, code in codes.items()}
            codes[name] = values[here]
            size = len(both)
        return cls(codes, size, of)

    def on(self, names: Iterable[str]) -> Kinds:
        """The kinds of these kinds that some of the attributes tell apart."""
        return Kinds.among({name: self.codes[name] for name in names}, self.size)

    def values(self, schema: Schema, at: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
        """The attributes of some kinds."""
        return {name: schema[name].decode(code[at]) for name, code in self.codes.items()}


def _distinct(numbers: Codes) -> tuple[Codes, Codes]:
    """The different numbers, and of each number the place among them."""
    if int(numbers.max(initial=0)) < _MARKED:
        there = np.zeros(int(numbers.max(initial=0)) + 1, bool)
        there[numbers] = True
        places = (np.cumsum(there) - 1).astype(np.int32)
        return np.flatnonzero(there).astype(numbers.dtype), lookup(places, numbers)
    encoded = pa.array(numbers).dictionary_encode()
    return encoded.dictionary.to_numpy(), encoded.indices.to_numpy()
