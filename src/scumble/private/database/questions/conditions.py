"""Conditions to disjoint boxes: by comparisons with literals, or by truth values of the engine."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import permutations, product
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from scumble.model.errors import QueryError
from scumble.model.query import ComparedLiteral, Comparison, Expression, Operator
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Category, Dates, Domain, IntegerRange
from scumble.private.database.space import Boxes, Space
from scumble.public.sandbox import Sandbox
from scumble.public.sql.conditions import comparison_of
from scumble.public.sql.normal_form import Branch, Tree, atoms, normal_form

_GRID = 2_000_000  # most cells of a grid over several attributes
_LONG = 2000  # characters of an IN list that is not given to the engine
_ANSWERS = 1 << 26  # truth values that the engine computes at a time


def boxes_of(
    clauses: Iterable[Expression], space: Space, engine: Sandbox, most: int = 10_000
) -> Boxes:
    """Return disjoint boxes of the points that satisfy every clause; none if no point does.

    An atom, which names one attribute, is the set of codes for which the engine finds it true.
    Clauses that share attributes are combined on a grid of the intervals in which no atom changes.
    Groups of clauses that share none are multiplied.
    """
    trees = [normal_form(clause) for clause in clauses]
    values = _Values(space, engine, trees)
    factors: dict[tuple[int, ...], Boxes] = {}
    for group in _connected(trees):
        axes = values.axes(group)
        if axes:
            factors[axes] = values.boxes(group, axes)
        elif not all(values.constant(tree) for tree in group):
            return np.empty((0, len(space), 2), np.int64)
    count = prod(len(boxes) for boxes in factors.values())
    if count > most:
        raise QueryError(
            f"The condition takes {count} separate boxes, and at most {most} are possible. Ask for "
            "ranges that are not interrupted, or for less at a time."
        )
    return _product(space, factors, count)


@dataclass(frozen=True)
class _Cut:
    """An axis in intervals within which no atom changes, and the truth of the atoms on each."""

    starts: Sequence[int]  # of the intervals, and the size of the axis
    truths: Mapping[Expression, Truth]


class _Values:
    """The atoms of conditions, each evaluated once over the codes of its attribute."""

    def __init__(self, space: Space, engine: Sandbox, trees: Iterable[Tree]) -> None:
        self.space = space
        by_name: dict[tuple[str, ...], dict[Expression, None]] = {}
        for tree in trees:
            for atom in atoms(tree):
                by_name.setdefault(atom.attributes, {})[atom] = None
        for (name,) in by_name.keys() - {()}:
            if name not in space.names:
                raise QueryError(
                    f"'{name}' is not an attribute of this database. It has "
                    f"{', '.join(space.names)}."
                )
        self._cuts: dict[int, _Cut] = {}
        self._constants: dict[Expression, bool] = {}
        for names, parts in by_name.items():
            if names:
                axis = space.names.index(names[0])
                self._cuts[axis] = _cut(list(parts), space.attributes[axis], engine)
            else:
                found = engine.holds(list(parts), [])
                self._constants |= {
                    part: bool(value[0]) for part, value in zip(parts, found, strict=True)
                }

    def axes(self, group: Iterable[Tree]) -> tuple[int, ...]:
        """The axes that trees restrict, in order."""
        named = {name for tree in group for atom in atoms(tree) for name in atom.attributes}
        return tuple(sorted(self.space.names.index(name) for name in named))

    def constant(self, tree: Tree) -> bool:
        """Whether a tree without attributes is true."""
        return bool(self._truth(tree, ()))

    def boxes(self, group: Iterable[Tree], axes: tuple[int, ...]) -> Boxes:
        """The boxes of a conjunction of trees, over their axes."""
        cuts = [self._cuts[axis] for axis in axes]
        shape = [len(cut.starts) - 1 for cut in cuts]
        if prod(shape) > _GRID:
            names = ", ".join(self.space.names[axis] for axis in axes)
            raise QueryError(
                f"The condition cuts {names} into {prod(shape)} cells, and at most {_GRID} are "
                "possible. Ask for less at a time."
            )
        cells = np.ones(shape, bool)
        for tree in group:
            cells &= self._truth(tree, axes)
        boxes = decompose(cells)
        for place, cut in enumerate(cuts):
            starts = np.array(cut.starts, np.int64)
            boxes[:, place, 0] = starts[boxes[:, place, 0]]
            boxes[:, place, 1] = starts[boxes[:, place, 1] + 1] - 1
        return boxes

    def _truth(self, tree: Tree, axes: tuple[int, ...]) -> Truth:
        """Where a tree is true, in a shape that broadcasts over the grid of the axes."""
        if isinstance(tree, Branch):
            parts = [self._truth(part, axes) for part in tree.parts]
            joint = np.logical_or if tree.of == "any" else np.logical_and
            found = parts[0]
            for part in parts[1:]:
                found = joint(found, part)
            return found
        if not tree.attributes:
            return np.full((1,) * len(axes), self._constants[tree])
        axis = self.space.names.index(tree.attributes[0])
        shape = [1] * len(axes)
        shape[axes.index(axis)] = -1
        return self._cuts[axis].truths[tree].reshape(shape)


def _cut(parts: Sequence[Expression], attribute: Attribute, engine: Sandbox) -> _Cut:
    """Evaluate atoms over all codes, and cut the axis where one of them changes."""
    changes: dict[Expression, tuple[np.ndarray, bool]] = {}
    for part, truth in _truths(parts, attribute, engine):
        changes[part] = np.flatnonzero(truth[1:] != truth[:-1]) + 1, bool(truth[0])
    places = [where for where, _ in changes.values()]
    starts = np.unique(np.concatenate([*places, [0, attribute.size]])).astype(np.int64)
    truths = {
        part: (np.searchsorted(where, starts[:-1], side="right") % 2 == 1) != begins
        for part, (where, begins) in changes.items()
    }
    return _Cut(starts.tolist(), truths)


def _truths(
    atoms: Sequence[Expression], attribute: Attribute, engine: Sandbox
) -> Iterator[tuple[Expression, Truth]]:
    """Each atom over all codes, from the engine. Long lists, which take it seconds, are read here
    if they are plain comparisons.
    """
    rest: list[Expression] = []
    for atom in atoms:
        truth = _truth_of_list(atom, attribute) if len(atom.sql) > _LONG else None
        if truth is None:
            rest.append(atom)
        else:
            yield atom, truth
    step = max(1, _ANSWERS // attribute.size)
    for first in range(0, len(rest), step):
        some = rest[first : first + step]
        yield from zip(some, engine.holds(some, [attribute.name]), strict=True)


def _truth_of_list(atom: Expression, attribute: Attribute) -> Truth | None:
    """Where `column [NOT] IN (literals)` holds; None for anything else."""
    comparison = comparison_of(atom)
    if comparison is None or comparison.operator != "IN" or attribute.size > _ANSWERS:
        return None
    if comparison.column != attribute.name:
        return None
    intervals = satisfying_codes(comparison, attribute)
    if intervals is None:
        return None
    truth = np.zeros(attribute.size, bool)
    for low, high in intervals:
        truth[low : high + 1] = True
    return truth


def _connected(trees: Sequence[Tree]) -> list[list[Tree]]:
    """Return the trees in groups, so that no two groups share an attribute."""
    groups: list[tuple[set[str], list[Tree]]] = []
    for tree in trees:
        names = {name for atom in atoms(tree) for name in atom.attributes}
        joined = [group for group in groups if group[0] & names]
        groups = [group for group in groups if not group[0] & names]
        named = names.union(*(group[0] for group in joined))
        groups.append((named, [*(each for group in joined for each in group[1]), tree]))
    return [members for _, members in groups]


def _product(space: Space, factors: Mapping[tuple[int, ...], Boxes], count: int) -> Boxes:
    """All combinations of the boxes of the factors. Attributes in no factor are not restricted."""
    boxes = np.broadcast_to(space.whole, (count, len(space), 2)).copy()
    repeats = count
    for axes, part in factors.items():
        if not count:
            break
        repeats //= len(part)
        places = np.arange(count) // repeats % len(part)
        boxes[:, list(axes)] = part[places]
    return boxes


# --- plain comparisons ----------------------------------------------------------------------------
#
# Nearly all questions consist of columns that are compared with literals. The engine would take ten
# times as long for them as everything else that an answer needs.

_DIGITS = 15  # of a number that a float holds exactly, or is nearest to
_LONGEST_INTEGER = 18  # digits
_DAY = len("2020-02-29")

Interval = tuple[int, int]


def plain_boxes(comparisons: Iterable[Comparison | None], space: Space, most: int) -> Boxes | None:
    """Return the disjoint boxes of a conjunction of comparisons; none if no point satisfies it.

    The result is None if a clause is no comparison (None), if only the engine knows what a literal
    means, or if there are more boxes than `most`.
    """
    axes: dict[int, list[Interval]] = {}
    for comparison in comparisons:
        if comparison is None or comparison.column not in space.names:
            return None
        axis = space.names.index(comparison.column)
        intervals = satisfying_codes(comparison, space.attributes[axis])
        if intervals is None:
            return None
        axes[axis] = _common(axes[axis], intervals) if axis in axes else intervals
    if prod(map(len, axes.values())) > most:
        return None
    boxes = []
    for chosen in product(*axes.values()):
        box: list[Sequence[int]] = space.whole.tolist()
        for axis, interval in zip(axes, chosen, strict=True):
            box[axis] = interval
        boxes.append(box)
    return np.array(boxes, np.int64).reshape(-1, len(space), 2)


def satisfying_codes(comparison: Comparison, attribute: Attribute) -> list[Interval] | None:
    """Return the intervals of codes that satisfy a comparison; None if only the engine can tell.

    A missing value, whose code is the last, satisfies no comparison but IS NULL, negated or not.
    """
    last = attribute.size - 1 - attribute.missing
    if comparison.operator == "IS":
        missing = [(last + 1, last + 1)] * attribute.missing
        return [(0, last)] if comparison.negated else missing
    domain = cast("Domain", attribute.domain)  # it has a size, so it is no list
    intervals = _equal_or_ordered(comparison, domain)
    if intervals is None:
        return None
    merged = _merged((max(low, 0), min(high, last)) for low, high in intervals)
    negated = comparison.negated or comparison.operator == "<>"
    return _complement(merged, last) if negated else merged


def _equal_or_ordered(comparison: Comparison, domain: Domain | None) -> list[Interval] | None:
    """The codes of values that are equal to the literals, or in order with them.

    NOT and <> are not applied. Intervals may be empty, and may overlap.
    """
    literals, operator = comparison.literals, comparison.operator
    equal = operator in _EQUALITIES
    if isinstance(domain, Category) and isinstance(domain.values[0], str):
        return _codes_of_words(literals, domain) if equal else None
    values = [_value(literal, domain) for literal in literals]
    if domain is None or None in values:
        return None
    known = _ordered(domain)
    if operator == "BETWEEN":
        low, high = values
        intervals = [(bisect_left(known, low), bisect_right(known, high) - 1)]
    else:
        intervals = [_interval(known, "=" if equal else operator, value) for value in values]
    if not isinstance(domain, Category):
        return intervals
    codes = _codes(domain)  # whole numbers that may be listed in any order
    return [
        (codes[value],) * 2 for low, high in intervals for value in known[max(low, 0) : high + 1]
    ]


_EQUALITIES = ("=", "<>", "IN")


def _interval(known: Sequence[Any], operator: Operator, value: Any) -> Interval:
    """The places of ordered values that compare with one value as the operator says."""
    below, after = bisect_left(known, value), bisect_right(known, value)
    if operator == "=":
        return below, after - 1
    if operator in ("<", "<="):
        return 0, (below if operator == "<" else after) - 1
    return (after if operator == ">" else below), len(known) - 1


def _codes_of_words(
    literals: Sequence[ComparedLiteral], category: Category
) -> list[Interval] | None:
    """The codes of texts, none for a text outside the domain; None if a literal is no text."""
    if any(literal.kind != "text" or literal.dated for literal in literals):
        return None
    known = _codes(category)
    return [(known[literal.text],) * 2 for literal in literals if literal.text in known]


@lru_cache(maxsize=256)
def _codes(category: Category) -> dict[object, int]:
    return {value: code for code, value in enumerate(category.values)}


@lru_cache(maxsize=256)
def _ordered(domain: Domain) -> Sequence[Any]:
    """The published values in their order, which is that of the codes but for categories."""
    if isinstance(domain, IntegerRange):
        return range(domain.low, domain.high + 1)
    return sorted(domain.labels().to_pylist())


def _value(literal: ComparedLiteral, domain: Domain | None) -> int | float | date | None:
    """A literal as a value that can be compared with those of a domain; None if only the engine
    knows how it compares.
    """
    text, sign = literal.text, -1 if literal.negative else 1
    if isinstance(domain, IntegerRange | Category):
        plain = _is_integer(literal) and len(text) <= _LONGEST_INTEGER
        return sign * int(text) if plain else None
    if isinstance(domain, Bins):
        return sign * float(text) if _is_decimal(literal) else None
    plain = literal.kind == "text" and len(text) == _DAY and text.isascii()
    if not isinstance(domain, Dates) or not plain:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _is_integer(literal: ComparedLiteral) -> bool:
    return literal.kind == "number" and literal.text.isascii() and literal.text.isdigit()


def _is_decimal(literal: ComparedLiteral) -> bool:
    """Whether a number is digits, or digits, a point and digits, and a float holds it."""
    whole, point, fraction = literal.text.partition(".")
    digits = whole + fraction
    complete = bool(whole) and bool(fraction) == bool(point)
    plain = literal.kind == "number" and digits.isascii() and digits.isdigit()
    return plain and complete and len(digits) <= _DIGITS


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Intervals in order, those that overlap or touch as one, without empty ones."""
    found: list[Interval] = []
    for low, high in sorted(each for each in intervals if each[0] <= each[1]):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def _complement(intervals: Sequence[Interval], last: int) -> list[Interval]:
    """The intervals between others, from 0 to `last`."""
    starts = [0, *(high + 1 for _, high in intervals)]
    stops = [*(low - 1 for low, _ in intervals), last]
    return [(low, high) for low, high in zip(starts, stops, strict=True) if low <= high]


def _common(ones: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """The intersection of two lists of intervals, all in order."""
    found: list[Interval] = []
    one = other = 0
    while one < len(ones) and other < len(others):
        (low, high), (start, stop) = ones[one], others[other]
        if max(low, start) <= min(high, stop):
            found.append((max(low, start), min(high, stop)))
        one, other = (one + 1, other) if high < stop else (one, other + 1)
    return found


# --- boxes of a set of cells ----------------------------------------------------------------------

Truth = NDArray[np.bool_]

_ORDERS = 6  # of the axes that are tried


def decompose(cells: Truth) -> Boxes:
    """Return disjoint boxes whose union is the set of true cells; one box if the set is a box.

    Equal neighbouring slices stay together, axis after axis; boxes that touch are then joined. The
    order of axes with the fewest boxes is taken. For one axis the number of boxes is minimal; for
    several axes, finding the minimum is hard.
    """
    cells = np.asarray(cells, bool)
    best: Boxes | None = None
    for order in list(permutations(range(cells.ndim)))[:: _step(cells.ndim)]:
        found = _join(_slabs(cells.transpose(order)))
        boxes = np.empty_like(found)
        boxes[:, list(order)] = found
        if best is None or len(boxes) < len(best):
            best = boxes
        if len(best) <= 1:
            break
    assert best is not None  # noqa: S101  (there is always one order)
    return best[np.lexsort(best[:, ::-1, 0].T)] if len(best) else best


def runs(truth: Truth) -> Boxes:
    """Return the maximal intervals of true values of a vector, as an array (n, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], truth, [False]]).astype(np.int8)))
    found: Boxes = edges.reshape(-1, 2) - np.array([0, 1])
    return found


def _step(axes: int) -> int:
    """The step through all orders of axes, so that about `_ORDERS` of them are tried."""
    count = 1
    for axis in range(2, axes + 1):
        count *= axis
    return max(1, count // _ORDERS)


def _slabs(cells: Truth) -> Boxes:
    """Boxes of the runs of equal slices along the first axis; each slice is cut recursively."""
    if cells.ndim == 1:
        return runs(cells)[:, None, :]
    changes = np.flatnonzero((cells[1:] != cells[:-1]).any(axis=tuple(range(1, cells.ndim)))) + 1
    parts = [np.empty((0, cells.ndim, 2), np.int64)]
    for first, after in zip([0, *changes], [*changes, len(cells)], strict=True):
        inner = _slabs(cells[first])
        slab = np.empty((len(inner), cells.ndim, 2), np.int64)
        slab[:, 0] = first, after - 1
        slab[:, 1:] = inner
        parts.append(slab)
    return np.concatenate(parts)


def _join(boxes: Boxes) -> Boxes:
    """Join boxes that differ along one axis only and touch there, until there are none."""
    before = len(boxes) + 1
    while 1 < len(boxes) < before:
        before = len(boxes)
        for axis in range(boxes.shape[1]):
            boxes = _join_along(boxes, axis)
    return boxes


def _join_along(boxes: Boxes, axis: int) -> Boxes:
    others = np.delete(boxes, axis, axis=1).reshape(len(boxes), 2 * (boxes.shape[1] - 1))
    order = np.lexsort((boxes[:, axis, 0], *others.T))
    boxes, others = boxes[order], others[order]
    alike = (others[1:] == others[:-1]).all(axis=1)
    follows = alike & (boxes[1:, axis, 0] == boxes[:-1, axis, 1] + 1)
    firsts = np.flatnonzero(np.concatenate([[True], ~follows]))
    joined = boxes[firsts]
    joined[:, axis, 1] = boxes[np.append(firsts[1:], len(boxes)) - 1, axis, 1]
    return joined
