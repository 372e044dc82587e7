"""Columns that hold several values per row, sets and sequences, and the columns derived from them.

Mechanisms, databases and SQL see the columns that are derived from a list, which have one value per
row: `first(x)`, `last(x)`, `length(x)` and `contains(x, 'a')`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.errors import SchemaError
from scumble.model.schema import arrow_values
from scumble.model.schema.cell_keys import smallest_unsigned
from scumble.model.schema.domains import Bins, Boolean, Category, Domain, IntegerRange, lookup

ListKind = Literal["set", "sequence"]
Function = Literal["first", "last", "length", "contains"]

_LONGEST = 1_000_000


@dataclass(frozen=True)
class ListDomain:
    """Lists of values of one domain, the domain of their `members`.

    A set ignores order and repetition, a sequence has both. In a text column the values of a list
    stand between `separator`; white space separates by default. An empty or missing list has no
    values. `longest` is the largest length that `length(x)` tells; longer lists count as this long.

    >>> ListDomain("set", Category(("a", "b", "c"))).encode(pa.array(["b a b", ""])).offsets
    array([0, 2, 2])
    """

    kind: ListKind
    members: Category | IntegerRange | Bins
    separator: str = " "
    longest: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.separator, str) or not self.separator:
            raise SchemaError(
                f"The separator must be text of one or more characters. Got {self.separator!r}."
            )
        most = self.longest
        if most is not None and (type(most) is not int or not 1 <= most <= _LONGEST):
            raise SchemaError(
                f"'longest' must be a whole number from 1 to {_LONGEST}. Got {most!r} instead."
            )

    def describe(self) -> str:
        """Describe the domain in a few words."""
        longest = "" if self.longest is None else f", length up to {self.longest}"
        return f"{self.kind} of {self.members.describe()}{longest}"

    def encode(self, values: pa.Array) -> EncodedLists:
        """Return the codes of the values of each list, and which lists have values outside.

        `values` are lists, or texts that are split at the separator. Missing values inside a list
        are ignored. Values outside the domain of the members are left out of the list.
        """
        split = split_lists(values, self.separator)
        codes, outside = self._member_codes(split.values)
        counts, strays = split.lengths, split.garbled
        if outside.any():
            strays[split.owners[outside]] = True
            codes = codes[~outside]
            counts = np.bincount(split.owners[~outside], minlength=len(strays))
        codes = codes.astype(smallest_unsigned(self.members.size), copy=False)
        if self.kind == "set":
            owners = np.repeat(np.arange(len(counts)), counts)
            codes, owners = _distinct(codes, owners, self.members.size)
            counts = np.bincount(owners, minlength=len(strays))
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return EncodedLists(offsets, codes, strays, split.gaps)

    def _member_codes(self, values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return codes and a mask of the values outside; each distinct text is read once."""
        if not arrow_values.is_text(values.type):
            return self.members.encode(values)
        coded = values.dictionary_encode()
        codes, outside = self.members.encode(coded.dictionary)
        places = coded.indices.to_numpy()
        return lookup(codes, places), outside[places]


@dataclass(frozen=True)
class EncodedLists:
    """The codes of lists: list i has `codes[offsets[i] : offsets[i + 1]]`.

    `outside` marks the lists from which values outside the domain were left out, `gaps` those from
    which missing values were; None if there are none.
    """

    offsets: npt.NDArray[np.int64]
    codes: npt.NDArray[Any]
    outside: npt.NDArray[np.bool_]
    gaps: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """The number of values of each list."""
        return np.diff(self.offsets)

    @cached_property
    def owners(self) -> npt.NDArray[np.int64]:
        """The list that each code belongs to."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def __getitem__(self, chosen: npt.NDArray[Any]) -> EncodedLists:
        """Return the lists at these positions, or where this mask is set."""
        if chosen.dtype == bool and chosen.all():
            return self
        places = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        lengths = self.lengths[places]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        starts = np.repeat(self.offsets[:-1][places] - offsets[:-1], lengths)
        codes = self.codes[starts + np.arange(offsets[-1])]
        gaps = None if self.gaps is None else self.gaps[places]
        return EncodedLists(offsets, codes, self.outside[places], gaps)

    def part(self, begin: int, end: int) -> EncodedLists:
        """Return the lists from `begin` to before `end`, whose codes are not copied."""
        offsets = self.offsets[begin : end + 1]
        codes = self.codes[offsets[0] : offsets[-1]]
        gaps = None if self.gaps is None else self.gaps[begin:end]
        return EncodedLists(offsets - offsets[0], codes, self.outside[begin:end], gaps)

    def portions(self, together: int) -> Iterator[EncodedLists]:
        """Yield all lists in parts of about as many codes, and of at most as many lists."""
        begin = 0
        while begin < len(self):
            end = int(np.searchsorted(self.offsets, self.offsets[begin] + together))
            end = min(max(end, begin + 1), len(self), begin + together)
            yield self.part(begin, end)
            begin = end

    def emptied(self, chosen: npt.NDArray[np.bool_]) -> EncodedLists:
        """Return the lists without the values of those that this mask chooses."""
        kept = np.where(chosen, 0, self.lengths)
        offsets = np.concatenate([[0], np.cumsum(kept)])
        return EncodedLists(offsets, self.codes[~chosen[self.owners]], self.outside, self.gaps)

    def clipped(self, most: int) -> EncodedLists:
        """Return the first `most` values of each list."""
        if self.lengths.max(initial=0) <= most:
            return self
        position = np.arange(len(self.codes)) - self.offsets[:-1][self.owners]
        lengths = np.minimum(self.lengths, most)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return EncodedLists(offsets, self.codes[position < most], self.outside, self.gaps)


@dataclass(frozen=True)
class SplitLists:
    """The values of lists, one after the other, and the number of values of each list.

    `garbled` marks the lists that have a value which cannot be read, such as a struct or text that
    is not UTF-8; it is left out. `gaps` marks those that have missing values beside others; None
    if there are none.
    """

    values: pa.Array
    lengths: npt.NDArray[np.int64]
    garbled: npt.NDArray[np.bool_]
    gaps: npt.NDArray[np.bool_] | None = None

    @cached_property
    def owners(self) -> npt.NDArray[np.int64]:
        """The list that each value belongs to."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


def split_lists(values: pa.Array | pa.ChunkedArray, separator: str) -> SplitLists:
    """Return the values of lists, or of texts that are split at the separator.

    Missing and empty values are left out. A value that is not a list or a text is a list of one.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    values = arrow_values.unwrap(values)
    if isinstance(values, pa.DictionaryArray):
        values = arrow_values.unwrap(values.dictionary_decode())
    garbled = np.zeros(len(values), bool)
    if not is_list(values.type):
        values, wrong = arrow_values.decode_text(values)
        if wrong is not None:
            garbled |= wrong
        values, unread = _split_texts(values, separator)
        garbled |= unread
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy().astype(np.int64)
    flat = pc.list_flatten(values)
    if isinstance(flat, pa.DictionaryArray):
        flat = flat.dictionary_decode()
    flat, wrong = arrow_values.decode_text(flat)
    if wrong is not None:
        garbled[np.repeat(np.arange(len(lengths)), lengths)[wrong]] = True
    kept = pc.is_valid(flat)
    if arrow_values.is_text(flat.type):
        flat = pc.utf8_trim_whitespace(flat)
        kept = pc.and_(kept, pc.not_equal(flat, ""))
    mask = pc.fill_null(kept, False).to_numpy(zero_copy_only=False)
    if mask.all():
        return SplitLists(flat, lengths, garbled)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    left = np.bincount(owners[mask], minlength=len(lengths))
    gaps = (left > 0) & (left < lengths)  # an empty text is an empty list
    return SplitLists(pc.filter(flat, pa.array(mask)), left, garbled, gaps)


LIST_MARK, _MEMBER = "\x01", "\x02"  # no domain has control characters


def list_text(members: Sequence[bytes]) -> bytes:
    """Return a list as one text, for tables that hold Python objects; `split_lists` reads it.

    So every object of a column is converted by itself, whatever the others are.
    """
    return (LIST_MARK.encode() + _MEMBER.encode().join(members)) if members else b""


def _split_texts(values: pa.Array, separator: str) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Split texts at the separator, and those of `list_text` into their members.

    Returns a mask of the values that are no texts, too.
    """
    text, failed = arrow_values.texts(values)
    unread = np.zeros(len(values), bool)
    if failed is not None:
        text = pc.if_else(pa.array(failed), None, text)
        unread = failed & pc.is_valid(values).to_numpy(zero_copy_only=False)
    by_space = separator.isspace()
    plain = pc.utf8_split_whitespace(text) if by_space else pc.split_pattern(text, separator)
    marked = pc.fill_null(pc.starts_with(text, LIST_MARK), False).to_numpy(zero_copy_only=False)
    if not marked.any():
        return plain, unread
    # The other texts are split in the same way, whether or not there are such lists among them.
    members = pc.split_pattern(pc.utf8_slice_codeunits(text, 1), _MEMBER)
    places = np.arange(len(text)) + len(text) * marked
    return pc.take(pa.concat_arrays([plain, members]), pa.array(places)), unread


def is_list(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a list."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _distinct(
    codes: npt.NDArray[Any], owner: npt.NDArray[np.int64], size: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the distinct codes of each list in ascending order, and their lists."""
    if size * (int(owner[-1]) + 1 if len(owner) else 1) >= 1 << 63:
        order = np.lexsort((codes, owner))
        codes, owner = codes[order], owner[order]
        first = np.ones(len(codes), bool)
        first[1:] = (codes[1:] != codes[:-1]) | (owner[1:] != owner[:-1])
        return codes[first], owner[first]
    keys = owner * np.int64(size) + codes.astype(np.int64)
    if len(keys) > 1 and not np.all(keys[1:] > keys[:-1]):
        keys.sort()  # np.unique hashes whole numbers, which takes fifty times as long here
        keys = keys[np.append(True, keys[1:] != keys[:-1])]
    return (keys % size).astype(codes.dtype), keys // size


# Columns with one value per row that are computed from a list.

_FORM = re.compile(
    r"\s*(first|last|length|contains)\s*\((.+?)(?:,\s*('(?:[^']|'')*'|[+-]?\d{1,40})\s*)?\)\s*",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class DerivedName:
    """The parts of a name like `contains(items, 'milk')`; `argument` is None for the others."""

    function: Function
    base: str
    argument: str | int | None = None

    @classmethod
    def read(cls, name: str) -> DerivedName | None:
        """Return the parts of the name of a derived column, or None for any other name.

        >>> DerivedName.read("Contains(items, 'milk')")
        DerivedName(function='contains', base='items', argument='milk')
        """
        found = _FORM.fullmatch(name)
        if found is None:
            return None
        function = cast(Function, found[1].lower())
        base, argument = found[2].strip(), found[3]
        if len(base) > 1 and base[0] == base[-1] == '"':
            base = base[1:-1].replace('""', '"')
        if not base or (argument is None) == (function == "contains"):
            return None
        if argument is not None and argument.startswith("'"):
            return cls(function, base, argument[1:-1].replace("''", "'"))
        return cls(function, base, None if argument is None else int(argument))

    def __str__(self) -> str:
        """The name of the column, which `read` takes apart again."""
        plain = re.fullmatch(r"\w+", self.base)
        base = self.base if plain else '"' + self.base.replace('"', '""') + '"'
        if self.argument is None:
            return f"{self.function}({base})"
        value = self.argument
        text = str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
        return f"{self.function}({base}, {text})"

    @property
    def key(self) -> tuple[str, str, str]:
        """What two spellings of the same column have in common; case of names is ignored."""
        return self.function, self.base.lower(), repr(self.argument)


@dataclass(frozen=True)
class Derivation:
    """How a derived column is computed from a list column: its public domain, and its codes.

    The first or last value of an empty list is missing.
    """

    function: Function
    lists: ListDomain
    code: int = -1  # for `contains`: the code of the value

    @classmethod
    def of(cls, name: DerivedName, lists: ListDomain) -> Derivation:
        """Return the derivation of the column `name`; SchemaError if the list has no such one."""
        where = f"{name.function}({name.base})"
        if name.function in ("first", "last") and lists.kind == "set":
            raise SchemaError(f"{where}: '{name.base}' is a set, which has no order.")
        if name.function == "length" and lists.longest is None:
            raise SchemaError(
                f"{where}: the largest length must be public; write longest = NUMBER in the "
                f"schema of '{name.base}'."
            )
        if name.function != "contains":
            return cls(name.function, lists)
        codes, outside = lists.members.encode(pa.array([str(name.argument)]))
        if outside[0]:
            raise SchemaError(
                f"contains({name.base}, {name.argument!r}): there is no such value "
                f"({lists.members.describe()})."
            )
        return cls(name.function, lists, int(codes[0]))

    @property
    def domain(self) -> Domain:
        """The public domain of the column."""
        if self.function == "contains":
            return Boolean()
        if self.function == "length":
            return IntegerRange(0, self.lists.longest or 0)
        return self.lists.members

    @property
    def missing(self) -> bool:
        """Whether the value may be missing: an empty sequence has no first value."""
        return self.function in ("first", "last")

    def encode(self, lists: EncodedLists) -> npt.NDArray[Any]:
        """Return the code of the column for each list."""
        if self.function == "contains":
            found = np.zeros(len(lists), np.uint8)
            found[lists.owners[lists.codes == self.code]] = 1
            return found
        size = self.domain.size + self.missing
        if self.function == "length":
            return np.minimum(lists.lengths, size - 1).astype(smallest_unsigned(size))
        codes = np.full(len(lists), size - 1, smallest_unsigned(size))
        filled = lists.lengths > 0
        ends = lists.offsets[:-1] if self.function == "first" else lists.offsets[1:] - 1
        codes[filled] = lists.codes[ends[filled]]
        return codes
