"""Exact counts of the cells of products of attributes; only `private/meter` may use them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from scumble.model.errors import DomainError, SchemaError, SourceError
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.schema.amounts import Amounts
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.cell_keys import CellKeys
from scumble.model.schema.domains import BinnedNumber
from scumble.model.schema.lists import EncodedLists
from scumble.model.schema.schema import Schema
from scumble.private.tables.key_pairs import CellKeysCounter, KeyPairs
from scumble.private.tables.rows import Rows
from scumble.private.tables.source import PartOfSource

if TYPE_CHECKING:
    from scumble.private.tables.key_pairs import KeyCounter

Counts = npt.NDArray[np.int64]

LARGEST_SUM = 1 << 62


@dataclass(frozen=True)
class SumsBy:
    """The sums of amounts by the cells of some attributes, asked for in place of the counts by
    these `names`: of steps above the lower limit, or (`present`) of 1 for each row that has one.
    """

    names: tuple[str, ...]
    amounts: Amounts
    present: bool = False

    def added(self, *codes: npt.NDArray[Any]) -> Counts:
        """Return what rows add, given the codes of the columns of the amounts."""
        return self.amounts.present(*codes) if self.present else self.amounts.above(*codes)


CellSet = Sequence[str] | SumsBy


def cell_names(each: CellSet) -> tuple[str, ...]:
    """Return the attributes of cells."""
    return each.names if isinstance(each, SumsBy) else tuple(each)


def read_names(sets: Iterable[CellSet]) -> list[str]:
    """Return the columns that are read for counts and sums by cells."""
    found = [name for each in sets for name in cell_names(each)]
    summed = (each.amounts.columns for each in sets if isinstance(each, SumsBy))
    found += [name for columns in summed for name in columns]
    return list(dict.fromkeys(found))


class CellCounter(Protocol):
    """The interface of exact counts. `unit` limits the rows that one privacy unit contributes."""

    @property
    def schema(self) -> Schema: ...

    @property
    def selects(self) -> bool:
        """Whether the values of a row decide if it is counted at all."""
        ...

    @property
    def counted(self) -> int:
        """The number of rows that the last pass counted."""
        ...

    def counts(self, sets: Sequence[CellSet], unit: PrivacyUnit) -> list[Counts]:
        """Return the counts of all cells of each set of attributes, the last attribute fastest; or
        the sums of amounts.
        """
        ...

    def occupied(self, names: Sequence[str], unit: PrivacyUnit) -> Occupied:
        """Return the non-empty cells of a product of attributes."""
        ...

    def lists(self, name: str, unit: PrivacyUnit) -> Iterator[EncodedLists]:
        """Yield the sets or sequences of an attribute in batches, in the order of the rows."""
        ...

    def paired_lists(
        self, names: Sequence[str], unit: PrivacyUnit
    ) -> Iterator[Sequence[EncodedLists]]:
        """Yield several lists of each row that belong together value by value."""
        ...

    def keys(self, names: Sequence[str], unit: PrivacyUnit) -> KeyCounter:
        """Return the combinations of values of these columns, listed or not, by person."""
        ...


class RowCounter:
    """Counts the rows of a table, all sets of attributes in one pass."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.counted = 0

    @property
    def schema(self) -> Schema:
        return self.rows.schema

    @property
    def selects(self) -> bool:
        return self.rows.outside == "drop" or isinstance(self.rows.source, PartOfSource)

    def counts(self, sets: Sequence[CellSet], unit: PrivacyUnit) -> list[Counts]:
        summed = [each.amounts.columns for each in sets if isinstance(each, SumsBy)]
        amounts = {name for columns in summed for name in columns}
        rows = self._limited(unit).with_amounts(amounts)
        named = read_names(sets)
        names = named or [self.schema.published[0].name]  # some column is needed to count rows
        cells = [self.schema.cell_keys(cell_names(each)) for each in sets]
        found = [np.zeros(keys.size, np.int64) for keys in cells]
        self.counted = 0
        for columns, weights in _weighted(rows, names):
            rows_here = len(columns[0]) if weights is None else int(weights.sum())
            self.counted += rows_here
            by_name = dict(zip(names, columns, strict=True))
            in_cells = {name: cell_codes(self.schema[name], by_name[name]) for name in amounts}
            in_cells = {**by_name, **in_cells}
            packed: dict[tuple[str, ...], Counts] = {}
            for each, keys, counts in zip(sets, cells, found, strict=True):
                own, added = cell_names(each), weights
                if isinstance(each, SumsBy):
                    added = each.added(*(by_name[name] for name in each.amounts.columns))
                    added = added if weights is None else added * weights
                if not own:
                    counts += rows_here if added is None else added.sum()
                    continue
                if own not in packed:
                    packed[own] = keys.pack([in_cells[name] for name in own]).astype(np.int64)
                _add(counts, packed[own], added)
        return found

    def occupied(self, names: Sequence[str], unit: PrivacyUnit) -> Occupied:
        keys = self.schema.cell_keys(names)
        none = keys.pack([np.empty(0, self.schema[name].code_type) for name in names])
        rows = self._limited(unit)
        counted = _counted_by_source(rows, names)
        if counted is None:
            found = occupied(chain([none], map(keys.pack, rows.batches(names))))
        else:
            found = merged([_grouped(keys.pack(columns), times) for columns, times in counted])
        self.counted = int(found.counts.sum())
        return found

    def lists(self, name: str, unit: PrivacyUnit) -> Iterator[EncodedLists]:
        return self._limited(unit).lists(name)

    def paired_lists(
        self, names: Sequence[str], unit: PrivacyUnit
    ) -> Iterator[Sequence[EncodedLists]]:
        return self._limited(unit).paired_lists(names)

    def all_lists(
        self, names: Sequence[str], unit: PrivacyUnit
    ) -> Iterator[Sequence[EncodedLists]]:
        """Yield one list of each row, or several that belong together."""
        if len(names) > 1:
            return self.paired_lists(names, unit)
        return ([lists] for lists in self.lists(names[0], unit))

    def keys(self, names: Sequence[str], unit: PrivacyUnit) -> KeyCounter:
        return KeyPairs(self.rows, names, unit.column)

    def _limited(self, unit: PrivacyUnit) -> Rows:
        return self.rows.limited(unit.column, unit.rows) if unit.column else self.rows


class TensorCounter:
    """Counts from a given tensor, as in experiments on histograms."""

    selects = False

    def __init__(
        self,
        schema: Schema,
        names: Sequence[str],
        counts: Counts,
        amounts: Mapping[str, int] | None = None,
    ) -> None:
        """`amounts` has the code that all rows have in columns, for sums of these."""
        self.schema, self._amounts = schema, amounts or {}
        self._names = tuple(names)
        self._counts = counts.reshape([schema[name].size for name in names])
        self.counted = int(counts.sum())

    def counts(self, sets: Sequence[CellSet], unit: PrivacyUnit) -> list[Counts]:
        return [
            self._sums(each) if isinstance(each, SumsBy) else self._marginal(tuple(each))
            for each in sets
        ]

    def _sums(self, asked: SumsBy) -> Counts:
        """Return the sums of amounts by cells; nobody adds anything, whatever the amounts."""
        columns = asked.amounts.columns
        if self._amounts.keys() >= {*columns}:
            [added] = asked.added(*(np.array([self._amounts[name]]) for name in columns))
            return self._marginal(asked.names) * int(added)
        if not self.counted:
            return np.zeros(self.schema.size(asked.names), np.int64)
        if coarse := [n for n in columns if isinstance(self.schema[n].domain, BinnedNumber)]:
            raise SchemaError(f"A table of counts has the bins of '{coarse[0]}', and no amounts.")
        others = tuple(name for name in columns if name not in asked.names)
        names = (*asked.names, *others)
        shape = [self.schema[name].size for name in names]
        codes = dict(zip(names, np.indices(shape).reshape(len(names), -1), strict=True))
        sums: Counts = self._marginal(names) * asked.added(*(codes[name] for name in columns))
        found: Counts = sums.reshape(self.schema.size(asked.names), -1).sum(axis=1)
        return found

    def occupied(self, names: Sequence[str], unit: PrivacyUnit) -> Occupied:
        counts = self._marginal(tuple(names))
        keys = np.flatnonzero(counts)
        return Occupied(keys.astype(np.uint64), counts[keys])

    def lists(self, name: str, unit: PrivacyUnit) -> Iterator[EncodedLists]:
        raise SchemaError(f"A table of counts has no lists; '{name}' cannot be read from it.")

    def paired_lists(
        self, names: Sequence[str], unit: PrivacyUnit
    ) -> Iterator[Sequence[EncodedLists]]:
        return iter([[lists] for lists in self.lists(names[0], unit)])

    def keys(self, names: Sequence[str], unit: PrivacyUnit) -> KeyCounter:
        labels = [self.schema[name].labels() for name in names]
        return CellKeysCounter(labels, self._marginal(tuple(names)))

    def _marginal(self, names: tuple[str, ...]) -> Counts:
        others = tuple(axis for axis, name in enumerate(self._names) if name not in names)
        left = [name for name in self._names if name in names]
        marginal = self._counts.sum(axis=others).transpose([left.index(name) for name in names])
        return np.ascontiguousarray(marginal).reshape(-1)


class CountsAndSums:
    """The counts of another counter. Sums of `asked`, by the same cells or those of the attributes
    `sets`, are found in the same pass, and wait for `sums`.
    """

    def __init__(
        self,
        counter: CellCounter,
        asked: Sequence[Amounts],
        sets: Sequence[tuple[str, ...]] | None = None,
    ) -> None:
        self.counter = counter
        self._asked, self._sets = tuple(asked), sets
        self._waiting: dict[CellSet, Counts] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.counter, name)

    def counts(self, sets: Sequence[Sequence[str]], unit: PrivacyUnit) -> list[Counts]:
        own = [tuple(each) for each in sets]
        needed = self._needed(own if self._sets is None else self._sets)
        self._count([*own, *needed], unit)
        found = [self._waiting[each].copy() for each in own]
        for each in {*own}.difference(needed):  # no sum waits for these
            del self._waiting[each]
        return found

    def sums(self, asked: Sequence[CellSet], unit: PrivacyUnit) -> list[Counts]:
        """Return counts and sums by cells; those of all columns are found in one pass."""
        if not all(each in self._waiting for each in asked):
            self._count(self._needed([tuple(cell_names(each)) for each in asked]), unit)
        return [self._waiting[each] for each in asked]

    def _needed(self, sets: Sequence[tuple[str, ...]]) -> list[CellSet]:
        """Return what the sides of all columns are made of, by some cells."""
        found: list[CellSet] = list(sets)
        for amounts in self._asked:
            kinds = (False, True) if amounts.missing else (False,)
            found += [SumsBy(each, amounts, present) for present in kinds for each in sets]
        return found

    def _count(self, sets: Sequence[CellSet], unit: PrivacyUnit) -> None:
        new = [each for each in dict.fromkeys(sets) if each not in self._waiting]
        if not new:
            return
        found = self.counter.counts(new, unit)
        steps = max(amounts.reach for amounts in self._asked)
        if self.counter.counted * steps > LARGEST_SUM:
            raise SourceError(
                "The table has so many rows that sums of amounts may be too large for 64 bits. "
                "Choose a larger step, or nearer limits."
            )
        self._waiting.update(zip(new, found, strict=True))


Side = Literal["above", "below", "absent", "middle", "present"]


class SumCounter:
    """Sums of amounts in place of counts: of one side of the cells (see `PrivacyUnit.sided`), of
    the steps from the `middle` of the limits, or of 1 for each row that has an amount (`present`).
    """

    selects = True  # by their amount

    def __init__(self, both: CountsAndSums, amounts: Amounts, side: Side) -> None:
        self._both, self._amounts, self._side = both, amounts, side

    def __getattr__(self, name: str) -> Any:
        return getattr(self._both.counter, name)

    def counts(self, sets: Sequence[Sequence[str]], unit: PrivacyUnit) -> list[Counts]:
        return [self._of(tuple(each), unit) for each in sets]

    def _of(self, names: tuple[str, ...], unit: PrivacyUnit) -> Counts:
        amounts = self._amounts
        has_one: CellSet = SumsBy(names, amounts, True) if amounts.missing else names
        asked = [names, has_one, SumsBy(names, amounts)]
        every, present, above = self._both.sums(asked, unit)
        if self._side == "absent":
            return amounts.reach * (every - present)
        if self._side == "below":
            return amounts.reach * present - above
        if self._side == "middle":
            return above - amounts.centre * present
        return (above if self._side == "above" else present).copy()


class CountedLists(ABC):
    """Counts of the columns that are derived from one list of a table, such as `first(x)`."""

    schema: Schema
    counted: int

    @abstractmethod
    def lists(self, name: str, unit: PrivacyUnit) -> Iterator[EncodedLists]:
        """Yield the list that all columns are derived from."""

    def counts(self, sets: Sequence[CellSet], unit: PrivacyUnit) -> list[Counts]:
        cells = [self.schema.cell_keys(cell_names(each)) for each in sets]
        found = [np.zeros(keys.size, np.int64) for keys in cells]
        self.counted = 0
        for lists in self._all(unit):
            self.counted += len(lists)
            for each, keys, counts in zip(sets, cells, found, strict=True):
                if isinstance(each, SumsBy):
                    raise SchemaError("A table of lists has no amounts to add up.")
                if each:
                    _add(counts, keys.pack(self._derived(each, lists)).astype(np.int64))
                else:
                    counts += len(lists)
        return found

    def occupied(self, names: Sequence[str], unit: PrivacyUnit) -> Occupied:
        keys = self.schema.cell_keys(names)
        none = [np.empty(0, self.schema[name].code_type) for name in names]
        derived = (self._derived(names, lists) for lists in self._all(unit))
        found = occupied(map(keys.pack, chain([none], derived)))
        self.counted = int(found.counts.sum())
        return found

    def keys(self, names: Sequence[str], unit: PrivacyUnit) -> KeyCounter:
        raise SchemaError("A table of lists has no open categories.")

    def paired_lists(
        self, names: Sequence[str], unit: PrivacyUnit
    ) -> Iterator[Sequence[EncodedLists]]:
        raise SchemaError("A table of one list has no lists that belong together.")

    def _all(self, unit: PrivacyUnit) -> Iterator[EncodedLists]:
        return self.lists(self.schema.lists[0].name, unit)

    def _derived(self, names: Sequence[str], lists: EncodedLists) -> list[npt.NDArray[Any]]:
        found = []
        for name in names:
            derivation = self.schema.derivation(name)
            if derivation is None:
                raise SchemaError(f"A table of lists has no column '{name}'.")
            found.append(derivation.encode(lists))
        return found


class ListCounter(CountedLists):
    """The lists of a table that is given as the number of rows with each of some `lists`.

    Where several lists of the schema belong together, a code stands for one value of each: it is
    their place in the product of the domains of all members, the last one fastest.
    """

    selects = False

    def __init__(self, schema: Schema, lists: Sequence[Sequence[int]], counts: Counts) -> None:
        self.schema = schema
        self.counted = int(counts.sum())
        sizes = np.repeat([len(each) for each in lists], counts)
        codes = [
            np.tile(np.array(each, np.int64), n) for each, n in zip(lists, counts, strict=True)
        ]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._lists = EncodedLists(offsets, np.concatenate(codes), np.zeros(self.counted, np.bool_))

    def lists(self, name: str, unit: PrivacyUnit) -> Iterator[EncodedLists]:
        yield self._lists

    def paired_lists(
        self, names: Sequence[str], unit: PrivacyUnit
    ) -> Iterator[Sequence[EncodedLists]]:
        sizes = [self.schema[name].lists.members.size for name in names]
        columns = np.unravel_index(self._lists.codes, sizes)
        yield [replace(self._lists, codes=codes) for codes in columns]


def cell_codes(attribute: Attribute, steps: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the codes of a column that was read in steps (see `Rows.with_amounts`)."""
    domain = attribute.domain
    if not isinstance(domain, BinnedNumber):
        return steps
    bins = domain.bins_of(steps).astype(attribute.code_type)  # a missing value may need more bits
    bins[steps == domain.number.size] = domain.size
    return bins


def _weighted(
    rows: Rows, names: Sequence[str]
) -> Iterator[tuple[list[npt.NDArray[Any]], Counts | None]]:
    """Yield the codes of rows with the number of rows that each stands for: None for 1."""
    counted = _counted_by_source(rows, names)
    if counted is not None:
        yield from counted
        return
    for columns in rows.batches(names):
        yield columns, None


def _counted_by_source(
    rows: Rows, names: Sequence[str]
) -> list[tuple[list[npt.NDArray[Any]], Counts]] | None:
    """Return the codes of different rows with their numbers, if the source counts rows itself.

    None if there are very many of them, or if a value lies outside its domain: then the rows are
    read, and the message names the row.
    """
    found: list[tuple[list[npt.NDArray[Any]], Counts]] = []
    different = 0
    try:
        for columns, weights in rows.weighted(names) or ():
            found.append((columns, weights))
            different += len(weights)
            if different > _WAITING:
                return None
    except DomainError:
        return None
    return found or None


def _add(counts: Counts, cells: npt.NDArray[np.int64], weights: Counts | None = None) -> None:
    """Add the weights of rows, which are not negative, to their cells."""
    if weights is not None:
        most = float(weights.max(initial=0)) * len(weights)
        if most < _EXACT and 4 * len(cells) >= len(counts):
            counts += np.bincount(cells, weights, len(counts)).astype(np.int64)
        else:
            np.add.at(counts, cells, weights)
    elif 4 * len(cells) >= len(counts):
        counts += np.bincount(cells, minlength=len(counts))
    else:
        found, times = np.unique(cells, return_counts=True)
        counts[found] += times


# Non-empty cells of a product that is too large to enumerate.

Keys = npt.NDArray[np.uint64]

_EXACT = 2.0**53  # up to here sums of whole numbers are exact as floats
_WAITING = 1 << 22  # the least number of collected keys before they are merged


@dataclass(frozen=True)
class Occupied:
    """The sorted, distinct keys of the non-empty cells (see `CellKeys`) and their counts."""

    keys: Keys
    counts: Counts


def occupied(batches: Iterable[Keys]) -> Occupied:
    """Return the non-empty cells, given the keys of the rows in one or more batches.

    Memory is proportional to the number of non-empty cells plus a few million rows.
    """
    known: Occupied | None = None
    pieces: list[Occupied] = []
    waiting = 0
    for keys in batches:
        pieces.append(_grouped(keys, np.ones(len(keys), np.int64)))
        waiting += len(pieces[-1].keys)
        if waiting > _WAITING and (known is None or waiting > len(known.keys)):
            known, pieces, waiting = merged([*_given(known), *pieces]), [], 0
    return merged([*_given(known), *pieces])


_DENSE = 1 << 20  # up to this number of cells, all are counted in one array


def occupied_cells(radix: CellKeys, pieces: Iterable[Sequence[npt.NDArray[Any]]]) -> Occupied:
    """Return the non-empty cells of `radix`, given the columns of the rows in pieces."""
    packed = map(radix.pack, pieces)
    if radix.size > _DENSE:
        return occupied(packed)
    counts = np.zeros(radix.size, np.int64)
    for keys in packed:
        _add(counts, keys.astype(np.int64))
    cells = np.flatnonzero(counts)
    return Occupied(cells.astype(np.uint64), counts[cells])


def summed_cells(pieces: Iterable[tuple[Counts, Counts]], size: int) -> tuple[Counts, Counts]:
    """Return the keys, all below `size`, whose weights do not add up to 0, and the sums of their
    weights, given keys and their weights in pieces. Sums must be below 2^53.
    """
    if size <= _DENSE:
        sums = np.zeros(size)
        for keys, weights in pieces:
            sums += np.bincount(keys, weights, size)
        found = np.flatnonzero(sums)
        return found, sums[found].astype(np.int64)
    known = Occupied(np.empty(0, np.uint64), np.empty(0, np.int64))
    waiting: list[Occupied] = []
    for keys, weights in pieces:
        waiting.append(_grouped(keys.astype(np.uint64), weights))
        if sum(len(each.keys) for each in waiting) > max(_WAITING, len(known.keys)):
            known, waiting = merged([known, *waiting]), []
    known = merged([known, *waiting])
    return known.keys.astype(np.int64), known.counts


def merged(pieces: Sequence[Occupied]) -> Occupied:
    """Return the non-empty cells of one or more pieces of a table together."""
    if len(pieces) == 1:
        return pieces[0]
    keys = np.concatenate([piece.keys for piece in pieces])
    return _grouped(keys, np.concatenate([piece.counts for piece in pieces]))


def _given(known: Occupied | None) -> list[Occupied]:
    return [] if known is None else [known]


def _grouped(keys: Keys, counts: Counts) -> Occupied:
    order = np.argsort(keys) if keys.ndim == 1 else np.lexsort(keys.T[::-1])
    ordered = keys[order]
    differs = ordered[1:] != ordered[:-1]
    first = np.ones(len(keys), bool)
    first[1:] = differs if keys.ndim == 1 else differs.any(axis=1)
    starts = np.flatnonzero(first)
    sums = np.add.reduceat(counts[order], starts) if len(starts) else counts[:0]
    return Occupied(ordered[starts], sums)
