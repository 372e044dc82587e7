"""The questions of a comparison: a file of the owner, or a generator by its name; and their answers
as one row of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.compare import measures, workloads
from scumble.compare.measures import RepeatedAnswers
from scumble.compare.truth import TrueTable
from scumble.compare.workloads import FloorError, QuestionSet
from scumble.model.errors import ParameterError
from scumble.model.query import Query
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.schema import Schema
from scumble.public.estimate import Estimate, Estimates
from scumble.public.estimate_table import EstimateTable

_GROUPS = 200  # most combinations of sensitive values by which questions are grouped
_TABLES, _COUNTS = 30, 400  # default numbers of questions: with groups, and without

Options = dict[str, Any]
Generator = Callable[[TrueTable, int | None, int, Options], QuestionSet]


def questions(given: str, table: TrueTable, count: int | None, seed: int) -> QuestionSet:
    """Return the questions of a file of SQL, or of a generator with its options.

    `given` is a path, or NAME:OPTIONS of a generator, which makes `count` questions (0 for all,
    None for a default number).
    """
    if not table.rows:
        raise ParameterError("The table has no rows: there is nothing to ask about, or to compare.")
    name, _, rest = given.partition(":")
    if name in GENERATORS:
        generator, known = GENERATORS[name]
        options = _options(given, rest, known)
        try:
            found = generator(table, count, seed, options)
            return replace(found, name=f"{name}: {found.name}")
        except FloorError as error:
            smaller = f"--queries {name}:floor={options['floor'] / 10:g}"
            raise ParameterError(f"{str(error).rstrip('.')}, as {smaller}.") from None
    if not Path(given).is_file():
        why = "is a folder" if Path(given).is_dir() else "does not exist"
        raise ParameterError(
            f"The file '{given}' {why}. --queries takes a file of SQL, or one of "
            f"{', '.join(GENERATORS)}."
        )
    return workloads.from_sql(Path(given), table.schema)


def _breakdowns(table: TrueTable, count: int | None, seed: int, options: Options) -> QuestionSet:
    groups = _grouped(table.schema.sensitive)
    number = _most(count, _TABLES)
    return workloads.breakdowns(table, count=number, groups=groups, seed=seed, **options)


def _conjunctions(table: TrueTable, count: int | None, seed: int, options: Options) -> QuestionSet:
    number = _several("conjunctions", count)
    return workloads.conjunctions(table, count=number, seed=seed, **options)


def _selections(table: TrueTable, count: int | None, seed: int, options: Options) -> QuestionSet:
    return workloads.selections(table.schema, most=_most(count, _COUNTS), seed=seed, **options)


def _marginals(table: TrueTable, count: int | None, seed: int, options: Options) -> QuestionSet:
    return workloads.marginals(table.schema, most=_most(count, _TABLES), seed=seed, **options)


def _ranges(table: TrueTable, count: int | None, seed: int, options: Options) -> QuestionSet:
    schema = table.schema
    names = [each.name for each in schema.published if each.size > 2]
    number = _several("ranges", count)
    return workloads.ranges(
        schema, count=number, attributes=names, table=table, seed=seed, **options
    )


def _prefixes(table: TrueTable, _count: int | None, _seed: int, options: Options) -> QuestionSet:
    return workloads.prefixes(table.schema, _column("prefixes", options))


def _intervals(table: TrueTable, count: int | None, seed: int, options: Options) -> QuestionSet:
    column = _column("intervals", options)
    number = _several("intervals", count)
    return workloads.intervals(table.schema, column, count=number, seed=seed)


# Each generator with its options and their defaults, whose types are those of the options.
GENERATORS: Mapping[str, tuple[Generator, Options]] = MappingProxyType(
    {
        "breakdowns": (_breakdowns, {"ways": 2, "floor": 0.02}),
        "conjunctions": (_conjunctions, {"ways": 3, "floor": 0.001}),
        "selections": (_selections, {"ways": 3}),
        "marginals": (_marginals, {"ways": 2}),
        "ranges": (_ranges, {"volume": 0.1, "centres": "uniform"}),
        "prefixes": (_prefixes, {"column": ""}),
        "intervals": (_intervals, {"column": ""}),
    }
)


def _options(given: str, text: str, known: Mapping[str, Any]) -> Options:
    """Read options such as `ways=3,floor=0.01`; a column may be given without its name."""
    found = dict(known)
    for part in filter(None, text.split(",")):
        name, sign, value = part.partition("=")
        if not sign and "column" in known:
            name, value = "column", part
        try:
            found[name] = type(known[name])(value)
        except (KeyError, ValueError):
            allowed = ", ".join(f"{each}={value}" for each, value in known.items())
            raise ParameterError.of("compare", "queries", f"NAME:{allowed}", given) from None
    return found


def _most(count: int | None, usual: int) -> int | None:
    """Return the number of questions; None for all."""
    return usual if count is None else count or None


def _several(name: str, count: int | None) -> int:
    if count == 0:
        raise ParameterError(f"There are too many {name} to ask all; give their number.")
    return count or _COUNTS


def _column(name: str, options: Options) -> str:
    if not options["column"]:
        raise ParameterError(f"Say of which column: --queries {name}:COLUMN.")
    return str(options["column"])


def _grouped(sensitive: tuple[Attribute, ...]) -> tuple[str, ...]:
    """Return the first sensitive attribute, and others as long as there are few combinations."""
    chosen = list(sensitive[:1])
    for attribute in sensitive[1:]:
        if prod(each.size for each in (*chosen, attribute)) <= _GROUPS:
            chosen.append(attribute)
    return tuple(each.name for each in chosen)


# The answers to all questions as one row: one number for each question, or for each of its groups.

Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Key = tuple[Any, ...]

MOST_INTERVALS = 500  # of one release: the exact ones of publishers take milliseconds each


class ComparedQuestions:
    """The questions that every release is asked, and how their answers are compared."""

    def __init__(self, schema: Schema, queries: Sequence[Query]) -> None:
        self._queries = queries
        self._keys: list[list[Key]] = [
            list(product(*(schema[name].labels().to_pylist() for name in query.groups)))
            for query in queries
        ]
        self.counts = np.array(
            [q.aggregate == "count" for q, keys in self._pairs() for _ in keys], bool
        )

    def kept(self, truth: Floats) -> Places:
        """Return the places of the answers that can be compared.

        An average of no rows cannot be compared; a count of 0 is left out if it is one of many
        groups.
        """
        grouped = np.array([bool(q.groups) for q, keys in self._pairs() for _ in keys], bool)
        wanted = np.isfinite(truth) & ~(grouped & (truth == 0)) & (self.counts | (truth != 0))
        return np.flatnonzero(wanted)

    def names(self, kept: Places) -> Iterator[str]:
        """Yield the question of each answer at the places `kept`, with its group."""
        every = [
            query.text + (f" -- {', '.join(map(str, key))}" if key else "")
            for query, keys in self._pairs()
            for key in keys
        ]
        return (every[place] for place in kept)

    def answers(
        self, given: Sequence[Estimate | Estimates | EstimateTable]
    ) -> list[Estimate | None]:
        """Return each answer, with one for each group; None for a group that has none."""
        found: list[Estimate | None] = []
        for answer, keys in zip(given, self._keys, strict=True):
            if isinstance(answer, Estimates):
                by_key = dict(answer)
                found += [by_key.get(key) for key in keys]
            elif isinstance(answer, Estimate):
                found.append(answer)
        return found

    def values(self, answers: Sequence[Estimate | None]) -> Floats:
        """Return the values of answers; 0 for a missing group and for an unknown value."""
        found = np.array([0.0 if each is None else each.value for each in answers])
        return np.asarray(np.nan_to_num(found, posinf=0.0, neginf=0.0))

    def rounded(self, values: Floats, truth: Floats, kept: Places) -> list[float]:
        """Return the values at the places `kept`, rounded to ten digits.

        Further digits depend on the order in which threads add up.
        """
        least = np.where(self.counts[kept], 1.0, 1e-300)
        scale = np.maximum(np.maximum(np.abs(values[kept]), np.abs(truth[kept])), least)
        digits = 9 - np.floor(np.log10(scale)).astype(int)
        pairs = zip(values[kept].tolist(), digits.tolist(), strict=True)
        return [round(value, places) for value, places in pairs]

    def distances(self, values: Floats, truth: Floats) -> list[float]:
        """Return the distance of the table of every GROUP BY of counts from the true one.

        Tables without rows are left out.
        """
        found, start = [], 0
        for query, keys in self._pairs():
            cells = slice(start, start + len(keys))
            start += len(keys)
            if query.groups and query.aggregate == "count" and truth[cells].any():
                found.append(round(measures.marginal_distance(truth[cells], values[cells]), 10))
        return found

    def intervals(
        self, answers: Sequence[Estimate | None], truth: Floats, kept: Places, repeat: int
    ) -> tuple[float | None, float | None, int]:
        """Return the share of the 95 % intervals that hold the truth, their mean half-width (None
        if one has no end), and the number of intervals.

        At most `MOST_INTERVALS` are computed; which ones depends on `repeat`.
        """
        stride = -(-len(kept) // MOST_INTERVALS)
        known = [(p, a) for p in kept[repeat % max(stride, 1) :: stride] if (a := answers[p])]
        if not known:
            return None, None, 0
        limits = np.array([answer.interval() for _, answer in known]).T[:, np.newaxis]
        right = truth[[place for place, _ in known]]
        held = measures.coverage(RepeatedAnswers(right, right[np.newaxis], 1, *limits))
        half = float((limits[1] - limits[0]).mean() / 2)
        return float(held[0]), half if np.isfinite(half) else None, len(known)

    def _pairs(self) -> Iterator[tuple[Query, list[Key]]]:
        return zip(self._queries, self._keys, strict=True)
