"""Generators of questions, as in the experiments of the papers, and the owner's questions.

Questions are not secret: they are drawn with a seed of numpy's generator. A generator that needs
private rows (for a selectivity, or for centres that people have) takes a `TrueTable`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb, log, prod, sqrt
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from scumble.compare.truth import TrueTable
from scumble.model.errors import ParameterError, QueryError
from scumble.model.privacy.guarantee import read_share
from scumble.model.query import Expression, Query
from scumble.model.schema.schema import Schema
from scumble.private.database.space import Space
from scumble.private.summaries.workload_matrix import statements, unfinished
from scumble.public.sql.names import sql_name
from scumble.public.sql.parse import parse
from scumble.public.sql.templates import TemplateParser

Interval = tuple[int, int]  # codes, both ends included

_COUNT = "SELECT COUNT(*) FROM t"


class CountWriter:
    """Writes counts over the attributes of a schema; each condition is parsed once."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parser = TemplateParser(schema)
        self._known: dict[tuple[str, Interval], tuple[tuple[Expression, ...], str]] = {}

    def count(self, box: Mapping[str, Interval], groups: Sequence[str] = ()) -> Query:
        """Return the question how many rows have a code in every interval of `box`, for each
        combination of `groups`. Conditions are in the order of the schema.
        """
        parts = [self._part(name, box[name]) for name in self._schema.names if name in box]
        clauses = tuple(clause for part, _ in parts for clause in part)
        words = " AND ".join(text for _, text in parts if text)
        text = f"{_COUNT} WHERE {words}" if words else _COUNT
        if groups:
            names = ", ".join(map(sql_name, groups))
            text = f"SELECT {names}, {text.removeprefix('SELECT ')} GROUP BY {names}"
        return Query("count", clauses=clauses, groups=tuple(groups), text=text)

    def _part(self, name: str, interval: Interval) -> tuple[tuple[Expression, ...], str]:
        key = name, interval
        if key not in self._known:
            text = Space(self._schema, [name]).sql(np.array([interval], np.int64))
            if text == "TRUE":  # the whole domain is no condition
                self._known[key] = (), ""
            else:
                query = self._parser.parse(f"{_COUNT} WHERE {text}")
                self._known[key] = query.clauses, text
        return self._known[key]


Codes = npt.NDArray[np.int64]
Box = dict[str, Interval]
Centres = Literal["data", "uniform"]

_MOST = 1_000_000  # questions of one workload
_MOST_ROW_READS = 1_000_000_000  # to find the conjunctions of all sets of attributes


class FloorError(ParameterError):
    """No conjunction selects enough rows."""


@dataclass(frozen=True)
class QuestionSet:
    """Questions with a description; `wanted` is the number asked for, if there are fewer."""

    name: str
    queries: tuple[Query, ...]
    wanted: int | None = None

    def __len__(self) -> int:
        return len(self.queries)


def selections(
    schema: Schema,
    attributes: Sequence[str] | None = None,
    *,
    ways: int = 3,
    most: int | None = None,
    seed: int = 0,
) -> QuestionSet:
    """Return all selections by equality on one to `ways` attributes, or `most` of them, drawn
    uniformly.
    """
    sets = list(_sets(schema, attributes, range(1, ways + 1)))
    writer, boxes = CountWriter(schema), _boxes(schema, sets, most, seed)
    queries = tuple(writer.count(box) for box in boxes)
    return QuestionSet(f"selections by up to {ways} attributes", queries)


def marginals(
    schema: Schema,
    attributes: Sequence[str] | None = None,
    *,
    ways: int = 2,
    most: int | None = None,
    seed: int = 0,
) -> QuestionSet:
    """Return the tables of all sets of `ways` attributes, one GROUP BY each, or `most` of them."""
    writer = CountWriter(schema)
    sets = list(_sets(schema, attributes, [ways]))
    if not sets:
        raise ParameterError.of("marginals", "ways", "a number of attributes that there are", ways)
    if most is not None and most < len(sets):
        chosen = np.random.default_rng(seed).choice(len(sets), most, replace=False)
        sets = [sets[place] for place in np.sort(chosen).tolist()]
    return QuestionSet(f"{ways}-way marginals", tuple(writer.count({}, names) for names in sets))


def breakdowns(
    table: TrueTable,
    *,
    count: int | None,
    floor: float,
    groups: Sequence[str],
    ways: int = 2,
    seed: int = 0,
) -> QuestionSet:
    """Return `count` conjunctions of one to `ways` attributes, each grouped by `groups`.

    They are drawn uniformly from those that at least a share `floor` of the rows satisfy. All of
    them are returned if `count` is None.
    """
    schema, writer = table.schema, CountWriter(table.schema)
    hidden = [attribute.name for attribute in schema.sensitive]
    others = [name for name in _names(schema, None) if name not in (*hidden, *groups)]
    by = " and ".join(groups)
    if not others:
        return QuestionSet(f"counts by {by}", (writer.count({}, groups),))
    generator = np.random.default_rng(seed)
    reached = _frequent_conjunctions(
        table, others, ways, float(read_share("breakdowns", "floor", floor)), generator
    )
    drawn = _boxes_at(reached, generator.permutation(sum(len(each.codes) for each in reached)))
    queries = tuple(writer.count(box, groups) for box in islice(drawn, count))
    words = f"conjunctions of up to {ways} attributes, by {by}"
    return _workload(f"{words}, selectivity at least {100 * float(floor):g} %", queries, count)


def conjunctions(
    table: TrueTable,
    *,
    count: int,
    floor: float,
    attributes: Sequence[str] | None = None,
    sensitive: Sequence[str] | None = None,
    ways: int = 3,
    seed: int = 0,
) -> QuestionSet:
    """Return random conjunctions of one to `ways` quasi-identifiers with every sensitive value.

    Only those are taken that at least a share `floor` of the rows satisfy, at most `count`.
    """
    schema = table.schema
    known = [schema[name] for name in attributes] if attributes else schema.quasi
    names = [attribute.name for attribute in known]
    hidden = list(sensitive) if sensitive else [a.name for a in schema.sensitive]
    if not names or not hidden:
        raise ParameterError("Conjunctions need quasi-identifiers and a sensitive attribute.")
    part = float(read_share("conjunctions", "floor", floor))
    generator, writer = np.random.default_rng(seed), CountWriter(schema)
    cells = list(np.ndindex(*(schema[name].size for name in hidden)))
    # Adding a sensitive value to a conjunction cannot select more rows.
    reached = _frequent_conjunctions(table, names, ways, part, generator)
    drawn = _boxes_at(reached, _even_widths(schema, reached, len(names), generator))
    found: list[Query] = []
    while len(found) < count and (boxes := list(islice(drawn, max(count, 100)))):
        asked = [writer.count(box | _points(hidden, cell)) for box in boxes for cell in cells]
        enough = table.counts(asked) >= part * table.rows
        found += [query for query, kept in zip(asked, enough, strict=True) if kept]
    if not found:
        raise _too_high(floor, f"{ways} attributes with a sensitive value")
    words = f"conjunctions of up to {ways} attributes with every {' and '.join(hidden)}"
    words += f", selectivity at least {100 * part:g} %"
    return _workload(words, tuple(found[:count]), count)


def ranges(
    schema: Schema,
    *,
    volume: float,
    count: int,
    attributes: Sequence[str] | None = None,
    centres: Centres = "uniform",
    table: TrueTable | None = None,
    seed: int = 0,
) -> QuestionSet:
    """Return boxes over two random attributes, whose intervals have a share √volume of the codes.

    They are around the values of a random person (`centres="data"`) or around random values
    ("uniform"), and are moved into the domain at its ends.
    """
    edge = sqrt(float(read_share("ranges", "volume", volume)))
    names = _names(schema, attributes)
    if len(names) < 2:
        raise ParameterError("Ranges of two attributes need two attributes.")
    generator, writer = np.random.default_rng(seed), CountWriter(schema)
    queries = []
    for _ in range(count):
        pair = [names[place] for place in generator.permutation(len(names))[:2]]
        middles = _middles(schema, pair, centres, table, generator)
        box = {
            name: _interval_around(middle, schema[name].size, edge)
            for name, middle in zip(pair, middles, strict=True)
        }
        queries.append(writer.count(box))
    return QuestionSet(
        f"boxes over two attributes, {100 * volume:g} % of the domain", tuple(queries)
    )


def prefixes(schema: Schema, attribute: str) -> QuestionSet:
    """Return the counts of all prefixes of an attribute's codes."""
    writer, size = CountWriter(schema), schema[attribute].size
    queries = tuple(writer.count({attribute: (0, last)}) for last in range(size))
    return QuestionSet(f"prefixes of {attribute}", queries)


def intervals(schema: Schema, attribute: str, *, count: int, seed: int = 0) -> QuestionSet:
    """Return intervals of an attribute's codes, drawn uniformly from all intervals."""
    writer, size = CountWriter(schema), schema[attribute].size
    generator = np.random.default_rng(seed)
    lows, highs = np.triu_indices(size) if size <= 2000 else _drawn_pairs(size, count, generator)
    chosen = generator.integers(len(lows), size=count)
    pairs = zip(lows[chosen].tolist(), highs[chosen].tolist(), strict=True)
    queries = tuple(writer.count({attribute: pair}) for pair in pairs)
    return QuestionSet(f"random ranges of {attribute}", queries)


def from_sql(given: Path | Sequence[str], schema: Schema) -> QuestionSet:
    """Return the owner's questions from a list, or from a file of SQL with a question in each line
    or semicolons between them.
    """
    queries = []
    for number, text in enumerate(statements(given), 1):
        try:
            queries.append(parse(text, schema))
        except QueryError as error:
            hint = ""
            if unfinished(given):
                hint = " Each line is a question; put semicolons after those of several lines."
            raise QueryError(f"Question {number}: {error}{hint}") from None
    named = f"the questions in {Path(given).name}" if isinstance(given, Path) else "given"
    return QuestionSet(named, tuple(queries))


# --- parts ---------------------------------------------------------------------------------------


def _names(schema: Schema, attributes: Sequence[str] | None) -> list[str]:
    chosen = schema.published if attributes is None else [schema[name] for name in attributes]
    return [attribute.name for attribute in chosen]


def _sets(
    schema: Schema, attributes: Sequence[str] | None, widths: Iterable[int]
) -> Iterator[tuple[str, ...]]:
    names = _names(schema, attributes)
    for width in widths:
        yield from combinations(names, width)


def _boxes(
    schema: Schema, sets: Sequence[tuple[str, ...]], most: int | None, seed: int
) -> list[Box]:
    """Return every cell of every set of attributes, or `most` of them, drawn uniformly."""
    sizes = [prod(schema[name].size for name in names) for names in sets]
    total = sum(sizes)
    if min(total, total if most is None else most) > _MOST:
        raise ParameterError(f"That are {total} questions, more than {_MOST}; ask for fewer.")
    if most is None or most >= total:
        chosen = np.arange(total)
    else:
        chosen = np.sort(np.random.default_rng(seed).choice(total, most, replace=False))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    boxes = []
    for place, names in enumerate(sets):
        first, last = np.searchsorted(chosen, starts[place : place + 2])
        shape = [schema[name].size for name in names]
        cells = np.unravel_index(chosen[first:last] - starts[place], shape)
        boxes += [_points(names, cell) for cell in zip(*(c.tolist() for c in cells), strict=True)]
    return boxes


def _points(names: Sequence[str], cell: Sequence[int]) -> Box:
    return {name: (code, code) for name, code in zip(names, cell, strict=True)}


def _workload(words: str, queries: tuple[Query, ...], count: int | None) -> QuestionSet:
    missing = count is not None and len(queries) < count
    return QuestionSet(words, queries, count if missing else None)


def _frequent_conjunctions(
    table: TrueTable, names: Sequence[str], ways: int, floor: float, generator: np.random.Generator
) -> list[Frequent]:
    """Return all conjunctions of values that a share `floor` of the rows satisfy.

    If there are very many sets of attributes, a random part of them is used.
    """
    sets = list(_sets(table.schema, names, range(1, ways + 1)))
    most = max(_MOST_ROW_READS // max(table.rows, 1), 100)
    if most < len(sets):
        chosen = generator.choice(len(sets), most, replace=False)
        sets = [sets[place] for place in np.sort(chosen).tolist()]
    found = list(frequent(table, sets, floor * table.rows))
    if not found:
        raise _too_high(floor, f"{ways} attributes")
    return found


def _too_high(floor: float, words: str) -> FloorError:
    return FloorError(
        f"No conjunction of up to {words} selects {100 * float(floor):g} % of the rows; choose a "
        "smaller floor."
    )


def _even_widths(
    schema: Schema, reached: Sequence[Frequent], attributes: int, generator: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Return a random order of all conjunctions.

    It is that of repeated draws of a number of attributes, then of the attributes, then of a value
    of each, all uniformly and without replacement.
    """
    logs = [
        np.full(
            len(each.codes),
            -log(comb(attributes, len(each.names)))
            - sum(log(schema[name].size) for name in each.names),
        )
        for each in reached
    ]
    # Sorting log weights with Gumbel noise is weighted sampling without replacement.
    weights = np.concatenate(logs)
    return np.argsort(-(weights + generator.gumbel(size=len(weights))))


def _boxes_at(reached: Sequence[Frequent], places: npt.NDArray[np.intp]) -> Iterator[Box]:
    """Yield the conjunctions at some places, in this order."""
    starts = np.cumsum([0, *(len(each.codes) for each in reached)])
    for place in places.tolist():
        at = int(np.searchsorted(starts, place, "right")) - 1
        each = reached[at]
        yield _points(each.names, each.codes[place - starts[at]].tolist())


def _middles(
    schema: Schema,
    pair: Sequence[str],
    centres: Centres,
    table: TrueTable | None,
    generator: np.random.Generator,
) -> list[int]:
    if centres == "uniform":
        return [int(generator.integers(schema[name].size)) for name in pair]
    if centres != "data" or table is None or not table.rows:
        raise ParameterError.of(
            "ranges", "centres", "'uniform', or 'data' with a table that has rows", centres
        )
    person = int(generator.integers(table.rows))
    return [int(table.codes(name)[person]) for name in pair]


def _interval_around(middle: int, size: int, edge: float) -> Interval:
    """Return an interval in the domain with about a share `edge` of the codes around `middle`."""
    length = min(max(round(edge * size), 1), size)
    low = min(max(middle - (length - 1) // 2, 0), size - length)
    return low, low + length - 1


def _drawn_pairs(size: int, count: int, generator: np.random.Generator) -> tuple[Codes, Codes]:
    """Draw pairs low ≤ high uniformly, for a domain too large to list them.

    A pair is made of two different numbers among size + 1, the larger less one.
    """
    first = generator.integers(0, size + 1, count)
    second = generator.integers(0, size, count)
    second += second >= first
    return np.minimum(first, second), np.maximum(first, second) - 1


# All conjunctions that many rows satisfy. Values are combined only if each of them is frequent by
# itself, so that a column of thousands of rare values costs no more than any other.

_LISTED = 1 << 22  # cells of a table that is counted as a whole
_MOST_CELLS = 1 << 62  # cells that can be numbered


@dataclass(frozen=True, eq=False)
class Frequent:
    """The cells of some attributes with enough rows, as a row of codes for each cell."""

    names: tuple[str, ...]
    codes: Codes


def frequent(table: TrueTable, sets: Iterable[tuple[str, ...]], least: float) -> Iterator[Frequent]:
    """Yield the cells with at least `least` rows (and one) of each set of attributes, if any."""
    known = _FrequentValues(table, max(least, 1.0))
    for names in sets:
        codes = known.cells(names)
        if len(codes):
            yield Frequent(names, codes)


class _FrequentValues:
    """The frequent values of each attribute, and the place of every row's value among them."""

    def __init__(self, table: TrueTable, least: float) -> None:
        self._table = table
        self._least = least
        self._values: dict[str, Codes] = {}
        self._places: dict[str, npt.NDArray[np.int32]] = {}

    def cells(self, names: Sequence[str]) -> Codes:
        values = [self._of(name) for name in names]
        if len(names) == 1:
            return values[0][:, np.newaxis]
        shape = [len(each) for each in values]
        size = prod(shape)
        if not size:
            return np.empty((0, len(names)), np.int64)
        if size > _MOST_CELLS:
            raise ParameterError("There are too many conjunctions: a larger floor, or fewer ways.")
        inside, cell = self._rows(names, shape)
        found = np.unravel_index(self._often(cell[inside], size), shape)
        columns = [own[place] for own, place in zip(values, found, strict=True)]
        return np.stack(columns, axis=1)

    def _of(self, name: str) -> Codes:
        if name not in self._values:
            counts = self._table.cube([name])
            self._values[name] = np.flatnonzero(counts >= self._least)
            places = np.full(len(counts), -1, np.int32)
            places[self._values[name]] = np.arange(len(self._values[name]))
            self._places[name] = places[self._table.codes(name)]
        return self._values[name]

    def _rows(
        self, names: Sequence[str], shape: Sequence[int]
    ) -> tuple[npt.NDArray[np.bool_], Codes]:
        """Return which rows have a frequent value in all attributes, and the cell of each row."""
        inside = np.ones(self._table.rows, bool)
        cell = np.zeros(self._table.rows, np.int64)
        for name, size in zip(names, shape, strict=True):
            place = self._places[name]
            inside &= place >= 0
            cell *= size
            cell += place
        return inside, cell

    def _often(self, cells: Codes, size: int) -> Codes:
        if size <= _LISTED:
            return np.flatnonzero(np.bincount(cells, minlength=size) >= self._least)
        there, counts = np.unique(cells, return_counts=True)
        return there[counts >= self._least]
