"""Conditions to disjoint boxes.

Conditions to boxes: the codes for which each part of a condition holds, put together.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import permutations
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scumble.model.errors import QueryError
from scumble.model.query import Expression
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Bins, Category, Dates, Domain, IntegerRange
from scumble.private.database.space import Boxes, Space
from scumble.public.sandbox import Sandbox
from scumble.public.sql.normal_form import Branch, Members, Tree, atoms, members, normal_form

_GRID = 2_000_000  # cells in which a formula over several attributes is worked out
_LONG = 2000  # characters of an IN list that the engine is spared
_ANSWERS = 1 << 26  # truth values asked of the engine at a time


def boxes_of(
    clauses: Iterable[Expression], space: Space, engine: Sandbox, most: int = 10_000
) -> Boxes:
    """Disjoint boxes of the points that satisfy every clause: none if no point does.

    A part that names one attribute is the set of its codes for which the engine finds it true,
    whatever it is made of. Clauses that share attributes are put together on a grid of the
    intervals between which nothing changes; those that share none multiply.
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
    """An axis in intervals between which no part changes, and the parts on each of them."""

    starts: Sequence[int]  # of the intervals, and the size of the axis
    truths: Mapping[Expression, Truth]


class _Values:
    """The parts of conditions, evaluated once each over the codes of their attribute."""

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
        """The axes that some trees restrict."""
        named = {name for tree in group for atom in atoms(tree) for name in atom.attributes}
        return tuple(sorted(self.space.names.index(name) for name in named))

    def constant(self, tree: Tree) -> bool:
        """Whether a tree without attributes is true."""
        return bool(self._truth(tree, ()))

    def boxes(self, group: Iterable[Tree], axes: tuple[int, ...]) -> Boxes:
        """The boxes of a conjunction over its axes."""
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
        """Where a tree is true, in a shape that broadcasts over the grid of these axes."""
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
    """Find out where each part holds, and keep only where something changes."""
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
    parts: Sequence[Expression], attribute: Attribute, engine: Sandbox
) -> Iterator[tuple[Expression, Truth]]:
    """Each part over all codes; the engine is asked, but for long lists, which cost it seconds."""
    rest: list[Expression] = []
    for part in parts:
        listed = members(part) if len(part.sql) > _LONG else None
        truth = None if listed is None else _among(listed, attribute)
        if truth is None:
            rest.append(part)
        else:
            yield part, truth
    step = max(1, _ANSWERS // attribute.size)
    for first in range(0, len(rest), step):
        some = rest[first : first + step]
        yield from zip(some, engine.holds(some, [attribute.name]), strict=True)


def _among(listed: Members, attribute: Attribute) -> Truth | None:
    """Where a value is in a list of the same type; None leaves other types to the engine."""
    if attribute.kind not in ("integer", "category") or attribute.size > _ANSWERS:
        return None
    labels = attribute.labels()
    if isinstance(listed.values[0], str) != (labels.type == pa.string()):
        return None
    found = pc.is_in(labels, pa.array(listed.values, labels.type))
    if listed.negated:
        found = pc.and_(pc.invert(found), pc.is_valid(labels))
    truth: Truth = found.to_numpy(zero_copy_only=False)
    return truth


def _connected(trees: Sequence[Tree]) -> list[list[Tree]]:
    """The trees in groups that share no attributes."""
    groups: list[tuple[set[str], list[Tree]]] = []
    for tree in trees:
        names = {name for atom in atoms(tree) for name in atom.attributes}
        joined = [group for group in groups if group[0] & names]
        groups = [group for group in groups if not group[0] & names]
        named = names.union(*(group[0] for group in joined))
        groups.append((named, [*(each for group in joined for each in group[1]), tree]))
    return [members for _, members in groups]


def _product(space: Space, factors: Mapping[tuple[int, ...], Boxes], count: int) -> Boxes:
    """All combinations of the boxes of each factor; attributes in no factor are whole."""
    boxes = np.broadcast_to(space.whole, (count, len(space), 2)).copy()
    repeats = count
    for axes, part in factors.items():
        if not count:
            break
        repeats //= len(part)
        places = np.arange(count) // repeats % len(part)
        boxes[:, list(axes)] = part[places]
    return boxes


# Plain comparisons: the boxes of columns that are compared with literals, found by no engine.
#
# They are what nearly all questions consist of, and an engine takes ten times as long for them as
# everything else that an answer needs.

_LITERAL = r"(?:(?:- )?[0-9]+(?:\.[0-9]+)?|(?:DATE )?'[^']*')"
_CLAUSE = re.compile(
    rf'"(?P<name>[^"]+)" (?:(?P<operator>=|<>|!=|<=?|>=?) (?P<value>{_LITERAL})'
    rf"|(?P<is>IS )?(?P<not>NOT )?(?:BETWEEN (?P<low>{_LITERAL}) AND (?P<high>{_LITERAL})"
    rf"|IN \((?P<list>{_LITERAL}(?:, {_LITERAL})*+)\)|(?P<null>NULL)))"
)
_LITERALS = re.compile(_LITERAL)
_WHOLE = re.compile(r"(?:- )?[0-9]{1,18}")
_DAY = re.compile(r"(?:DATE )?'([0-9]{4}-[0-9]{2}-[0-9]{2})'")
_EQUAL = {"<>": "=", "!=": "="}  # what is negated
_DIGITS = 15  # of a number that a float holds exactly, or nearest to

Interval = tuple[int, int]


def is_plain(clause: Expression) -> bool:
    """Whether a clause is spelled as a plain comparison of one column."""
    return _CLAUSE.fullmatch(clause.sql) is not None


def compared(clauses: Iterable[Expression], space: Space, most: int) -> Boxes | None:
    """The disjoint boxes of a conjunction, none if no point satisfies it; None if a clause is
    anything else than a plain comparison, or there are more boxes than `most`: that is left to the
    engine.
    """
    axes: dict[int, list[Interval]] = {}
    for clause in clauses:
        found = _CLAUSE.fullmatch(clause.sql)
        if found is None or found["name"] not in space.names:
            return None
        axis = space.names.index(found["name"])
        intervals = _intervals(found, space.attributes[axis], space.sizes[axis])
        if intervals is None:
            return None
        axes[axis] = _common(axes[axis], intervals) if axis in axes else intervals
    boxes = space.whole[np.newaxis].copy()
    for axis, intervals in axes.items():
        if len(boxes) * len(intervals) > most:
            return None
        boxes = np.repeat(boxes, len(intervals), axis=0)
        if len(boxes):
            boxes[:, axis] = intervals * (len(boxes) // len(intervals))
    return boxes


def _intervals(found: re.Match[str], attribute: Attribute, size: int) -> list[Interval] | None:
    """The codes that satisfy a comparison. A missing value, whose code is the last, satisfies
    none, negated or not.
    """
    last = size - 1 - attribute.missing
    if (found["is"] is None) != (found["null"] is None):
        return None
    if found["null"]:
        missing = [(last + 1, last + 1)] * attribute.missing
        return [(0, last)] if found["not"] else missing
    spans = _spans(found, attribute.domain)
    if spans is None:
        return None
    merged = _merged((max(low, 0), min(high, last)) for low, high in spans)
    return _rest(merged, last) if found["not"] or found["operator"] in _EQUAL else merged


def _spans(found: re.Match[str], domain: Domain | None) -> list[Interval] | None:
    """The codes of values that are equal to, or in order with, the literals; maybe empty ones."""
    if found["value"]:
        texts, operator = [found["value"]], _EQUAL.get(found["operator"], found["operator"])
    elif found["low"]:
        texts, operator = [found["low"], found["high"]], "BETWEEN"
    else:
        texts, operator = _LITERALS.findall(found["list"]), "="
    if isinstance(domain, Category) and isinstance(domain.values[0], str):
        return _places(texts, domain) if operator == "=" else None
    values = [_read(text, domain) for text in texts]
    if domain is None or None in values:
        return None
    known = _ordered(domain)
    if operator == "BETWEEN":
        low, high = values
        spans = [(bisect_left(known, low), bisect_right(known, high) - 1)]
    else:
        spans = [_span(known, operator, value) for value in values]
    if not isinstance(domain, Category):
        return spans
    codes = _codes(domain)  # whole numbers that may be listed in any order
    return [(codes[value],) * 2 for low, high in spans for value in known[max(low, 0) : high + 1]]


def _span(known: Sequence[Any], operator: str, value: Any) -> Interval:
    below, after = bisect_left(known, value), bisect_right(known, value)
    if operator == "=":
        return below, after - 1
    if operator[0] == "<":
        return 0, (below if operator == "<" else after) - 1
    return (after if operator == ">" else below), len(known) - 1


def _places(texts: Sequence[str], category: Category) -> list[Interval] | None:
    """The codes of words, none for a word that is not in the list; None for anything but words."""
    if any(text[0] != "'" for text in texts):
        return None
    known = _codes(category)
    return [(known[text[1:-1]],) * 2 for text in texts if text[1:-1] in known]


@lru_cache(maxsize=256)
def _codes(category: Category) -> dict[object, int]:
    return {value: code for code, value in enumerate(category.values)}


@lru_cache(maxsize=256)
def _ordered(domain: Domain) -> Sequence[Any]:
    """The published values in their order, which is that of the codes but for categories."""
    if isinstance(domain, IntegerRange):
        return range(domain.low, domain.high + 1)
    return sorted(domain.labels().to_pylist())


def _read(text: str, domain: Domain | None) -> int | float | date | None:
    """A literal as a value that can be compared with those of a domain; None if the engine knows
    better what is meant.
    """
    if isinstance(domain, IntegerRange | Category):
        return int(text.replace(" ", "")) if _WHOLE.fullmatch(text) else None
    if isinstance(domain, Bins):
        plain = "'" not in text and sum(map(str.isdigit, text)) <= _DIGITS
        return float(text.replace(" ", "")) if plain else None
    day = _DAY.fullmatch(text) if isinstance(domain, Dates) else None
    try:
        return None if day is None else date.fromisoformat(day[1])
    except ValueError:
        return None


def _merged(spans: Iterable[Interval]) -> list[Interval]:
    """Intervals in order, those that overlap or touch as one, without empty ones."""
    found: list[Interval] = []
    for low, high in sorted(span for span in spans if span[0] <= span[1]):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def _rest(intervals: Sequence[Interval], last: int) -> list[Interval]:
    """What lies between intervals, up to a last code."""
    starts = [0, *(high + 1 for _, high in intervals)]
    stops = [*(low - 1 for low, _ in intervals), last]
    return [(low, high) for low, high in zip(starts, stops, strict=True) if low <= high]


def _common(ones: Sequence[Interval], others: Sequence[Interval]) -> list[Interval]:
    """What is in both of two lists of intervals, all in order."""
    found: list[Interval] = []
    one = other = 0
    while one < len(ones) and other < len(others):
        (low, high), (start, stop) = ones[one], others[other]
        if max(low, start) <= min(high, stop):
            found.append((max(low, start), min(high, stop)))
        one, other = (one + 1, other) if high < stop else (one, other + 1)
    return found


# Few disjoint boxes that make up a set of cells of a grid.

Truth = NDArray[np.bool_]

_ORDERS = 6  # of the axes; more are not worth the time


def decompose(cells: Truth) -> Boxes:
    """Disjoint boxes whose union is the set of true cells; one if the set is a box.

    Slices that are alike and next to each other stay together, axis after axis; what can be joined
    afterwards is joined. The order of axes that gives the fewest boxes is taken. Along one axis
    there are no fewer boxes than these; in several, finding the fewest is hard.
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
    """The maximal intervals of true values of a vector: (n, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], truth, [False]]).astype(np.int8)))
    found: Boxes = edges.reshape(-1, 2) - np.array([0, 1])
    return found


def _step(axes: int) -> int:
    """All orders of up to three axes, and as many, evenly chosen, of more."""
    count = 1
    for axis in range(2, axes + 1):
        count *= axis
    return max(1, count // _ORDERS)


def _slabs(cells: Truth) -> Boxes:
    """Boxes by runs of equal slices along the first axis, each slice cut in the same way."""
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
    """Join boxes that differ along one axis and touch there, until none do."""
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
