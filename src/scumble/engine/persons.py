"""Persons: how many rows of each person a pass has let through."""

from __future__ import annotations

from itertools import repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scumble import spelling


class Persons:
    """Lets through the first `most` rows of each identifier of the column `name`.

    Identifiers are kept as they are: sharing a hash would let one person push out the rows of
    another, and the bound on what one person changes would no longer hold.
    """

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self.most = most
        self._seen: dict[object, int] = {}

    def keep(self, people: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Which rows of the next batch pass, and which have no identifier (they do not)."""
        coded = _identifiers(people).dictionary_encode()
        nobody = coded.indices.is_null().to_numpy(zero_copy_only=False)
        codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy()
        everyone = coded.dictionary.to_numpy(zero_copy_only=False).tolist()
        # One more place, for nobody. Loops that stay inside map, update and zip are fast ones.
        before = np.fromiter(map(self._seen.get, [*everyone, None], repeat(0)), np.int64)
        keep = (before[codes] + _ranks(codes) < self.most) & ~nobody
        after = before + np.bincount(codes, minlength=len(before))
        # No more than `most` matters, and small integers are shared by all.
        self._seen.update(zip(everyone, np.minimum(after, self.most).tolist(), strict=False))
        return keep, nobody


def _identifiers(people: pa.Array) -> pa.Array:
    """Plain values; empty text and NaN become null, white space around text does not count."""
    people = spelling.plain(people)
    if isinstance(people, pa.DictionaryArray):
        people = spelling.plain(people.dictionary_decode())
    if spelling.is_text(people.type):
        text = pc.utf8_trim_whitespace(people)
        return pc.if_else(pc.equal(text, ""), None, text)
    if pa.types.is_floating(people.type):
        return pc.if_else(pc.is_nan(people), None, people)
    return people


def _ranks(codes: np.ndarray) -> np.ndarray:
    """How many earlier places hold the same code."""
    order = np.argsort(codes, kind="stable")
    inverse = codes[order]
    starts = np.flatnonzero(np.r_[True, inverse[1:] != inverse[:-1]]) if len(codes) else codes
    lengths = np.diff(np.r_[starts, len(codes)])
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return ranks
