"""Generalised: rows whose quasi-identifiers are shown as groups of values; and how these groups
are numbered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from scumble.model import stored
from scumble.model.evidence.evidence import Evidence
from scumble.model.schema.attribute import Attribute
from scumble.model.schema.hierarchies import Levels

if TYPE_CHECKING:
    from scumble.model.schema.hierarchies import Levels

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Generalised(Evidence):
    """Rows with groups of values in place of some values; every row is true of its person.

    In the file a column `shown[i]` has the number of a node (see `Nodes`) of the attribute
    `generalised[i]`; all other columns have their values. Rows with equal nodes are a group.
    `left_out` rows are not in the file.
    """

    kind: ClassVar[str] = "generalised"
    has_values: ClassVar[bool] = False  # nodes in place of values: left to the reader

    file: str
    columns: tuple[str, ...]  # all attributes
    generalised: tuple[str, ...]
    shown: tuple[str, ...]
    rows: int  # published ones
    left_out: int

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file,)

    @property
    def main_promises(self) -> frozenset[str]:
        return frozenset({"k-anonymity"})

    @property
    def left_to_audit(self) -> frozenset[str]:
        """All promises: they are about the groups that the rows form."""
        return _COUNTED

    @property
    def missing(self) -> int:
        return self.left_out

    @property
    def unchanged(self) -> tuple[str, ...] | None:
        """The columns that are published as they are; None if all are generalised."""
        return tuple(name for name in self.columns if name not in self.generalised) or None

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "file": self.file,
            "columns": list(self.columns),
            "generalised": list(self.generalised),
            "shown": list(self.shown),
            "rows": self.rows,
            "left_out": self.left_out,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Generalised:
        file = stored.text(data["file"])
        if file != FILE:
            raise ValueError("not the name of a data file")
        columns, generalised, shown = (
            stored.items(stored.text, data[name]) for name in ("columns", "generalised", "shown")
        )
        if not set(generalised) <= set(columns) or len(shown) != len(generalised):
            raise ValueError("the generalised columns are not among the columns")
        rows, left_out = (stored.whole(data[name]) for name in ("rows", "left_out"))
        if rows + left_out > 1 << 53:
            raise ValueError("more rows than answers can state exactly")
        return cls(file, columns, generalised, shown, rows, left_out)


FILE = "rows.parquet"
_COUNTED = frozenset(
    {
        "k-anonymity",
        "distinct l-diversity",
        "entropy l-diversity",
        "recursive (c, l)-diversity",
        "(α, k)-anonymity",
        *(f"t-closeness, {distance} distance" for distance in ("equal", "ordered", "hierarchical")),
    }
)


@dataclass(frozen=True, eq=False)
class Nodes:
    """All groups of a hierarchy, each set of values once, numbered from the values up.

    `numbers[h][g]` is the node of group g of level h. `order` are the codes in an order in which
    every node is a range, from `begin` on; `starts[h]` are the places where the groups of level h
    begin in it. `level` and `group` name the lowest group that is this node, `size` counts its
    values.
    """

    levels: Levels
    order: Integers
    starts: tuple[Integers, ...]
    numbers: tuple[Integers, ...]
    level: Integers
    group: Integers
    size: Integers
    begin: Integers

    @property
    def root(self) -> int:
        """The node of all values."""
        return int(self.numbers[-1][0])

    def labels(self) -> list[str]:
        """Return the label of every node."""
        pairs = zip(self.level.tolist(), self.group.tolist(), strict=True)
        return [self.levels.labels[level][group] for level, group in pairs]

    def codes(self, node: int) -> Integers:
        """Return the codes of a node."""
        begin = int(self.begin[node])
        return self.order[begin : begin + int(self.size[node])]

    def codes_of(self, nodes: Integers) -> Integers:
        """Return the codes of some nodes, one node after the other."""
        size = self.size[nodes]
        inside = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        codes: Integers = self.order[np.repeat(self.begin[nodes], size) + inside]
        return codes


def nodes_of(attribute: Attribute, *, generalised: bool = True) -> Nodes:
    """Return the nodes of an attribute; of one that is not generalised, its values and the root."""
    if not generalised:
        return _number_flat(attribute.size)
    return _number_nodes(attribute)


@lru_cache(maxsize=256)
def _number_nodes(attribute: Attribute) -> Nodes:
    return number_nodes(attribute.levels)


@lru_cache(maxsize=64)
def _number_flat(size: int) -> Nodes:
    codes = np.arange(size)
    labels = tuple(map(str, range(size)))
    if size == 1:
        return number_nodes(Levels((codes,), (labels,)))
    return number_nodes(Levels((codes, np.zeros(size, np.int64)), (labels, ("*",))))


def number_nodes(levels: Levels) -> Nodes:
    """Return the nodes of a hierarchy."""
    order = np.lexsort(levels.groups)  # the highest level is the first key
    known: dict[tuple[int, int], int] = {}
    starts, numbers, level_of, group_of = [], [], [], []
    for level, groups in enumerate(levels.groups):
        along = groups[order]
        begins = np.flatnonzero(np.diff(along, prepend=-1))
        nodes = np.empty(len(begins), np.int64)
        ends = np.append(begins[1:], len(order))
        for group, begin, end in zip(along[begins], begins, ends, strict=True):
            key = (int(begin), int(end))
            if key not in known:
                known[key] = len(known)
                level_of.append(level)
                group_of.append(int(group))
            nodes[group] = known[key]
        starts.append(begins)
        numbers.append(nodes)
    return Nodes(
        levels,
        order,
        tuple(starts),
        tuple(numbers),
        np.array(level_of, np.int64),
        np.array(group_of, np.int64),
        np.array([end - begin for begin, end in known], np.int64),
        np.array([begin for begin, _ in known], np.int64),
    )
