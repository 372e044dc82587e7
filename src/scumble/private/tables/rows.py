"""Rows: a private table encoded by its schema, and the limit on the rows of one person."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pyarrow as pa

from scumble.model.errors import DomainError, ParameterError, SchemaError, SourceError, setting
from scumble.model.schema.attribute import Attribute, WordCodes
from scumble.model.schema.lists import EncodedLists, ListDomain
from scumble.model.schema.schema import Schema
from scumble.private.tables.open import open_source
from scumble.private.tables.persons.limit import RowLimit, identifiers
from scumble.private.tables.source import Source, read_safely

if TYPE_CHECKING:
    from scumble.model.schema.impossible import ImpossibleCondition
    from scumble.private.engines.workers import Executor

Outside = Literal["error", "drop", "missing"]
PIECE = 1 << 18  # rows of a piece of a unit; a change would change what a fixed seed publishes
_LIST_BYTES, _LIST_ROWS = 1 << 22, 1 << 12  # of lists that are encoded together, about and at least


def check_outside(outside: str) -> None:
    """Reject a value of `outside` that is none of the choices."""
    if outside not in get_args(Outside):
        raise ParameterError.of("publish", "outside", "'error', 'drop' or 'missing'", outside)


class Rows:
    """The rows of a source as codes of a schema, streamed in batches in constant memory.

    `outside` decides what happens to a value outside its domain: "error" raises `DomainError`,
    "drop" drops its row, "missing" sets the value missing. A row that satisfies an impossible
    condition of the schema is treated in the same way, whichever columns are read: all columns of
    the conditions are. The codes of a row do not depend on other rows, except for the limit on the
    rows of its own person. A pass reads only the columns that it needs. After a pass,
    `outside_columns` names the columns in which values were dropped or set missing, and the
    conditions that rows satisfied. Their number is private: it is counted in `outside_counts` only
    with `reveal`.
    `progress` is called with the number of rows read.
    """

    def __init__(
        self,
        source: object,
        schema: Schema,
        *,
        outside: Outside = "error",
        reveal: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        check_outside(outside)
        self.source: Source = open_source(source)
        self.schema = schema
        self.outside: Outside = outside
        self.reveal = reveal
        self.progress = progress
        self.outside_columns: set[str] = set()
        self.outside_counts: dict[str, int] = {}
        self.workers: Executor | None = None  # processes that read units of the rows
        self._person: tuple[str, int] | None = None
        self._row_limit: Callable[[str, int], RowLimit] = RowLimit
        self._unique = False  # whether a second row of one person is an error
        self._remarks: list[str] = []
        self._require(list(dict.fromkeys(self._column(each.name) for each in schema.published)))

    def _column(self, name: str) -> str:
        """Return the column of the source that an attribute is read from."""
        base = self.schema.derived_from(name)
        return name if base is None else base.name

    def source_columns(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the source that are read for these attributes."""
        compared = [each.name for each in self._compared([self.schema[name] for name in names])]
        return list(dict.fromkeys(map(self._column, [*names, *compared])))

    def _compared(self, attributes: Sequence[Attribute]) -> list[Attribute]:
        """Return the attributes of impossible conditions that are not among these."""
        found = {one.name: one for e in self.schema.impossible_conditions for one in e.attributes}
        for attribute in attributes:
            found.pop(attribute.name, None)
        return list(found.values())

    def limited(
        self, person: str, most: int, row_limit: Callable[[str, int], RowLimit] = RowLimit
    ) -> Rows:
        """Return these rows with only the first `most` of each person, in the order of the source.

        `person` is an identifier column. A row without an identifier is treated as outside the
        domain. A pass holds the identifiers of all persons in memory (about 150 bytes each, and 40
        if they are whole numbers), unless `row_limit` finds the rows in another way. 1, 1.0 and the
        text "1" are the same person.
        """
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ParameterError.of("Rows.limited", "most", "a whole number above 0", most)
        if self.schema[person].role != "identifier":
            raise SchemaError(f"Attribute '{person}' must be an identifier to tell persons apart.")
        self._require([person])
        rows = Rows(
            self.source.ordered(),
            self.schema,
            outside=self.outside,
            reveal=self.reveal,
            progress=self.progress,
        )
        rows._person, rows._row_limit = (person, most), row_limit
        rows.outside_columns, rows.outside_counts = self.outside_columns, self.outside_counts
        rows._remarks = self._remarks
        return rows

    def with_amounts(self, names: Iterable[str]) -> Rows:
        """Return these rows with the codes of the amounts of these columns, where their own codes
        are those of bins.
        """
        schema = self.schema
        for name in names:
            schema = schema.replace(schema[name].without_bins())
        if schema == self.schema:
            return self
        rows = copy(self)
        rows.schema = schema
        return rows

    def remark(self, sentence: str) -> None:
        """Add a remark for the owner; remarks are not published."""
        self._remarks.append(sentence)

    def remarks(self) -> tuple[str, ...]:
        """Return remarks for the owner: what the last pass did with values outside their domain,
        followed by those added with `remark`.
        """
        sentence = {
            "drop": "Rows with a value of '{}' outside its domain were left out{}.",
            "missing": "Values of '{}' outside its domain were set missing{}.",
        }.get(self.outside, "")
        no_identifier = "Rows without an identifier in '{}' were left out{}."
        times = {name: f" ({count} times)" for name, count in self.outside_counts.items()}
        impossible = "Rows with the impossible combination {} were {}{}."
        done = "left out" if self.outside == "drop" else "changed: a value of them was set missing"
        outside = (
            impossible.format(name, done, times.get(name, ""))
            if name in self.schema.impossible
            else (sentence if self.schema[name].domain else no_identifier).format(
                name, times.get(name, "")
            )
            for name in sorted(self.outside_columns)
        )
        return (*outside, *self._remarks)

    def batches(self, names: Sequence[str]) -> Iterator[list[np.ndarray]]:
        """Yield the codes of these attributes, one array for each; each call is a new pass."""
        return (codes for _, _, codes in self._stream(self._coded(names)))

    def units(self, names: Sequence[str]) -> Iterator[tuple[int, list[np.ndarray]]]:
        """Yield the codes of these attributes with the number of their unit of work.

        See `unit_pieces` about the sizes of the arrays.
        """
        found = unit_pieces(self._stream(self._coded(names)))
        return ((unit, codes) for unit, _, codes in found)

    def weighted(
        self, names: Sequence[str]
    ) -> Iterator[tuple[list[np.ndarray], np.ndarray]] | None:
        """Return the codes of different rows with the number of rows that each stands for, if the
        source counts rows itself.

        None for rows of limited persons, and where a message is to name a row or to count values. A
        value outside its domain that is not allowed raises `DomainError` without the row.
        """
        if self._person is not None or self.reveal:
            return None
        found = self.source.distinct(self.source_columns(names))
        return None if found is None else self._weighted(self._coded(names), found)

    def _weighted(
        self, attributes: Sequence[Attribute], found: Iterator[tuple[pa.RecordBatch, np.ndarray]]
    ) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
        counted = 0
        every = [*attributes, *self._compared(attributes)]
        words = [WordCodes(attribute) for attribute in every]
        for batch, weights in found:
            coded = self._encode_all(every, batch, words)
            strays = self._strays(attributes, coded)
            if any(not self._allowed(name) for name in strays):
                raise DomainError("A value lies outside its domain.", column=min(strays), row=0)
            places = np.arange(len(weights))
            impossible = self._impossible_rows(every, coded)
            self._refuse_combinations(impossible, places)
            codes = [codes for codes, _ in coded][: len(attributes)]
            codes, places = self._handle_outside(attributes, codes, strays, impossible, places)
            yield codes, weights[places]
            counted += int(weights.sum())
            if self.progress is not None:
                self.progress(counted)

    @staticmethod
    def _strays(
        attributes: Sequence[Attribute], coded: Sequence[tuple[Any, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        """Return masks of the values outside their domain, by column; only where there are some.
        There may be more columns than attributes.
        """
        pairs = zip(attributes, coded, strict=False)
        return {attribute.name: mask for attribute, (_, mask) in pairs if mask.any()}

    def _impossible_rows(
        self, attributes: Sequence[Attribute], coded: Sequence[tuple[Any, np.ndarray]]
    ) -> dict[ImpossibleCondition, np.ndarray]:
        """Return masks of the rows that satisfy impossible conditions; only where there are some.

        A value outside its domain satisfies no comparison, unless it is set missing.
        """
        if not self.schema.impossible:
            return {}
        known = {each.name: pair for each, pair in zip(attributes, coded, strict=True)}
        found = {}
        for condition in self.schema.impossible_conditions:
            codes, strange = {}, np.zeros(len(coded[0][1]), bool)
            for attribute in condition.attributes:
                own, mask = known[attribute.name]
                if mask.any() and self.outside == "missing" and attribute.missing:
                    own = np.where(mask, attribute.code_type.type(attribute.size - 1), own)
                else:
                    strange |= mask
                codes[attribute.name] = own
            held = condition.holds(codes) & ~strange
            if held.any():
                found[condition] = held
        return found

    def keyless(self, batch: pa.RecordBatch, names: Sequence[str], start: int) -> np.ndarray:
        """Return which rows of a batch have an impossible combination and so no values of `names`:
        they are left out, or a value is set missing.
        """
        compared = self._compared([])
        if not compared:
            return np.zeros(batch.num_rows, bool)
        coded = self._encode_all(compared, batch, [WordCodes(each) for each in compared])
        impossible = self._impossible_rows(compared, coded)
        self._refuse_combinations(impossible, start + np.arange(batch.num_rows))
        found = np.zeros(batch.num_rows, bool)
        for condition, mask in impossible.items():
            self._note(condition.text, mask)
            if self.outside == "drop" or self._blanked(condition) in names:
                found |= mask
        return found

    def _refuse_combinations(
        self, impossible: Mapping[ImpossibleCondition, np.ndarray], places: np.ndarray
    ) -> None:
        """Raise an error if a row satisfies a condition and may not; `places` are those of rows."""
        for condition, mask in impossible.items():
            if self.outside != "drop" and self._blanked(condition) is None:
                row = int(places[np.argmax(mask)]) + 1
                raise self._combination_error(condition, row)

    def _blanked(self, condition: ImpossibleCondition) -> str | None:
        """Return the column that is set missing in a row that satisfies a condition: the first with
        which no condition about it can hold. None if there is none, or none is to be.
        """
        if self.outside != "missing":
            return None
        for one in condition.attributes:
            about = [e for e in self.schema.impossible_conditions if one.name in e.names]
            if one.missing and not any(each.can_hold(**{one.name: one.size - 1}) for each in about):
                return one.name
        return None

    def lists(self, name: str) -> Iterator[EncodedLists]:
        """Yield the sets or sequences of the attribute `name`; each call is a new pass.

        A value outside the domain of a list is treated as `outside` says: "drop" leaves out the row
        with the list, "missing" leaves the value out of the list.
        """
        self.begin_lists([name])
        return (lists for _, _, [lists] in self._stream([self.schema[name]]))

    def paired_lists(self, names: Sequence[str]) -> Iterator[list[EncodedLists]]:
        """Yield several lists of each row, such as the x and the y of points, which belong together
        value by value; each call is a new pass.

        A row whose lists differ in length, or have missing values, is treated as one with values
        outside their domain. With "missing" all lists of such a row are read as empty ones, since
        it is not known which values belong together.
        """
        self.begin_lists(names)
        for _, _, lists in self._stream([self.schema[name] for name in names]):
            yield self._paired(names, lists)

    def begin_lists(self, names: Sequence[str]) -> None:
        """Check these lists and reset the counters of values outside of their domains."""
        for name in names:
            _ = self.schema[name].lists  # raises SchemaError for any other column
        self._require(list(names))
        self.outside_columns.clear()
        self.outside_counts.clear()

    def _paired(self, names: Sequence[str], lists: list[EncodedLists]) -> list[EncodedLists]:
        gaps = [each.gaps for each in lists if each.gaps is not None]
        differ = [each.lengths != lists[0].lengths for each in lists]
        wrong = np.logical_or.reduce([*differ, *gaps])
        if wrong.any():
            if self.outside == "error":
                raise DomainError(
                    f"A row has not as many values of each of {', '.join(names)}, which belong "
                    f"together. Choose {setting('outside', 'drop')} to leave such rows out.",
                    column=names[0],
                    row=0,
                )
            self._note(names[0], wrong)
        if self.outside == "drop":
            return [each[~wrong] for each in lists] if wrong.any() else lists
        wrong = np.logical_or.reduce([wrong, *(each.outside for each in lists)])
        return [each.emptied(wrong) for each in lists] if wrong.any() else lists

    def identified(
        self, person: str, names: Sequence[str]
    ) -> Iterator[tuple[pa.Array, list[np.ndarray]]]:
        """Yield the identifiers of the rows, as bytes in canonical form, and their codes.

        No two rows may have the same identifier. A row without one is treated as outside the
        domain.
        """
        return ((people, codes) for _, people, codes in self.identified_units(person, names))

    def identified_units(
        self, person: str, names: Sequence[str]
    ) -> Iterator[tuple[int, pa.Array, list[np.ndarray]]]:
        """Yield the same with the number of the unit of work, in the pieces of `unit_pieces`."""
        rows = self.limited(person, 1)
        rows._unique = True
        return unit_pieces(rows._stream(rows._coded(names)))

    def _coded(self, names: Sequence[str]) -> list[Attribute]:
        """Return these attributes and reset the counters for a new pass."""
        self.begin_pass(names)
        return [self.schema[name] for name in names]

    def begin_pass(self, names: Sequence[str]) -> None:
        """Check these attributes and reset the counters of values outside of their domains."""
        for name in names:
            self._check(self.schema[name])
        self.outside_columns.clear()
        self.outside_counts.clear()

    def note_outside(self, columns: Iterable[str], counts: Mapping[str, int]) -> None:
        """Add what another process found outside of the domains in a part of the rows."""
        self.outside_columns.update(columns)
        for name, count in counts.items():
            self.outside_counts[name] = self.outside_counts.get(name, 0) + count

    def _check(self, attribute: Attribute) -> None:
        if attribute.domain is None:
            raise SchemaError(
                f"{attribute} is an identifier: it has no codes and is never published."
            )
        _ = attribute.size  # raises SchemaError, with advice, for lists

    def _allowed(self, name: str) -> bool:
        """Return whether a value of this column may lie outside its domain."""
        if self.outside == "missing":
            return self.schema[name].missing or self._listed(name)
        return self.outside == "drop"

    def _listed(self, name: str) -> bool:
        """Return whether an attribute is a list or derived from one."""
        return isinstance(self.schema[self._column(name)].domain, ListDomain)

    def _stream(self, attributes: Sequence[Attribute]) -> Iterator[tuple[int, pa.Array, list[Any]]]:
        """Yield units of work, identifiers of the rows (nulls unless `identified`) and codes; of
        lists the `EncodedLists`.
        """
        columns = [self._column(attribute.name) for attribute in attributes]
        persons = None
        if self._person is not None:
            name, most = self._person
            persons = self._row_limit(name, most)
            persons.expected = self.source.rows or 0
            columns.append(name)
        start = self.source.first
        every = [*attributes, *self._compared(attributes)]
        columns += [self._column(attribute.name) for attribute in every[len(attributes) :]]
        words = [WordCodes(attribute) for attribute in every]
        for unit, batch in self._unit_batches(list(dict.fromkeys(columns))):
            coded = self._encode_all(every, batch, words)
            kept = None
            if persons is not None:
                kept = self._limit(batch, persons, start)
                coded = [(codes[kept], mask[kept]) for codes, mask in coded]
            strays = self._strays(attributes, coded)
            wrong = {name: mask for name, mask in strays.items() if not self._allowed(name)}
            if wrong:
                raise self._domain_error(batch, wrong, start, kept)
            places = np.arange(batch.num_rows) if kept is None else kept
            impossible = self._impossible_rows(every, coded)
            self._refuse_combinations(impossible, start + places)
            codes = [codes for codes, _ in coded][: len(attributes)]
            codes, places = self._handle_outside(attributes, codes, strays, impossible, places)
            yield unit, self._identifiers(batch, places), codes
            start += batch.num_rows
            if self.progress is not None:
                self.progress(start)

    def _unit_batches(self, columns: list[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batches of the source; those with lists in slices, since encoding takes several
        times the memory of their values.
        """
        listed = any(self._listed(name) for name in columns)
        for unit, batch in self.source.unit_batches(columns):
            step = batch.num_rows
            if listed and batch.nbytes > _LIST_BYTES:
                step = max(_LIST_ROWS, step * _LIST_BYTES // batch.nbytes)
            for start in range(0, batch.num_rows, max(step, 1)):
                yield unit, batch.slice(start, step)

    def _encode_all(
        self, attributes: Sequence[Attribute], batch: pa.RecordBatch, words: Sequence[WordCodes]
    ) -> list[tuple[Any, np.ndarray]]:
        """Return the codes and the mask of values outside, for each attribute.

        A list is encoded once for all columns that are derived from it.
        """
        found: dict[str, EncodedLists] = {}
        coded: list[tuple[Any, np.ndarray]] = []
        for attribute, codes in zip(attributes, words, strict=True):
            name = self._column(attribute.name)
            column = batch.column(name)
            if not self._listed(name):
                read = partial(attribute.encode, column, codes)
                coded.append(read_safely(f"Column '{name}'", read))
                continue
            if name not in found:
                domain = self.schema[name].lists
                found[name] = read_safely(f"Column '{name}'", partial(domain.encode, column))
            derivation = self.schema.derivation(attribute.name)
            lists = found[name]
            coded.append((derivation.encode(lists) if derivation else lists, lists.outside))
        return coded

    def _require(self, names: Sequence[str]) -> None:
        self.source.require(names, reveal=self.reveal)

    def _limit(self, batch: pa.RecordBatch, persons: RowLimit, start: int) -> np.ndarray:
        """Return the positions of the rows that the limit on each person keeps."""
        keep, unidentified = persons.keep(batch.column(persons.name))
        if self._unique and not (keep | unidentified).all():
            raise SourceError(
                f"Column '{persons.name}' has the same identifier in several rows; a release that "
                "can be updated needs one row for each."
            )
        if unidentified.any():
            if self.outside == "error":
                row = start + int(np.argmax(unidentified)) + 1
                raise DomainError(
                    f"Column '{persons.name}', row {row}: there is no identifier, so the rows of "
                    "this person cannot be limited. Choose "
                    f"{setting('outside', 'drop')} to leave such rows out.",
                    column=persons.name,
                    row=row,
                )
            self._note(persons.name, unidentified)
        return np.flatnonzero(keep)

    def _handle_outside(
        self,
        attributes: Sequence[Attribute],
        codes: list[Any],
        strays: dict[str, np.ndarray],
        impossible: dict[ImpossibleCondition, np.ndarray],
        places: np.ndarray,
    ) -> tuple[list[Any], np.ndarray]:
        """Drop the rows with values outside their domain, or set these values missing.

        `strays` are masks by column, `impossible` by the condition that rows satisfy. Returns the
        remaining codes and positions.
        """
        if not strays and not impossible:
            return codes, places
        for name, mask in strays.items():
            self._note(name, mask)
        for condition, mask in impossible.items():
            self._note(condition.text, mask)
        if self.outside == "drop":
            keep = ~np.logical_or.reduce([*strays.values(), *impossible.values()])
            return [column[keep] for column in codes], places[keep]
        # Values outside were left out of lists already, which then have one value less.
        blank = {name: mask for name, mask in strays.items() if not self._listed(name)}
        for condition, mask in impossible.items():
            if column := self._blanked(condition):
                blank[column] = mask | blank[column] if column in blank else mask
        blanked = [
            np.where(blank[attribute.name], attribute.code_type.type(attribute.size - 1), column)
            if attribute.name in blank
            else column
            for attribute, column in zip(attributes, codes, strict=True)
        ]
        return blanked, places

    def _combination_error(self, condition: ImpossibleCondition, row: int) -> DomainError:
        """Return the error about a row with an impossible combination, which tells no value."""
        blank = (
            f", or {setting('outside', 'missing')} to blank a value of such rows"
            if any(attribute.missing for attribute in condition.attributes)
            and self.outside != "missing"
            else ""
        )
        return DomainError(
            f"Row {row}: it has the combination of values that the schema calls impossible "
            f"({condition.text}). Change the schema, or choose {setting('outside', 'drop')} to "
            f"leave such rows out{blank}.",
            column=condition.names[0],
            row=row,
        )

    def _identifiers(self, batch: pa.RecordBatch, places: np.ndarray) -> pa.Array:
        """Return the identifiers of the rows at these positions; nulls unless `identified`."""
        if not self._unique or self._person is None:
            return pa.nulls(len(places))
        people = batch.column(self._person[0]).take(pa.array(places))
        encoded = isinstance(people, pa.DictionaryArray)
        return identifiers(people.dictionary_decode() if encoded else people)

    def _note(self, name: str, mask: np.ndarray) -> None:
        self.outside_columns.add(name)
        if self.reveal:
            self.outside_counts[name] = self.outside_counts.get(name, 0) + int(mask.sum())

    def _domain_error(
        self,
        batch: pa.RecordBatch,
        strays: dict[str, np.ndarray],
        start: int,
        kept: np.ndarray | None,
    ) -> DomainError:
        """Return the error about the first value outside its domain; with `reveal`, it is shown."""
        name = min(strays, key=lambda name: int(np.argmax(strays[name])))
        place = int(np.argmax(strays[name]))
        place = place if kept is None else int(kept[place])
        column = self._column(name)
        value = f"the value {_shown(batch.column(column)[place])}" if self.reveal else "the value"
        attribute, name = self.schema[column], column
        if self._listed(column):
            return self._list_error(attribute, value, start + place + 1)
        blank = "" if attribute.missing else "write missing = true in the schema and choose "
        no_null = "" if attribute.missing else "; a missing value does not belong to it"
        return DomainError(
            f"Column '{name}', row {start + place + 1}: {value} is outside the domain "
            f"({attribute.describe()}{no_null}). Change the schema, or choose "
            f"{setting('outside', 'drop')} to leave such rows out, or {blank}"
            f"{setting('outside', 'missing')} to blank such values.",
            column=name,
            row=start + place + 1,
        )

    def _list_error(self, attribute: Attribute, value: str, row: int) -> DomainError:
        """Return the error about a list with a value outside the domain of its members."""
        return DomainError(
            f"Column '{attribute.name}', row {row}: {value} has members outside the domain "
            f"({attribute.describe()}). Change the schema, or choose "
            f"{setting('outside', 'drop')} to leave such rows out, or "
            f"{setting('outside', 'missing')} to leave such members out of their lists.",
            column=attribute.name,
            row=row,
        )


def _shown(value: pa.Scalar) -> str:
    """Format a value for the owner; bytes that are UTF-8 as text."""
    try:
        found = value.as_py()
        return repr(found.decode() if isinstance(found, bytes) else found)
    except (ValueError, OverflowError):
        return "(text that is not UTF-8, or a date out of range)"


# Pieces of units of work: noise does not depend on how the rows were read.


def unit_pieces(
    batches: Iterator[tuple[int, pa.Array, list[np.ndarray]]],
) -> Iterator[tuple[int, pa.Array, list[np.ndarray]]]:
    """Regroup the rows of every unit of work into pieces of exactly `PIECE` rows; the last piece of
    a unit may be shorter.

    Then the pieces follow from the codes alone, however the rows were read, and so does the noise
    that is drawn piece by piece from the stream of the unit.
    """
    waiting: list[tuple[pa.Array, list[np.ndarray]]] = []
    number, missing = -1, PIECE
    for unit, people, codes in batches:
        if unit != number:
            if waiting:
                yield number, *_joined(waiting)
            waiting, number, missing = [], unit, PIECE
        begin, size = 0, len(codes[0])
        while begin < size:
            end = min(size, begin + missing)
            part = slice(begin, end)
            waiting.append((people[part], [column[part] for column in codes]))
            missing -= end - begin
            begin = end
            if not missing:
                yield number, *_joined(waiting)
                waiting, missing = [], PIECE
    if waiting:
        yield number, *_joined(waiting)


def _joined(
    parts: list[tuple[pa.Array, list[np.ndarray]]],
) -> tuple[pa.Array, list[np.ndarray]]:
    if len(parts) == 1:
        return parts[0]
    people = pa.concat_arrays([people for people, _ in parts])
    return people, [np.concatenate(each) for each in zip(*(c for _, c in parts), strict=True)]
