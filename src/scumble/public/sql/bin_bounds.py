"""Versions of conditions and amounts over columns that are published in bins, by month or year.

A condition may hold for a part of a bin. Its *sure* version holds where it holds for the whole bin,
its *possible* version where it holds for a part, and its *share* is the share of the bin for which
it holds if values are spread evenly. An amount has a least, a mean and a largest version.

On one column, a condition is evaluated on pieces of bins (every day, or cut at the constants that
the column is compared with), so all versions are sharp. On several columns they are SQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from scumble.model.cache import Cache
from scumble.model.errors import QueryError
from scumble.model.query import Expression, quoted
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Dates
from scumble.public.sandbox import SMALLEST, Sandbox
from scumble.public.sql.bin_pieces import (
    Floats,
    Pieces,
    Truth,
    among,
    arrow,
    by_bin,
    cut_at,
    every_day,
)
from scumble.public.sql.bounding import BoundedTree, NotBoundedError
from scumble.public.sql.conditions import split

LOW, HIGH = "scumble low", "scumble high"
_PARTS = 32  # of a piece on which a comparison is not constant
_MOST_PIECES = 64  # combinations of pieces in the SQL of one expression
_MOST_CELLS = 10**6  # in which two versions are compared
_PLAIN = re.compile(r"\(?-?(?=[\d.]{1,15}\)?$)\d+(\.\d+)?\)?")  # float() reads it as DuckDB does
_CACHED = 1 << 24  # characters of SQL


@dataclass(frozen=True)
class Condition:
    """The versions of a condition. `cut`: they may differ; `never`: it is nowhere sure."""

    sure: Expression
    possible: Expression
    share: Expression
    cut: bool = True
    never: bool = False


@dataclass(frozen=True)
class Amount:
    """The versions of an amount, where the conditions on its own columns may hold.

    An amount whose sums were measured is exact, and `ends` has its limits.
    """

    least: Expression
    mean: Expression
    largest: Expression
    cut: bool = True
    ends: tuple[float, float] | None = None

    @classmethod
    def exact(cls, amount: Expression) -> Amount:
        return cls(amount, amount, amount, cut=False)


class Versions:
    """Makes the versions of conditions and amounts; `engine` evaluates them on pieces of bins."""

    def __init__(self, engine: Sandbox) -> None:
        self._engine, self._schema = engine, engine.schema

    def coarse(self, expression: Expression) -> tuple[str, ...]:
        """Return the columns of an expression that are published coarsely."""
        return tuple(name for name in expression.attributes if self._schema[name].coarse)

    # Conditions

    def condition(self, clause: Expression) -> Condition:
        """Return the versions of a condition; they are kept for the next question.

        Those that depend on domains alone are kept for all releases that a process reads.
        """
        if not self.coarse(clause):
            return Condition(clause, clause, _indicator(clause), cut=False)
        kept: Cache[Any, Condition] | None = self._engine.known
        domains = tuple(self._schema[name] for name in clause.attributes)
        if kept is None:
            kept = self._engine.derived.setdefault("cut bins", Cache(_CACHED))
            domains = ()
        key = ("cut bins", clause.sql, domains)
        found = kept.get(key)
        if found is None:
            found = self._condition(clause)
            size = sum(len(each.sql) for each in (found.sure, found.possible, found.share))
            kept.put(key, found, max(size, SMALLEST))
        return found

    def _condition(self, clause: Expression) -> Condition:
        if len(clause.attributes) == 1:
            return self._of_one(clause)
        junction = split(clause)
        if junction is None:
            return self._checked(clause, self._of_several(clause))
        parts = [self.condition(part) for part in self._joined(junction.parts, junction.of)]
        return self._checked(clause, _junction(junction.of, parts, clause))

    def _joined(self, parts: Sequence[Expression], of: str) -> list[Expression]:
        """Join the parts that name the same coarse column alone, which share its values."""
        together: dict[tuple[str, ...], list[Expression]] = {}
        for place, part in enumerate(parts):
            alone = len(part.attributes) == 1 and self.coarse(part)
            together.setdefault(part.attributes if alone else (str(place), ""), []).append(part)
        return [joined(some, "OR" if of == "any" else "AND") for some in together.values()]

    def _of_one(self, clause: Expression) -> Condition:
        """Return the versions of a condition on one coarse column."""
        [name] = clause.attributes
        attribute = self._schema[name]
        found = self._on_pieces(clause)
        if found is None:
            missing = self._at_missing(clause, attribute)
            bins = np.zeros(attribute.size - attribute.missing, bool)
            sure, possible = among(attribute, bins, missing), among(attribute, ~bins, missing)
            return Condition(sure, possible, _indicator(clause), never=not missing)
        pieces, surely, possibly, holds, missing = found
        outside = pieces.total((~surely).astype(np.float64)) > 0
        inside = pieces.total(possibly.astype(np.float64)) > 0
        share = np.clip(pieces.total(pieces.share * holds), 0.0, 1.0)
        share = np.where(~outside, 1.0, np.where(inside, share, 0.0))
        if (inside == ~outside).all():
            return Condition(clause, clause, _indicator(clause), cut=False)
        sure, possible = among(attribute, ~outside, missing), among(attribute, inside, missing)
        shares = Expression(by_bin(attribute, share.tolist(), float(missing)), (name,))
        return Condition(sure, possible, shares, never=bool(outside.all()) and not missing)

    def _on_pieces(self, clause: Expression) -> tuple[Pieces, Truth, Truth, Truth, bool] | None:
        """Return pieces, and where a condition holds surely, possibly and in their middle.

        The last result is whether it holds for a missing value. None if the condition has a form
        that cannot be bounded.
        """
        [name] = clause.attributes
        attribute = self._schema[name]
        if isinstance(attribute.domain, Dates):
            pieces = every_day(attribute)
            [truth] = self._engine.evaluate([clause], [name], _frame(pieces))
            days, missing = truth[: len(pieces.code)], bool(truth[len(pieces.code) :].any())
            return pieces, days, days, days, missing
        try:
            tree = BoundedTree(clause, [name])
            pieces = self._pieces([tree])[name]
            surely, possibly = tree.truth({name: (quoted(LOW), quoted(HIGH))})
        except NotBoundedError:
            return None
        if not tree.constant_between:
            pieces = pieces.parted(_PARTS)
        ends = [Expression(sql, (LOW, HIGH)) for sql in (surely, possibly)]
        found = self._engine.evaluate([*ends, clause], [name], _frame(pieces))
        one, other, holds = (each[: len(pieces.code)] for each in found)
        missing = bool(found[-1][len(pieces.code) :].any())
        return pieces, one, other, (holds & other) | one, missing

    def _at_missing(self, clause: Expression, attribute: Attribute) -> bool:
        """Return whether a condition on one column holds where its value is missing."""
        if not attribute.missing:
            return False
        frame = pa.table({attribute.name: pa.nulls(1, attribute.arrow_type)})
        [holds] = self._engine.evaluate([clause], [attribute.name], frame)
        return bool(holds[0])

    def _of_several(self, clause: Expression) -> Condition:
        """Return the versions of a condition on several columns that cannot be split."""
        names = clause.attributes
        try:
            tree = BoundedTree(clause, self.coarse(clause))
            choices = _choices(self._pieces([tree]))
            ends = [tree.truth(each.ends) for each in choices]
            holds = [(each.share, tree.text(tree.root, each.middles)) for each in choices]
        except NotBoundedError:
            nowhere, anywhere = Expression("FALSE", names), Expression("TRUE", names)
            return Condition(nowhere, anywhere, _indicator(clause), never=True)
        sure = " AND ".join(f"({one})" for one, _ in ends)
        possible = " OR ".join(f"({other})" for _, other in ends)
        share = " + ".join(
            f"({part} * CASE WHEN {sql} THEN 1e0 ELSE 0e0 END)" for part, sql in holds
        )
        surely, possibly = Expression(sure, names), Expression(possible, names)
        return Condition(surely, possibly, Expression(f"({share})", names))

    def _checked(self, clause: Expression, found: Condition) -> Condition:
        """Return the condition itself where its versions are the same in every cell."""
        if not found.cut or self._schema.size(clause.attributes) > _MOST_CELLS:
            return found
        sure, possible = self._engine.holds([found.sure, found.possible], clause.attributes)
        if (sure == possible).all():
            return Condition(clause, clause, _indicator(clause), cut=False)
        return Condition(found.sure, found.possible, found.share, never=not sure.any())

    # Amounts

    def amount(self, amount: Expression, own: Mapping[str, Expression]) -> Amount:
        """Return the versions of an amount; `own` are conditions on coarse columns, by column."""
        coarse = self.coarse(amount)
        if not coarse:
            return Amount.exact(amount)
        [first, *others] = amount.attributes
        if not others:
            return self._amount_of_one(amount, own.get(first, Expression("TRUE", (first,))))
        try:
            return self._amount_of_several(amount, own)
        except NotBoundedError:
            raise _refusal(amount, coarse) from None

    def _amount_of_one(self, amount: Expression, own: Expression) -> Amount:
        [name] = amount.attributes
        attribute = self._schema[name]
        try:
            pieces, low, middle, high, possibly, holds = self._amounts_on_pieces(amount, own)
        except NotBoundedError:
            raise _refusal(amount, [name]) from None
        weight = pieces.share * holds
        weights = pieces.total(weight)
        least, largest = np.full(pieces.bins, np.inf), np.full(pieces.bins, -np.inf)
        np.minimum.at(least, pieces.code[possibly], low[possibly])
        np.maximum.at(largest, pieces.code[possibly], high[possibly])
        inside = np.isfinite(least)
        cut = bool((least[inside] != largest[inside]).any())
        least, largest = np.where(inside, least, 0.0), np.where(inside, largest, 0.0)
        mean = (least + largest) / 2
        np.divide(pieces.total(weight * middle), weights, mean, where=weights > 0)
        missing = self._amount_at_missing(amount, attribute)
        low_sql, mean_sql, high_sql = (
            Expression(by_bin(attribute, values.tolist(), missing), (name,))
            for values in (least, mean, largest)
        )
        return Amount(low_sql, mean_sql, high_sql, cut)

    def _amounts_on_pieces(
        self, amount: Expression, own: Expression
    ) -> tuple[Pieces, Floats, Floats, Floats, Truth, Truth]:
        """Return pieces with their least, middle and largest amount, and where `own` holds."""
        [name] = amount.attributes
        attribute, ends = self._schema[name], {name: (quoted(LOW), quoted(HIGH))}
        if isinstance(attribute.domain, Dates):
            pieces = every_day(attribute)
            holds, number = self._amounts([own, amount], name, pieces, amount)
            return pieces, number, number, number, holds, holds
        trees = [BoundedTree(each, [name]) for each in (own, amount)]
        pieces = self._pieces(trees)[name]
        try:
            _, possible = trees[0].truth(ends)
        except NotBoundedError:
            possible = "TRUE"
        low, high = trees[1].number(ends)
        if not (trees[0].constant_between and _linear(amount)):
            pieces = pieces.parted(_PARTS)
        parts = [Expression(sql, (LOW, HIGH)) for sql in (possible, low, high)]
        possibly, least, most = self._amounts(parts, name, pieces, amount)
        holds, middle = self._amounts([own, amount], name, pieces, amount)
        return pieces, least, middle, most, possibly, holds & possibly

    def _amounts(
        self, parts: Sequence[Expression], name: str, pieces: Pieces, amount: Expression
    ) -> list[Any]:
        try:
            found = self._engine.evaluate(parts, [name], _frame(pieces))
            return [each[: len(pieces.code)] for each in found]
        except QueryError:
            raise QueryError(
                f"{amount.sql} is not a finite number for every value within the bins of "
                f"'{name}' that satisfy the condition. Exclude the others in WHERE."
            ) from None

    def _amount_at_missing(self, amount: Expression, attribute: Attribute) -> float:
        if not attribute.missing:
            return 0.0
        frame = pa.table({attribute.name: pa.nulls(1, attribute.arrow_type)})
        known = Expression(f"({amount.sql}) IS NOT NULL", amount.attributes)
        *_, number = self._engine.evaluate([known, amount], [attribute.name], frame)
        return float(number[0])

    def _amount_of_several(self, amount: Expression, own: Mapping[str, Expression]) -> Amount:
        """Return the versions of an amount over several columns as SQL."""
        coarse = self.coarse(amount)
        tree = BoundedTree(amount, coarse)
        conditions = {name: BoundedTree(own[name], [name]) for name in coarse if name in own}
        pieces = self._pieces([tree, *conditions.values()])
        for name, condition in conditions.items():
            pieces[name] = self._possible_pieces(condition, pieces[name])
        choices = _choices(pieces)
        ends = [tree.number(each.ends) for each in choices]
        mean = " + ".join(
            f"({each.share} * coalesce({tree.text(tree.root, each.middles)}, 0))"
            for each in choices
        )
        least, largest = (
            f"{word}({', '.join(some)})" if len(some) > 1 else some[0]
            for word, some in zip(("least", "greatest"), zip(*ends, strict=True), strict=True)
        )
        names = amount.attributes
        middle = Expression(f"({mean})", names)
        return Amount(Expression(least, names), middle, Expression(largest, names))

    def _possible_pieces(self, condition: BoundedTree, pieces: Pieces) -> Pieces:
        """Return the pieces where a condition on one column may hold; all of a bin if none."""
        name = pieces.attribute.name
        try:
            _, possible = condition.truth({name: (quoted(LOW), quoted(HIGH))})
        except NotBoundedError:
            return pieces
        [holds] = self._engine.evaluate([Expression(possible, (LOW, HIGH))], [name], _frame(pieces))
        holds = holds[: len(pieces.code)]
        some = pieces.total(holds.astype(np.float64)) > 0
        return pieces.chosen(holds | ~some[pieces.code])

    def _pieces(self, trees: Sequence[BoundedTree]) -> dict[str, Pieces]:
        """Return the bins of every coarse column of some trees, cut at the constants in them."""
        names = sorted({name for tree in trees for name in tree.coarse})
        constants = {name: dict[str, None]() for name in names}
        for tree in trees:
            for name, constant in tree.constants():
                constants[name][constant] = None
        return {name: self._cut(self._schema[name], list(constants[name])) for name in names}

    def _cut(self, attribute: Attribute, constants: Sequence[str]) -> Pieces:
        days = isinstance(attribute.domain, Dates)
        number = (
            "date_diff('day', DATE '1970-01-01', CAST({} AS DATE))"
            if days
            else "CAST({} AS DOUBLE)"
        )
        plain = [
            float(each.strip("()")) for each in constants if not days and _PLAIN.fullmatch(each)
        ]
        others = [each for each in constants if days or not _PLAIN.fullmatch(each)]
        found = (
            self._engine.evaluate(
                [Expression(f"coalesce({number.format(each)}, 0)", ()) for each in others], []
            )
            if others
            else []
        )
        return cut_at(attribute, [*plain, *(float(each[0]) for each in found)])


# Pieces of several columns as SQL.


@dataclass(frozen=True)
class _Choice:
    """One piece of every coarse column: its ends and middles as SQL, and its share of the bins."""

    ends: dict[str, tuple[str, str]]
    middles: dict[str, str]
    share: str


def _choices(pieces: Mapping[str, Pieces]) -> list[_Choice]:
    """Return all combinations of pieces of the columns."""
    each = [_pieces_as_sql(some) for some in pieces.values()]
    if np.prod([len(some) for some in each]) > _MOST_PIECES:
        raise NotBoundedError
    found = []
    for chosen in product(*each):
        parts = dict(zip(pieces, chosen, strict=True))
        found.append(
            _Choice(
                {name: (low, high) for name, (low, _, high, _) in parts.items()},
                {name: middle for name, (_, middle, _, _) in parts.items()},
                " * ".join(share for *_, share in parts.values()),
            )
        )
    return found


def _pieces_as_sql(pieces: Pieces) -> list[tuple[str, str, str, str]]:
    """Return low, middle, high and share of the first, second, ... piece of a bin.

    A bin with fewer pieces has its last one again, with a share of 0.
    """
    attribute = pieces.attribute
    counts = np.bincount(pieces.code, minlength=pieces.bins)
    starts = np.cumsum(counts) - counts
    totals = pieces.total(pieces.share)
    plain = 1 / counts
    found = []
    for number in range(int(counts.max())):
        at = starts + np.minimum(number, counts - 1)
        share = np.divide(pieces.share[at], totals, plain.copy(), where=totals > 0)
        share = np.where(number < counts, share, 0.0)
        numbers = (pieces.low[at], pieces.middle[at], pieces.high[at])
        low, middle, high = (by_bin(attribute, list(each)) for each in numbers)
        found.append((low, middle, high, by_bin(attribute, share.tolist(), float(number == 0))))
    return found


# Helpers.


def joined(parts: Sequence[Expression], word: str = "AND") -> Expression:
    """Return conditions joined by AND or OR."""
    if len(parts) == 1:
        return parts[0]
    names = sorted({name for part in parts for name in part.attributes})
    sql = f" {word} ".join(f"({part.sql})" for part in parts)
    return Expression(sql, tuple(names), parts[0].start)


def multiplied(factors: Sequence[Expression]) -> Expression:
    """Return the product of numbers."""
    if len(factors) == 1:
        return factors[0]
    names = sorted({name for factor in factors for name in factor.attributes})
    sql = " * ".join(f"({factor.sql})" for factor in factors)
    return Expression(sql, tuple(names), factors=tuple(factors))


def _indicator(clause: Expression) -> Expression:
    return Expression(f"CASE WHEN {clause.sql} THEN 1e0 ELSE 0e0 END", clause.attributes)


def _junction(of: str, parts: Sequence[Condition], clause: Expression) -> Condition:
    """Return the versions of a disjunction ("any") or conjunction of parts."""
    word = "OR" if of == "any" else "AND"
    sure = joined([part.sure for part in parts], word)
    possible = joined([part.possible for part in parts], word)
    shares = [f"({part.share.sql})" for part in parts]
    if of == "any":
        sql = "1 - " + " * ".join(f"(1 - {share})" for share in shares)
    else:
        sql = " * ".join(shares)
    share = Expression(f"({sql})", clause.attributes)
    never = (all if of == "any" else any)(part.never for part in parts)
    return Condition(sure, possible, share, any(part.cut for part in parts), never)


def _frame(pieces: Pieces) -> pa.Table:
    """Return a row for every piece: its ends, and its middle as the value of the column.

    If a value may be missing, the last row is that of a missing value.
    """
    columns = {pieces.attribute.name: pieces.middle, LOW: pieces.low, HIGH: pieces.high}
    frame = pa.table({name: arrow(values) for name, values in columns.items()})
    if not pieces.attribute.missing:
        return frame
    nothing = {field.name: pa.nulls(1, field.type) for field in frame.schema}
    return pa.concat_tables([frame, pa.table(nothing)])


def _linear(amount: Expression) -> bool:
    """Return whether an amount is just one column, whose mean in a piece is that of its ends."""
    return amount.sql == quoted(amount.attributes[0])


def _refusal(amount: Expression, names: Sequence[str]) -> QueryError:
    return QueryError(
        f"{amount.sql} cannot be bounded within the bins of {', '.join(names)}. Of a column in "
        "bins, by month or by year, amounts may be made by + - * /, floor, round, casts, and CASE "
        "with comparisons of that column with constants."
    )
