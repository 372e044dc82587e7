"""Conditions to disjoint boxes, by truth values of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from scumble.model.errors import QueryError
from scumble.model.query import Expression
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.comparisons import Interval, satisfying_codes
from scumble.private.database.questions.decomposition import Truth, decompose
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
# Plain comparisons to disjoint boxes, without the engine.


def plain_boxes(clauses: Iterable[Expression], space: Space, most: int) -> Boxes | None:
    """Return the disjoint boxes of a conjunction of comparisons; none if no point satisfies it.

    The result is None if a clause is not a comparison, if only the engine knows what a literal
    means, or if there are more boxes than `most`.
    """
    axes: dict[int, list[Interval]] = {}
    for clause in clauses:
        comparison = clause.comparison
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
