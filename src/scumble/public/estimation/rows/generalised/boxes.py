"""Expressions over the nodes of hierarchies: what is true of some, or of all values of a node.

A row of generalised values stands for a box: the product of the values of its nodes. Clauses that
share no column are judged by themselves. For each set of columns that belong together, everything
is evaluated on the values first, and then summed up by nodes, along one column after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.errors import QueryError, large
from scumble.model.evidence.generalised import Nodes
from scumble.model.query import Expression
from scumble.public.sandbox import Sandbox

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
_MOST = 2 * 10**7  # combinations of nodes of columns that belong together


@dataclass(frozen=True, eq=False)
class Part:
    """Clauses, and perhaps the summed expression, over columns that belong together.

    Arrays have one axis for each of `names`, over its nodes. `met` is the number of cells of a box
    that meet the clauses, `cells` their number. `total`, `least` and `most` are the sum and the
    limits of the summed expression over the cells that meet them; None without such an expression.
    """

    names: tuple[str, ...]
    met: Integers
    cells: Integers
    total: Floats | None = None
    least: Floats | None = None
    most: Floats | None = None

    def at(self, nodes: Mapping[str, Integers], rows: int, which: str) -> npt.NDArray[Any]:
        """Return one of the arrays at the nodes of some rows; a constant has no columns."""
        array: npt.NDArray[Any] = getattr(self, which)
        return np.broadcast_to(array[tuple(nodes[name] for name in self.names)], rows)


def parts(
    clauses: Sequence[Expression],
    argument: Expression | None,
    nodes: Mapping[str, Nodes],
    engine: Sandbox,
) -> list[Part]:
    """Return the parts of a question; one of them has the summed expression, if there is one."""
    expressions = [*clauses, *([] if argument is None else [argument])]
    found = []
    for names in together(expressions):
        own = [each for each in clauses if _belongs(each, names)]
        summed = argument if argument is not None and _belongs(argument, names) else None
        found.append(_part(sorted(names), own, summed, nodes, engine))
    return found


def together(expressions: Sequence[Expression]) -> list[frozenset[str]]:
    """Return the sets of columns that some expressions join; the empty set for constants."""
    sets: list[frozenset[str]] = []
    for each in expressions:
        own = frozenset(each.attributes)
        near = [other for other in sets if other & own or not (other or own)]
        sets = [other for other in sets if other not in near] + [own.union(*near)]
    return sets


def _belongs(expression: Expression, names: frozenset[str]) -> bool:
    own = set(expression.attributes)
    return own <= names and bool(own) == bool(names)


def _part(
    names: Sequence[str],
    clauses: Sequence[Expression],
    argument: Expression | None,
    nodes: Mapping[str, Nodes],
    engine: Sandbox,
) -> Part:
    total = 1
    for name in names:
        total *= len(nodes[name].size)
    if total > _MOST:
        raise QueryError(
            f"The question joins {', '.join(names)} in one expression: {large(total)} "
            f"combinations of groups, of at most {large(_MOST)}. Ask about fewer columns together."
        )
    values = engine.evaluate([*clauses, *([] if argument is None else [argument])], names)
    shape = [nodes[name].levels.size for name in names]
    axes = [nodes[name] for name in names]
    sure = np.ones(int(np.prod(shape)), bool)
    for each in values[: len(clauses)]:
        sure &= _flags(each, clauses)
    met = _along(sure.reshape(shape).astype(np.int64), axes, np.add)
    cells = _sizes(axes)
    if argument is None:
        return Part(tuple(names), met, cells)
    amount = values[-1].astype(np.float64).reshape(shape)
    inside = sure.reshape(shape)
    return Part(
        tuple(names),
        met,
        cells,
        _along(np.where(inside, amount, 0.0), axes, np.add),
        _along(np.where(inside, amount, np.inf), axes, np.minimum),
        _along(np.where(inside, amount, -np.inf), axes, np.maximum),
    )


def _flags(value: npt.NDArray[Any], clauses: Sequence[Expression]) -> npt.NDArray[np.bool_]:
    if value.dtype != bool:
        raise QueryError(f"WHERE needs conditions, not numbers: {clauses[0].sql}.")
    return value


def _sizes(axes: Sequence[Nodes]) -> Integers:
    found = np.ones((), np.int64)
    for each in axes:
        found = np.multiply.outer(found, each.size)
    return np.asarray(found)


def _along(values: npt.NDArray[Any], axes: Sequence[Nodes], join: Callable[..., Any]) -> Any:
    """Return values joined within every node, along every axis."""
    found = values
    for axis, nodes in enumerate(axes):
        ordered = np.take(found, nodes.order, axis=axis)
        levels = [join.reduceat(ordered, starts, axis=axis) for starts in nodes.starts]  # type: ignore[attr-defined]
        stacked = np.concatenate(levels, axis=axis)
        found = np.take(stacked, _places(nodes), axis=axis)
    return found


def _places(nodes: Nodes) -> Integers:
    """Return where each node stands among the groups of all levels, in the order of `starts`."""
    place = np.empty(len(nodes.size), np.int64)
    offset = 0
    for level, starts in enumerate(nodes.starts):
        along = nodes.levels.groups[level][nodes.order][starts]
        place[nodes.numbers[level][along]] = offset + np.arange(len(starts))
        offset += len(starts)
    return place
