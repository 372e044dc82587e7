"""Trees of strings with noisy counts: prefixes of sequences, runs of symbols, and contexts.

A node is a string of codes. Its parent is the string without the code that was added last. The
codes 0 to m - 1 are the m values of the alphabet; the code m is the mark at the end of a sequence,
and at its start where strings grow to the left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from scumble.model import stored
from scumble.model.designs.design import Design
from scumble.model.evidence.evidence import Measurements
from scumble.model.laws import law_from_dict
from scumble.model.laws.distributions import DiscreteLaplace
from scumble.model.privacy.accounting import PrivacyUnit
from scumble.model.privacy.stated_loss import StatedLoss, add_losses, counts_loss
from scumble.model.schema.attribute import Attribute

if TYPE_CHECKING:
    from scumble.model.schema.schema import Schema

Integers = npt.NDArray[np.int64]
Nodes = npt.NDArray[np.int32] | Integers
Model = Literal["suffix", "prefix", "grams"]
MODELS: tuple[Model, ...] = get_args(Model)

FILE = "strings.parquet"
_DENSE = 1 << 22  # children that are looked up in one array
ROW_GROUP = 1 << 20  # rows of the file that are written together
PARENT, SYMBOL, COUNT = "parent", "symbol", "count"


@dataclass(frozen=True, eq=False)
class StringTree:
    """Nodes, the root first and every parent before its children; node i adds the code
    `symbols[i]` to the string of its parent `parents[i]`. Both are -1 for the root.

    Children of one node have different symbols, all below `fanout`. The nodes are in the order of
    `keys`, parent times fanout plus symbol, so that a child is found by binary search.
    """

    parents: Integers
    symbols: Integers
    fanout: int

    @classmethod
    def root(cls, fanout: int) -> StringTree:
        """Return the tree of the empty string alone."""
        return cls(np.array([-1]), np.array([-1]), fanout)

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def keys(self) -> Integers:
        """The keys of all nodes but the root, in ascending order."""
        keys: Integers = self.parents[1:] * self.fanout + self.symbols[1:]
        return keys

    @cached_property
    def depths(self) -> Integers:
        """The length of the string of each node."""
        depths = np.zeros(len(self), np.int64)
        for begin, end in self.levels[1:]:
            depths[begin:end] = depths[self.parents[begin]] + 1
        return depths

    @cached_property
    def levels(self) -> list[tuple[int, int]]:
        """The first node, and the one after the last, of each length of strings."""
        levels = [(0, 1)]
        while levels[-1][1] < len(self):
            end = levels[-1][1]
            levels.append((end, int(np.searchsorted(self.parents, end))))
        return levels

    def child(self, nodes: Integers, symbols: npt.NDArray[Any]) -> Integers:
        """Return the child of each node by its symbol, -1 where there is none."""
        wanted = nodes * self.fanout + symbols
        if len(self) * self.fanout <= _DENSE:
            children: Integers = self.children[wanted]
            return children
        if not len(self.keys):
            return np.full(len(wanted), -1, np.int64)
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[places] == wanted, places + 1, -1)

    @cached_property
    def children(self) -> Integers:
        """The child of every node and symbol, -1 where there is none."""
        children = np.full(len(self) * self.fanout, -1, np.int64)
        children[self.keys] = np.arange(1, len(self))
        return children

    def grown(self, keys: Integers) -> StringTree:
        """Return the tree with further nodes below those of the last level, given their keys in
        ascending order.
        """
        parents = np.concatenate([self.parents, keys // self.fanout])
        return StringTree(parents, np.concatenate([self.symbols, keys % self.fanout]), self.fanout)

    def string(self, node: int) -> tuple[int, ...]:
        """Return the codes of a node, in the order in which they were added."""
        codes: list[int] = []
        while node > 0:
            codes.append(int(self.symbols[node]))
            node = int(self.parents[node])
        return tuple(reversed(codes))

    def check(self) -> StringTree:
        """Return the tree; ValueError if these arrays are no tree."""
        whole = len(self) and self.parents[0] == self.symbols[0] == -1
        inside = (self.symbols[1:] >= 0) & (self.symbols[1:] < self.fanout)
        before = (self.parents[1:] >= 0) & (self.parents[1:] < np.arange(1, len(self)))
        if not whole or not inside.all() or not before.all() or (np.diff(self.keys) <= 0).any():
            raise ValueError("these nodes are no tree of strings")
        return self


@dataclass(frozen=True)
class Strings(Design):
    """The file has a row for each node: its `parent`, its `symbol`, and its noisy `count`, which
    is 0 for the root and for every node that was not measured.

    "prefix": a node is a prefix of sequences, counted with the noise of its length; "grams": a run
    of symbols anywhere in sequences. "suffix": the first `contexts` rows are contexts that were
    split, without counts. A context grows to the left: its children put one code before it, and all
    of them are there or are leaves. The rows after them are the cells of the leaves, in order of
    the leaves: `alphabet` + 1 cells each, one for every code that may follow, the last for the end.
    A cell has the parent and the symbol of its leaf; (-1, -1) if the empty context is a leaf.

    `unit` counts make one: an occurrence in a sequence of k symbols counts unit // k, or all count
    1. At most `length` symbols of a sequence were read, its end included.
    """

    kind: ClassVar[str] = "strings"

    model: Model
    alphabet: int
    laws: tuple[DiscreteLaplace, ...]
    unit: int
    length: int
    contexts: int = 0

    @property
    def weighted(self) -> bool:
        """Whether an occurrence counts by the share that it is of its sequence."""
        return self.unit > 1

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "model": self.model,
            "alphabet": self.alphabet,
            "laws": [law.to_dict() for law in self.laws],
            "unit": self.unit,
            "length": self.length,
            "contexts": self.contexts,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Strings:
        all_laws = stored.items(law_from_dict, data["laws"])
        laws = tuple(law for law in all_laws if isinstance(law, DiscreteLaplace))
        if not laws or len(laws) < len(all_laws):
            raise ValueError("strings have discrete Laplace noise")
        numbers = [stored.whole(data[name]) for name in ("alphabet", "unit", "length", "contexts")]
        alphabet, unit, length, contexts = numbers
        if min(alphabet, unit, length) < 1:
            raise ValueError("an alphabet, a unit and a length are above 0")
        model = stored.one_of(data["model"], MODELS)
        return cls(model, alphabet, laws, unit, length, contexts)

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        """Use the largest weight of a sequence in the strings of each length, or in all cells."""
        if self.model == "prefix":
            masses = [1] * len(self.laws)
        elif self.unit > 1:
            masses = [self.unit] * len(self.laws)
        else:
            masses = [max(self.length - level, 1) for level in range(len(self.laws))]
        return add_losses(
            counts_loss(law, unit, mass) for law, mass in zip(self.laws, masses, strict=True)
        )

    def find_sequence(self, sql: str, columns: Sequence[str]) -> str:
        """Return the column: there is nothing else to ask about."""
        return columns[0]


def write_strings(folder: Path, pieces: Iterable[tuple[Nodes, Nodes, Integers]]) -> None:
    """Write the parents, symbols and counts of a tree as the one file of a release."""
    import pyarrow.parquet as pq

    kinds = ((PARENT, pa.int32()), (SYMBOL, pa.int32()), (COUNT, pa.int64()))
    with pq.ParquetWriter(folder / FILE, pa.schema(kinds), store_schema=False) as writer:
        for piece in pieces:
            arrays = zip(kinds, piece, strict=True)
            columns = {name: pa.array(numbers, kind) for (name, kind), numbers in arrays}
            writer.write_table(pa.table(columns), row_group_size=ROW_GROUP)


def leaves_of(inner: StringTree) -> Integers:
    """Return the keys of the leaves of a tree of split contexts, in ascending order: the children
    of split contexts that were not split. An empty tree has one leaf, the empty context.
    """
    if not len(inner):
        return np.array([-1])
    return np.setdiff1d(np.arange(len(inner) * inner.fanout), inner.keys, assume_unique=True)


def suffix_rows(
    inner: StringTree, leaves: Integers, cells: Integers
) -> Iterator[tuple[Nodes, Nodes, Integers]]:
    """Yield the parents, symbols and counts of the rows of a "suffix" release in pieces: the split
    contexts, then the cells of each leaf.
    """
    contexts, fanout = len(inner), inner.fanout
    parents = np.concatenate([inner.parents, leaves // fanout]).astype(np.int32)
    symbols = np.concatenate([inner.symbols, np.where(leaves < 0, -1, leaves % fanout)])
    symbols = symbols.astype(np.int32)
    for begin in range(0, contexts + len(cells), ROW_GROUP):
        end = min(begin + ROW_GROUP, contexts + len(cells))
        places = np.arange(begin - contexts, end - contexts, dtype=np.int32)  # among the cells
        counts = np.zeros(end - begin, np.int64)
        counts[places >= 0] = cells[max(begin - contexts, 0) : max(end - contexts, 0)]
        nodes = np.floor_divide(places, fanout, out=places, where=places >= 0)
        nodes += contexts
        yield parents[nodes], symbols[nodes], counts


# --- parts ----------------------------------------------------------------------------------------
#
# Parts: measurements of several designs in one release, each with its own file and columns.


@dataclass(frozen=True)
class Parts(Design):
    """The parts of a release. A question is answered by the first part that has its columns.

    `added` are the columns that the mechanism made; a saved release has them in its schema.
    """

    kind: ClassVar[str] = "parts"

    parts: tuple[Measurements, ...]
    added: tuple[Attribute, ...] = field(default=(), compare=False)

    @property
    def files(self) -> tuple[str, ...]:
        """The files of all parts."""
        return tuple(part.file for part in self.parts)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "parts": [part.to_dict() for part in self.parts]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Parts:
        parts = stored.items(Measurements.from_dict, data["parts"])
        files = {part.file for part in parts}
        nested = any(isinstance(part.design, cls) for part in parts)
        if not parts or nested or len(files) < len(parts):
            raise ValueError("every part has a file of its own, and no parts inside")
        return cls(parts)

    def stated_loss(self, unit: PrivacyUnit, file: Path) -> StatedLoss:
        return add_losses(part.stated_loss(unit, file.parent) for part in self.parts)

    def check_schema(self, schema: Schema, columns: Sequence[str]) -> None:
        for part in self.parts:
            part.check_schema(schema)

    def find_sequence(self, sql: str, columns: Sequence[str]) -> str | None:
        """Return the sequences if the question names them by a list or by `occurrences`."""
        if "[" not in sql and "occurrences" not in sql.lower():
            return None
        return next(filter(None, (part.find_sequence(sql) for part in self.parts)), None)
