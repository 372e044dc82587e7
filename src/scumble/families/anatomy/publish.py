"""Anatomy: publish rows and their sensitive values in two tables that are joined by groups of rows
only; and the algorithm that makes the groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from scumble.families.anatomy.design import Groups
from scumble.model import parameters
from scumble.model.compiled import kernel
from scumble.model.errors import ChangedError, PromiseError, SchemaError, setting
from scumble.model.evidence.evidence import Evidence
from scumble.model.privacy.accounting import Neighbours
from scumble.model.privacy.guarantee import Guarantee, exposure_at_most, percent_at_most
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.cell_keys import CellKeys
from scumble.model.schema.domains import IntegerRange
from scumble.model.schema.schema import Schema
from scumble.private.engines.engine import CHANGED, Codes, Made, Output
from scumble.private.engines.open import open_engine
from scumble.private.mechanism import MANY_LEFT_OUT, Layout, Publisher
from scumble.private.mechanism_metadata import Claim, ComparisonPreset
from scumble.private.sampling.bits import CHUNK, integers
from scumble.private.sampling.kernels import uniform_below
from scumble.private.sampling.source import Keystream
from scumble.private.sampling.without_replacement import shuffle
from scumble.private.tables.counter import Occupied, merged

if TYPE_CHECKING:
    from scumble.private.tables.rows import Rows


LIMITS = (
    "An attacker who knows values of others in a group can exclude them; one may be left.",
    "An attacker who learns what goes with other columns can guess better: see compare, audit.",
    "An attacker whose prior is not the frequencies of the table may give rare values more.",
    "A missing value is one of the l: an attacker who knows that a person answered excludes it.",
    "This is not differential privacy: the values of each group are published as they are.",
    "Everybody can see who is in the table: other columns are published as they are.",
    "The promise is for one row of one release: more rows or releases can be compared.",
)
COMBINED = (
    "The promise is for the combination of {}: one of them alone may be the same in all rows of a "
    "group, and is then told."
)
ABSENT = (
    "Rows with too frequent values were left out: a person who is known to be in the table, and is "
    "missing from the release, had one of the most frequent values. It is not protected."
)
_ROWS, _VALUES = "rows.parquet", "values.parquet"
LEFT_OUT = -1  # in place of the number of a group

Counts = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]


class Anatomy(Publisher):
    """Publishes every row without its sensitive values, but with the number of a group of at least
    l rows, and in a second table the values of each group, all different. All other columns are
    published as they are.

    `l` is a whole number of at least 2. No value may have more than one in l of the rows; with
    `suppress=True` the fewest rows that stand in the way, a random choice among those of the too
    frequent values, are left out. Several sensitive attributes count as one value, their
    combination. While rows are grouped, eight bytes for each are held in memory.

    Parameters:
        l: values in every group.
        suppress: leave out rows of values that are too frequent.

    Promises: l-diversity: in every group each combination of sensitive values occurs once, and
        there are at least l. For an attacker to whom every way to hand the values of a group to its
        rows is equally likely, no value of a person has more than 1/l. Proof: a group takes its
        first l values from different ones, and later ones only if it lacks them. How the groups are
        made up depends on the counts of the values alone, and which record of a value goes to which
        group is a uniform choice. So every assignment of values to rows leads to what is published
        with the same probability: the algorithm, and the order and numbers of the groups, reveal
        nothing more (no minimality attack). What other groups reveal about how values go with other
        columns may reveal more (deFinetti attack).
    Estimate: least squares over groups. Which record of a value goes to which group is a uniform
        choice, given the values of every group, also for records that no group took at first and
        for those that `suppress` keeps. So the number of rows of a group that satisfy a condition
        has the mean Σ β_v over its values v, with β_v the share of the records with value v that
        satisfy it; the regression estimates all β, and Σ N_v β_v over the values asked for, without
        bias and without any assumption on how values go with rows. The value is shrunk towards an
        even spread within groups as far as chance explains their difference (James-Stein). The
        interval is that of the unbiased estimate, with the variance of dealing without replacement,
        cut to what is certain: the least and the largest answer over all assignments of the values
        of each group to its rows. Where groups do not tell the values apart (a value in every
        group, as with `suppress`; more than 512 values; clauses that name both sides) it is what is
        certain alone. Rows that were left out are added above. Questions about only sensitive or
        only other columns are answered exactly.
    Reference: Xiao and Tao, "Anatomy: simple and effective privacy preservation", VLDB 2006; the
        baseline of "Small Domain Randomization".
    Differs: ties between values are broken by chance; rows and values are published in sorted
        order, since the order of the private table may tell who is who; suppression is not in the
        paper.
    """

    name = "anatomy"
    not_audited = "promises l-diversity: recomputed by `scumble audit RELEASE`"

    def __init__(self, *, l: int, suppress: bool = False) -> None:  # noqa: E741  (its name)
        self._least = parameters.whole("Anatomy", "l", l, least=2)
        self._suppress = parameters.flag("Anatomy", "suppress", suppress)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"l": self._least, "suppress": self._suppress}

    def check(self, schema: Schema) -> None:
        parameters.require_sensitive("Anatomy", schema)
        names = [attribute.name for attribute in schema.sensitive]
        values = schema.size(names)
        if values < self._least:
            raise SchemaError(
                f"Anatomy with l = {self._least} needs as many different values of "
                f"{', '.join(names)}; the schema has {values}. Ask for a smaller l."
            )
        if values >= 1 << 64:
            raise SchemaError(
                "The combinations of the sensitive attributes are 2^64 or more; "
                "declare fewer sensitive attributes, or coarser ones."
            )

    def guarantee(self, schema: Schema, rows: int | None = None) -> tuple[Guarantee, ...]:
        names = ", ".join(attribute.name for attribute in schema.sensitive)
        several = len(schema.sensitive) > 1
        what = f"combination of {names}" if several else f"value of {names}"
        sentence = (
            f"An attacker who knows all other columns of a person, and to whom all ways to hand "
            f"the {self._least} or more values of a group to its rows are equally likely, gives "
            f"no {what} more than {percent_at_most(Fraction(1, self._least))}."
        )
        return (
            Guarantee(
                statement="l-diversity",
                parameters={"l": self._least},
                scope="each single value",
                neighbourhood="one person's sensitive values",
                trust="central",
                proof=(
                    "each group has at least l values, each of them once (Xiao and Tao, VLDB "
                    "2006, property 3), and every way to hand them out is published with the same "
                    "probability"
                ),
                sentence=sentence,
                limits=(*((COMBINED.format(names),) if several else ()), *LIMITS),
            ),
        )

    def achieved(self, schema: Schema, evidence: Evidence) -> tuple[Guarantee, ...]:
        promises = self.guarantee(schema, evidence.rows)
        if isinstance(evidence, Groups) and not evidence.complete:
            return tuple(replace(promise, limits=(ABSENT, *promise.limits)) for promise in promises)
        return promises

    def report(self, schema: Schema, evidence: Evidence) -> dict[str, Any]:
        size = evidence.rows or 0
        return {"rows": size, "groups": size // self._least}

    def layout(self, schema: Schema) -> Layout:
        group, count = _numbers(schema)
        others = schema.role("quasi", "insensitive")
        return {_ROWS: (*others, group), _VALUES: (*schema.sensitive, group, count)}

    def perturb(self, rows: Rows, noise: Keystream, folder: Path) -> Groups:
        schema = rows.schema
        names = [attribute.name for attribute in schema.published]
        sensitive = [attribute.name for attribute in schema.sensitive]
        engine = open_engine(rows, noise)
        # A row may be dropped for any of its columns; then all have to be read.
        others = [name for name in names if name not in sensitive]
        units = engine.units(sensitive, others if rows.outside == "drop" else ())
        values = merged([Occupied(np.empty(0, np.uint64), np.empty(0, np.int64)), *units.values()])
        counts = allowed = values.counts
        if not eligible(counts, self._least):
            allowed = self._cap(rows, counts)
        lists, groups = group_records(noise, counts, allowed, self._least)
        group, count = _numbers(schema)
        evidence = Groups(
            file=_ROWS,
            values=_VALUES,
            columns=tuple(names),
            sensitive=tuple(sensitive),
            group=group,
            count=count,
            rows=int(allowed.sum()),
            complete=allowed is counts,
            left_out=None if allowed is counts else int(counts.sum() - allowed.sum()),
        )
        kernel = _Assignment(schema.cell_keys(sensitive), tuple(map(names.index, sensitive)))
        outputs = _outputs(folder, schema, evidence, groups)
        engine.map(names, kernel, outputs, _Shares(values, units, lists).of_unit)
        for output in outputs:
            engine.sort(output)
        return evidence

    def _cap(self, rows: Rows, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the number of records to keep of each value, with a remark for the owner about the
        loss. Raise PromiseError without `suppress`.
        """
        names = ", ".join(attribute.name for attribute in rows.schema.sensitive)
        if not self._suppress:
            raise PromiseError(
                f"A value of {names} is too frequent for l = {self._least}: it may have at most "
                f"one in {self._least} of the rows. Ask for a smaller l, or say "
                f"{setting('suppress', True)} to leave out as few rows with too frequent values as "
                "possible."
            )
        allowed = cap_counts(counts, self._least)
        lost, whole = int(counts.sum() - allowed.sum()), int(counts.sum())
        share = f"{100 * lost / whole:.0f} %" if 100 * lost >= whole else "less than 1 %"
        part = f"{lost} rows" if rows.reveal else f"{share} of the rows"
        loss = f"{part} were left out"
        large = f"{MANY_LEFT_OUT} " if 10 * lost >= whole else ""
        rows.remark(f"{large}Because a value of {names} is too frequent, {loss}.")
        return allowed

    @classmethod
    def needs(cls, study: ComparisonPreset) -> dict[str, Any]:
        return {"suppress": True}

    @classmethod
    def settings(cls, epsilon: float, study: ComparisonPreset) -> dict[str, Any]:
        allowed = exposure_at_most(epsilon, study.values)
        return {"l": min(max(2, ceil(1 / allowed)), study.values)}

    @classmethod
    def claims(cls, neighbours: Neighbours) -> Iterator[Claim]:
        yield from ()


def _numbers(schema: Schema) -> tuple[str, str]:
    """Return the names of the columns with the group and the count."""
    names = [attribute.name for attribute in schema]
    return parameters.free_name("group", names), parameters.free_name("count", names)


def _outputs(folder: Path, schema: Schema, evidence: Groups, groups: int) -> list[Output]:
    """Return both published tables. A value is in a group once, so that every row that is kept has
    one line in the second table.
    """
    group = Attribute(evidence.group, "insensitive", IntegerRange(0, max(groups, 1) - 1))
    count = Attribute(evidence.count, "insensitive", IntegerRange(1, 1))
    others = schema.role("quasi", "insensitive")
    return [
        Output(folder / evidence.file, (*others, group)),
        Output(folder / evidence.values, (*schema.sensitive, group, count)),
    ]


class _Share(NamedTuple):
    """What a unit of work gets: its values, ascending, where the groups of each begin, and the
    groups of its rows, value by value.
    """

    values: npt.NDArray[np.uint64]
    starts: Counts
    groups: Numbers


class _Shares:
    """Hands the groups of each value to the units of work, in the order of the rows."""

    def __init__(self, values: Occupied, units: Mapping[int, Occupied], groups: Numbers) -> None:
        self._groups = groups
        self._units = dict(units)
        self._begins: dict[int, Counts] = {}  # of each value of a unit, in `groups`
        free = np.cumsum(values.counts) - values.counts
        for unit, cells in self._units.items():
            places = np.searchsorted(values.keys, cells.keys)
            self._begins[unit] = free[places]
            free[places] += cells.counts

    def of_unit(self, unit: int) -> _Share | None:
        """Return what a unit gets; None if it had no rows when they were counted."""
        if unit not in self._units:
            return None
        cells, begins = self._units[unit], self._begins[unit]
        starts = np.cumsum(cells.counts) - cells.counts
        places = np.repeat(begins - starts, cells.counts) + np.arange(cells.counts.sum())
        return _Share(cells.keys, starts, self._groups[places])


@dataclass(frozen=True)
class _Assignment:
    """Gives every row of a unit the next group of its value, and splits it into both tables."""

    radix: CellKeys
    places: tuple[int, ...]  # of the sensitive columns

    def __call__(
        self, stream: Keystream, pieces: Iterator[list[Codes]], given: _Share | None
    ) -> Iterator[Made]:
        free = None if given is None else given.starts.copy()
        for columns in pieces:
            if given is None or free is None:
                raise ChangedError(CHANGED)
            keys = self.radix.pack([columns[axis] for axis in self.places])
            codes = np.searchsorted(given.values, keys)
            if not np.array_equal(given.values[np.minimum(codes, len(given.values) - 1)], keys):
                raise ChangedError(CHANGED)
            numbers = np.empty(len(codes), np.int32)
            if not deal(codes, free, given.groups, numbers):
                raise ChangedError(CHANGED)
            yield self._made(columns, numbers)

    def _made(self, columns: list[Codes], numbers: Numbers) -> Made:
        """Return the rows that are kept, for each table."""
        keep = numbers != LEFT_OUT
        if not keep.all():
            columns, numbers = [column[keep] for column in columns], numbers[keep]
        sensitive = [columns[axis] for axis in self.places]
        others = [column for axis, column in enumerate(columns) if axis not in self.places]
        once = np.zeros(len(numbers), np.uint8)
        return [[*others, numbers], [*sensitive, numbers, once]]


# The algorithm of Anatomy: records are put into groups in which every value occurs at most once.


def eligible(counts: Counts, least: int) -> bool:
    """Return whether no value has more than one in `least` of the records."""
    return int(counts.max(initial=0)) * least <= int(counts.sum())


def cap_counts(counts: Counts, least: int) -> Counts:
    """Return the largest number of records of each value that can be kept so that the rest is
    eligible.

    A cap t on all values is allowed if t·l is at most Σ min(count, t). This sum divided by t falls
    with t, so the allowed caps are those up to a largest one. That one keeps the most records: an
    eligible choice with at most t records of any value keeps at most Σ min(count, t).
    """
    low, high = 0, int(counts.max(initial=0))
    while low < high:
        middle = (low + high + 1) // 2
        if middle * least <= int(np.minimum(counts, middle).sum()):
            low = middle
        else:
            high = middle - 1
    return np.minimum(counts, low)


def group_records(
    source: Keystream, counts: Counts, allowed: Counts, least: int
) -> tuple[Numbers, int]:
    """Return the groups of the records, value by value (`LEFT_OUT` for those that are not kept),
    and the number of groups.

    While `least` values have records left, a group takes one record of each of the `least` most
    frequent ones; ties are broken at random. If `allowed` is eligible, this makes ⌊records / least⌋
    groups and leaves at most `least - 1` records, all of different values. Each of these goes to a
    random group that lacks its value (Xiao and Tao, VLDB 2006, properties 1 to 3). Which record of
    a value goes to which group is decided last, by a shuffle for each value, so that it depends on
    nothing else: the records of a value get its groups in any order, such as that of the table.
    """
    number = int(allowed.sum()) // least
    starts = np.concatenate([[0], np.cumsum(counts)])
    groups: Numbers = np.full(starts[-1], LEFT_OUT, np.int32)
    if number:
        order = np.argsort(-allowed, kind="stable")
        left = allowed[order]
        members = _form_groups(source, order, left, number, least)
        free = starts[:-1].copy()
        list_groups(members, free, groups)
        for value in order[left > 0]:
            groups[free[value]] = _lacking(source, groups[starts[value] : free[value]], number)
    shuffle(source, groups, starts)
    return groups, number


def _form_groups(
    source: Keystream, order: Counts, left: Counts, number: int, least: int
) -> npt.NDArray[Any]:
    """Return the values of each group. On return, `left` is the number of records that no group
    took, by value.
    """
    members = np.empty((number, least), np.min_scalar_type(len(order)))
    words = np.empty(min(CHUNK, number * least) + 2 * least, np.uint64)
    made = 0
    while made < number:
        source.fill(words)
        made = form(words, order, left, members, made)
    return members


def _lacking(source: Keystream, having: Numbers, number: int) -> int:
    """Return a random group that lacks a value; `having` are the groups that have it.

    There is one: of each value at most as many records are kept as there are groups, and the record
    at hand is one of them.
    """
    lacking = np.ones(number, bool)
    lacking[having] = False
    candidates = np.flatnonzero(lacking)
    return int(candidates[int(integers(source, len(candidates), 1)[0])])


# --- kernels --------------------------------------------------------------------------------------
#
# The inner loops of Anatomy, compiled by numba on first use. All are linear in the rows.

Array = Any


@kernel
def form(words: Array, order: Array, left: Array, members: Array, made: int) -> int:
    """Fill rows of `members`, from row `made` on, with the values that have the most records left,
    until all rows are filled or `words` are used up. Return the number of rows filled.

    `order` lists the values, most frequent first, and `left` their numbers of records. Of the
    values that tie for the last places a random choice is taken. It is swapped to the end of the
    tie, so that `left` stays sorted: a group costs its size and two binary searches. If the words
    end inside a group, the next call begins it again with new words.
    """
    size = members.shape[1]
    word = 0
    while made < len(members):
        start, end = _tie(left, size - 1)
        taken = size - start
        for pick in range(taken):
            last = end - 1 - pick
            offset, word = uniform_below(words, word, np.uint64(last - start + 1))
            if word < 0:
                return made
            other = start + np.int64(offset)
            order[last], order[other] = order[other], order[last]
        for column in range(size):
            value = column if column < start else end - size + column
            members[made, column] = order[value]
            left[value] -= 1
        made += 1
    return made


@kernel
def _tie(left: Array, index: int) -> tuple[int, int]:
    """Return the limits of the run of numbers equal to `left[index]`, in a descending sequence."""
    number = left[index]
    low, high = 0, index
    while low < high:
        middle = (low + high) // 2
        if left[middle] > number:
            low = middle + 1
        else:
            high = middle
    start = low
    low, high = index + 1, len(left)
    while low < high:
        middle = (low + high) // 2
        if left[middle] < number:
            high = middle
        else:
            low = middle + 1
    return start, low


@kernel
def list_groups(members: Array, free: Array, groups: Array) -> None:
    """Append the number of each group to the list of each of its values. `free` holds the next free
    position of each list.
    """
    for group in range(members.shape[0]):
        for column in range(members.shape[1]):
            value = members[group, column]
            groups[free[value]] = group
            free[value] += 1


@kernel
def deal(codes: Array, places: Array, groups: Array, out: Array) -> bool:
    """Assign to each row the next group in the list of its value. `places` holds the next position
    of each list in `groups`. Return False if a position lies beyond all lists.
    """
    for row in range(len(codes)):
        value = codes[row]
        if places[value] >= len(groups):
            return False
        out[row] = groups[places[value]]
        places[value] += 1
    return True
