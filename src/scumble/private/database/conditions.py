"""Conditions to boxes: the codes for which each part of a condition holds, put together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from scumble.model.errors import QueryError
from scumble.model.query import Expression
from scumble.model.schema.attribute import Attribute
from scumble.private.database.decomposition import Truth, decompose
from scumble.private.database.space import Boxes, Space
from scumble.public.sandbox import Engine
from scumble.public.sql.normal_form import Branch, Members, Tree, atoms, members, normal

_GRID = 2_000_000  # cells in which a formula over several attributes is worked out
_LONG = 2000  # characters of an IN list that the engine is spared
_ANSWERS = 1 << 26  # truth values asked of the engine at a time


def boxes_of(
    clauses: Iterable[Expression], space: Space, engine: Engine, most: int = 10_000
) -> Boxes:
    """Disjoint boxes of the points that satisfy every clause: none if no point does.

    A part that names one attribute is the set of its codes for which the engine finds it true,
    whatever it is made of. Clauses that share attributes are put together on a grid of the
    intervals between which nothing changes; those that share none multiply.
    """
    trees = [normal(clause) for clause in clauses]
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

    def __init__(self, space: Space, engine: Engine, trees: Iterable[Tree]) -> None:
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


def _cut(parts: Sequence[Expression], attribute: Attribute, engine: Engine) -> _Cut:
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
    parts: Sequence[Expression], attribute: Attribute, engine: Engine
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
