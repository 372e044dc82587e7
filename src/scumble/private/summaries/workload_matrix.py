"""The questions of a Workload as a matrix over merged cells, and the forecast of their errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model import stored
from scumble.model.designs.matrix import AttributeBlock, Labels, MergedCells, numbered_by_appearance
from scumble.model.errors import ParameterError, QueryError, large
from scumble.model.long_work import told
from scumble.model.query import Expression, Query
from scumble.model.schema.schema import Schema
from scumble.public.sandbox import Sandbox
from scumble.public.sql.parse import parse

Truth = npt.NDArray[np.bool_]

MOST_CELLS = 4096
MOST_COUNTED = 10**8  # cells of the product of the domains
MOST_QUESTIONS = 20_000
_MOST_STEPS = 4 * 10**9
_BITS = 62  # truths in one whole number
_MOST_KEPT = 1 << 28


@dataclass(frozen=True)
class AskedCount:
    """One count: its conditions, and the codes of its group."""

    text: str
    clauses: tuple[Expression, ...]
    codes: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Questions:
    """Counts over merged cells. `matrix` has a row for each question, 1 where a cell is counted."""

    asked: tuple[AskedCount, ...]
    merged: MergedCells
    matrix: npt.NDArray[np.uint8]

    def gram(self) -> npt.NDArray[np.float64]:
        """Return the Gram matrix W'W."""
        total = np.zeros((self.merged.cells, self.merged.cells))
        for begin in range(0, len(self.matrix), 1024):
            part = self.matrix[begin : begin + 1024].astype(np.float32)
            total += part.T @ part  # whole numbers up to 1024, which are exact in 32 bits
        return total

    def distinct(self) -> npt.NDArray[np.uint8]:
        """Return the different rows of the matrix, in lexicographic order."""
        rows = sorted({row.tobytes() for row in self.matrix})
        return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), self.merged.cells)


def merging(queries: Sequence[Query], schema: Schema, engine: Sandbox) -> Questions:
    """Return the workload of counts that were checked before."""
    asked = tuple(each for query in queries for each in _single(query, schema))
    if len(asked) > MOST_QUESTIONS:
        raise ParameterError(
            f"The workload asks {len(asked)} counts, groups included; at most {MOST_QUESTIONS} are "
            "possible. Ask fewer, or use the method marginals."
        )
    product = _Product(queries, schema, engine)
    merged = product.merged(asked)
    if merged.cells > MOST_CELLS:
        raise ParameterError(
            f"The questions tell {merged.cells} kinds of rows apart; a workload can have at most "
            f"{MOST_CELLS}. Ask about fewer or coarser attributes, or use the method hierarchy, "
            "wavelet or marginals."
        )
    return Questions(asked, merged, product.matrix(asked, merged))


def _single(query: Query, schema: Schema) -> Iterator[AskedCount]:
    """Yield one count for every group of a query."""
    if query.groups and schema.size(query.groups) > MOST_QUESTIONS:
        raise ParameterError(
            f"GROUP BY {', '.join(query.groups)} makes {schema.size(query.groups)} groups; a "
            f"workload has at most {MOST_QUESTIONS} counts."
        )
    for codes in np.ndindex(*[schema[name].size for name in query.groups]):
        yield AskedCount(query.text, query.clauses, dict(zip(query.groups, codes, strict=True)))


class _Product:
    """The blocks of attributes, and the truth of clauses for the classes of each."""

    def __init__(self, queries: Sequence[Query], schema: Schema, engine: Sandbox) -> None:
        self._schema = schema
        clauses = list(dict.fromkeys(clause for query in queries for clause in query.clauses))
        groups = {name for query in queries for name in query.groups}
        named = [*(clause.attributes for clause in clauses), *((name,) for name in groups)]
        self._places: dict[str, int] = {}
        self._truths: dict[Expression, tuple[int, Truth]] = {}
        self._codes: dict[str, tuple[int, Labels]] = {}
        self.blocks: list[AttributeBlock] = []
        for names in _tied(named, schema):
            self._add(names, clauses, groups, engine)
        # A clause without attributes is true or false everywhere.
        for clause in clauses:
            if not clause.attributes:
                [truth] = engine.holds([clause], ())
                self._truths[clause] = 0, np.full(self.blocks[0].classes, bool(truth[0]))

    def _add(
        self, names: tuple[str, ...], clauses: list[Expression], groups: set[str], engine: Sandbox
    ) -> None:
        sizes = [self._schema[name].size for name in names]
        if prod(sizes) > MOST_COUNTED:
            raise ParameterError(
                f"The workload ties {', '.join(names)} together, which have {prod(sizes):.3g} "
                f"combinations of values; at most {large(MOST_COUNTED)} are possible."
            )
        own = [clause for clause in clauses if set(clause.attributes) & set(names)]
        codes = {
            name: grid.reshape(-1)
            for name, grid in zip(names, np.indices(sizes, sparse=False), strict=True)
            if name in groups
        }
        truths = _Truths(own, names, engine, prod(sizes))
        labels = np.zeros(prod(sizes), np.int64)
        for column in codes.values():
            labels = numbered_by_appearance(labels * (int(column.max()) + 1) + column)
        for part in truths.parts():
            labels = _refined(labels, list(part.values()))
        block = AttributeBlock(names, labels)
        first, place = block.first(), len(self.blocks)
        self.blocks.append(block)
        self._codes |= {name: (place, column[first]) for name, column in codes.items()}
        for part in truths.parts():
            self._truths |= {clause: (place, truth[first]) for clause, truth in part.items()}

    def merged(self, asked: Sequence[AskedCount]) -> MergedCells:
        """Return the product of the classes, with cells merged that no count tells apart."""
        shape = [block.classes for block in self.blocks]
        counted = prod(len(block.labels) for block in self.blocks)
        if counted > MOST_COUNTED or prod(shape) * len(asked) > _MOST_STEPS:
            names = ", ".join(name for block in self.blocks for name in block.names)
            raise ParameterError(
                f"The workload asks about {names}, which have {counted:.3g} combinations of "
                "values: too many for it. Ask about fewer or coarser attributes."
            )
        labels = np.zeros(prod(shape), np.int64)
        every = np.arange(prod(shape))
        for begin in range(0, len(asked), _BITS):
            truths = [self._truth(each, every, shape) for each in asked[begin : begin + _BITS]]
            labels = _refined(labels, truths)
        return MergedCells(tuple(self.blocks), labels)

    def matrix(self, asked: Sequence[AskedCount], merged: MergedCells) -> npt.NDArray[np.uint8]:
        first = np.unique(merged.labels, return_index=True)[1]
        rows = [self._truth(each, first, merged.shape) for each in asked]
        return np.array(rows, np.uint8).reshape(len(asked), merged.cells)

    def _truth(self, asked: AskedCount, cells: npt.NDArray[np.intp], shape: Sequence[int]) -> Truth:
        """Return whether a count includes each of some cells of the product of the classes."""
        codes = np.unravel_index(cells, shape)
        parts: dict[int, list[Truth]] = {}
        for clause in asked.clauses:
            place, truth = self._truths[clause]
            parts.setdefault(place, []).append(truth)
        for name, code in asked.codes.items():
            place, column = self._codes[name]
            parts.setdefault(place, []).append(column == code)
        found = np.ones(len(cells), bool)
        for place, truths in parts.items():
            found &= reduce(np.logical_and, truths)[codes[place]]
        return found


class _Truths:
    """The truth of clauses over the cells of a block, evaluated in parts; small ones are cached."""

    def __init__(
        self, clauses: Sequence[Expression], names: tuple[str, ...], engine: Sandbox, cells: int
    ) -> None:
        self._clauses, self._names, self._engine = clauses, names, engine
        self._keep = cells * len(clauses) <= _MOST_KEPT
        self._kept: list[dict[Expression, Truth]] = []

    def parts(self) -> Iterator[dict[Expression, Truth]]:
        if self._kept:
            yield from self._kept
            return
        for begin in range(0, len(self._clauses), _BITS):
            part = self._clauses[begin : begin + _BITS]
            found = dict(zip(part, self._engine.holds(part, self._names), strict=True))
            if self._keep:
                self._kept.append(found)
            yield found


def _tied(named: Sequence[tuple[str, ...]], schema: Schema) -> list[tuple[str, ...]]:
    """Return the sets of attributes that clauses or groups connect, directly or through others."""
    sets: list[set[str]] = []
    for names in named:
        touching = [each for each in sets if each & set(names)]
        sets = [each for each in sets if each not in touching]
        if names:
            sets.append(set(names).union(*touching))
    if not sets:
        sets = [{schema.names[0]}]
    ordered = [tuple(name for name in schema.names if name in each) for each in sets]
    return sorted(ordered, key=lambda names: schema.names.index(names[0]))


def _refined(labels: Labels, truths: Sequence[Truth]) -> Labels:
    """Return the classes split further by the truth values of more conditions."""
    key = np.zeros(len(labels), np.int64)
    for truth in truths:
        key = (key << 1) | truth
    told = numbered_by_appearance(key)
    return numbered_by_appearance(labels * (int(told.max()) + 1) + told)


# The texts of the questions, from a file or a list.

_ALLOWED = "a list of SQL counts, or the pathlib.Path of a file of them"
_LARGEST = 1 << 24  # bytes of a file of questions


def statements(given: Path | Sequence[str]) -> tuple[str, ...]:
    """Return the texts of all questions; empty ones are skipped.

    A text is not the name of a file: parameters that come over a network are texts and lists.
    """
    if isinstance(given, Path):
        found = _split(_read(given))
        if not any(text.strip(" \t\r\n;") for text in found):
            raise ParameterError(f"The file '{given}' has no question: write SQL, one a line.")
    elif isinstance(given, (list, tuple)) and all(isinstance(each, str) for each in given):
        found = list(given)
    else:
        raise ParameterError.of("Workload", "queries", _ALLOWED, given)
    kept = tuple(text.strip().rstrip(";").strip() for text in found if text.strip(" \t\r\n;"))
    if not kept:
        raise ParameterError.of("Workload", "queries", f"{_ALLOWED}, with at least one", list(kept))
    return kept


def _read(path: Path) -> str:
    try:
        return stored.read_regular(path.resolve(), _LARGEST).decode("utf-8")
    except (OSError, ValueError):
        if not path.exists():
            raise ParameterError(f"There is no file '{path}' of SQL counts.") from None
        raise ParameterError(
            f"The file '{path}' cannot be read as text in UTF-8: it must be an ordinary file of at "
            f"most {_LARGEST >> 20} MiB."
        ) from None


def unfinished(given: Path | Sequence[str]) -> bool:
    """Return whether a file was split at line ends and some lines do not begin with SELECT."""
    if not isinstance(given, Path) or ";" in (text := _read(given)):
        return False
    begins = [line.split()[0].upper() for line in _split(text) if line.split()]
    return "SELECT" in begins and any(word != "SELECT" for word in begins)


def _split(text: str) -> list[str]:
    """Return one question for each line or, if there is a semicolon outside quotes, for each
    semicolon. Lines that begin with -- are comments.
    """
    kept = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    parts, quote = [""], ""
    for sign in kept:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        if sign == ";" and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return parts if len(parts) > 1 else kept.splitlines()


# Forecast: the errors of the answers to a workload, known before anything is measured.

_LISTED = 8


@dataclass(frozen=True, eq=False)
class Forecast:
    """The standard error of every count of a workload. It depends on no data."""

    strategy: str
    sums: int  # that are measured
    cells: int  # that the questions tell apart
    questions: tuple[str, ...]  # with their groups
    stderrs: npt.NDArray[np.float64]
    tried: Mapping[str, float]  # root mean squared errors of the strategies tried
    bound: float  # lower bound for every strategy with this kind of noise

    @property
    def rmse(self) -> float:
        """The root mean squared error of all counts."""
        return math.sqrt(float(np.mean(self.stderrs**2)))

    @property
    def total(self) -> float:
        """The expected sum of squared errors."""
        return float(np.sum(self.stderrs**2))

    def sentences(self) -> list[str]:
        """Return sentences for the owner before anything is published."""
        plan = (
            f"The {len(self.questions)} counts tell {self.cells} kinds of rows apart; "
            f"{self.sums} sums of them will be measured ({self.strategy})."
        )
        errors = (
            f"Standard error of a count: {_short(self.rmse)} (root mean square), at most "
            f"{_short(float(self.stderrs.max()))}; no choice of sums can have a root mean square "
            f"below {_short(self.bound)}."
        )
        others = [f"{_short(v)} by {n}" for n, v in self.tried.items() if n != self.strategy]
        return [plan, errors, *([f"It would be {', '.join(others)}."] if others else [])]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures for the manifest."""
        return {
            "strategy": self.strategy,
            "sums": self.sums,
            "kinds of rows": self.cells,
            "counts": len(self.questions),
            "expected error": self.rmse,
            "largest expected error": float(self.stderrs.max()),
            "lower bound": self.bound,
        }

    def __repr__(self) -> str:
        shown = [
            f"  ± {_short(stderr)}  {question}"
            for question, stderr in zip(self.questions, self.stderrs.tolist(), strict=True)
        ]
        more = [f"  ... and {len(shown) - _LISTED} more"] if len(shown) > _LISTED else []
        return "\n".join([*self.sentences(), *shown[:_LISTED], *more])


def _short(number: float) -> str:
    return f"{number:,.4g}"


class KeptQuestions:
    """SQL counts as a matrix over merged cells, made once for a schema."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self._texts = texts
        self._known: tuple[Schema, Questions] | None = None

    def of(self, schema: Schema) -> Questions:
        """Return the questions over the attributes of `schema`; an unsuitable one is refused."""
        if self._known is None or self._known[0] != schema:
            self._known = schema, self._merged(schema)
        return self._known[1]

    def _merged(self, schema: Schema) -> Questions:
        engine = Sandbox(schema)
        try:
            texts = enumerate(told(self._texts), 1)
            queries = [_parsed(number, text, schema) for number, text in texts]
            try:
                return merging(queries, schema, engine)
            except QueryError:
                for number, query in enumerate(queries, 1):  # to name the question in the error
                    _checked(number, query, engine)
                raise
        finally:
            engine.close()


def _parsed(number: int, text: str, schema: Schema) -> Query:
    try:
        query = parse(text, schema)
    except QueryError as error:
        raise _at(number, error) from None
    if query.aggregate != "count":
        raise ParameterError(
            f"Question {number} of the workload is no count: it must be SELECT COUNT(*). Sums and "
            "averages are answered from what is published for counts."
        )
    return query


def _checked(number: int, query: Query, engine: Sandbox) -> None:
    try:
        engine.check(query)
    except QueryError as error:
        raise _at(number, error) from None


def _at(number: int, error: QueryError) -> ParameterError:
    place = f", line {error.line}, column {error.column}" if error.line else ""
    return ParameterError(f"Question {number} of the workload{place}: {error.message}")
