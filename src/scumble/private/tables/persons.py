"""Persons: how many rows of each person a pass has let through."""

from __future__ import annotations

from itertools import repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.errors import SourceError
from scumble.model.schema import arrow_values


class Persons:
    """Lets through the first `most` rows of each identifier of the column `name`.

    Identifiers are kept as they are spelled: sharing a hash would let one person push out the rows
    of another, and the bound on what one person changes would no longer hold.
    """

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self.most = most
        self._seen: dict[object, int] = {}

    def keep(self, people: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Which rows of the next batch pass, and which have no identifier (they do not)."""
        codes, names = self._coded(people)
        nobody = codes == len(names)
        # One more place, for nobody. Loops that stay inside map, update and zip are fast ones.
        before = np.fromiter(map(self._seen.get, [*names, None], repeat(0)), np.int64)
        keep = (before[codes] + _ranks(codes) < self.most) & ~nobody
        # No more than `most` matters, and small integers are shared by all.
        after = np.minimum(before + np.bincount(codes, minlength=len(before)), self.most)
        more = np.flatnonzero(after[:-1] > before[:-1]).tolist()
        self._seen.update(zip(map(names.__getitem__, more), after[more].tolist(), strict=True))
        return keep, nobody

    def _coded(self, people: pa.Array) -> tuple[np.ndarray, list[bytes]]:
        """The places of identifiers in a list of those that differ; its length for nobody."""
        people = arrow_values.bare(people)
        if not _is_simple(people.type):
            raise SourceError(
                f"Column '{self.name}' cannot tell persons apart: it holds lists, structs or other "
                "compounds. An identifier is text, a number, a date or bytes."
            )
        if not isinstance(people, pa.DictionaryArray):
            people = people.dictionary_encode()
        spelled = identifiers(people.dictionary).dictionary_encode()
        # Two entries of the dictionary may be spellings of one person.
        places = pc.take(spelled.indices, people.indices)
        names = spelled.dictionary.to_numpy(zero_copy_only=False).tolist()
        return places.fill_null(len(names)).to_numpy(), names


def identifiers(values: pa.Array) -> pa.Array:
    """Each identifier as bytes in one spelling, whatever it came in; null where there is none.

    Numbers are spelled as they usually are in text, so 1, 1.0 and the text "1" are one person (the
    text "01" is another). Empty text and NaN are nobody, and white space around text does not
    count. Bytes that are not UTF-8 stay as they are.
    """
    text, garbled = arrow_values.plain(values)
    if pa.types.is_floating(text.type):
        text = pc.if_else(pc.is_nan(text.cast(pa.float64())), None, text)
    if pa.types.is_timestamp(text.type):
        text = text.cast(pa.timestamp(text.type.unit))  # the same moment, by the clock of UTC
    if pa.types.is_temporal(text.type):
        text = text.cast(pa.string())
    text = pc.utf8_trim_whitespace(arrow_values.texts(text)[0])
    spelled = pc.if_else(pc.equal(text, ""), None, text).cast(pa.large_binary())
    if garbled is None:
        return spelled
    raw = arrow_values.bare(values).cast(pa.large_binary())
    strange = pc.and_(pa.array(garbled), pc.not_equal(raw, arrow_values.UNREADABLE))
    return pc.if_else(strange, raw, spelled)


def _is_simple(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_simple(kind.value_type)
    return not (pa.types.is_nested(kind) or pa.types.is_interval(kind))


def _ranks(codes: np.ndarray) -> np.ndarray:
    """How many earlier places hold the same code."""
    order = np.argsort(codes, kind="stable")
    inverse = codes[order]
    starts = np.flatnonzero(np.r_[True, inverse[1:] != inverse[:-1]]) if len(codes) else codes
    lengths = np.diff(np.r_[starts, len(codes)])
    ranks = np.empty(len(codes), np.int64)
    ranks[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return ranks
