"""Generalised rows for people: with labels, and what was changed in every column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.model.errors import ParameterError, ReleaseError
from scumble.model.evidence.evidence import Evidence
from scumble.model.evidence.generalised import Generalised, Nodes, nodes_of
from scumble.model.long_work import tell
from scumble.model.notebook import html_table, text_table
from scumble.model.schema.domains import Bins, Dates
from scumble.model.schema.hierarchies import value_labels
from scumble.model.schema.schema import Schema
from scumble.model.stored import DAMAGED, indices

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GeneralisedRows:
    """The published rows of a release by generalisation: one number for each value shown.

    `nodes` are the nodes of generalised columns by attribute, `codes` the codes of the others.
    """

    schema: Schema
    evidence: Generalised
    nodes: Mapping[str, Integers]
    codes: Mapping[str, Integers]

    @classmethod
    def read(cls, schema: Schema, evidence: Evidence, folder: Path) -> GeneralisedRows:
        """Return the rows; ParameterError if the release has no generalised ones."""
        if not isinstance(evidence, Generalised):
            raise ParameterError(
                "Only a release by generalise has rows with groups of values; this one has none."
                f" What it publishes is the file {evidence.file} in its folder."
            )
        return cls.of(schema, evidence, pq.read_table(folder / evidence.file))

    @classmethod
    def of(cls, schema: Schema, evidence: Generalised, table: pa.Table) -> GeneralisedRows:
        """Return the rows of the published table; ReleaseError if they do not fit the schema."""
        shown = dict(zip(evidence.generalised, evidence.shown, strict=True))
        others = [name for name in evidence.columns if name not in shown]
        sound = table.num_rows == evidence.rows
        sound &= {*shown.values(), *others} <= set(table.column_names)
        sound &= all(pa.types.is_integer(table[c].type) for c in shown.values() if sound)
        if not sound:
            raise ReleaseError(DAMAGED)
        nodes = {name: _nodes(schema, name, table[column]) for name, column in shown.items()}
        codes: dict[str, Integers] = {}
        for done, name in enumerate(others, 1):
            found, outside = schema[name].encode(table[name])
            if outside.any():
                raise ReleaseError(DAMAGED)
            codes[name] = found.astype(np.int64)
            tell(done, len(others))
        return cls(schema, evidence, nodes, codes)

    def tree(self, name: str) -> Nodes:
        """Return the nodes of a generalised column."""
        return nodes_of(self.schema[name])

    @cached_property
    def group(self) -> Integers:
        """The group of each row: rows with equal nodes. Groups are numbered from 0."""
        return self.grouped(())

    def grouped(self, more: tuple[str, ...]) -> Integers:
        """Return a number for each row: equal for rows with equal nodes and equal `more` values."""
        group = np.zeros(self.evidence.rows, np.int64)
        for column in (*self.nodes.values(), *(self.codes[name] for name in more)):
            key = group * (int(column.max(initial=0)) + 1) + column
            _, group = np.unique(key, return_inverse=True)
        return group

    @cached_property
    def sizes(self) -> Integers:
        """The number of rows of each group."""
        return np.bincount(self.group)

    def labelled(self) -> pa.Table:
        """Return the rows with the labels of their groups, in the order of the schema."""
        columns: dict[str, Any] = {}
        for done, name in enumerate(self.evidence.columns, 1):
            if name in self.nodes:
                labels = pa.array(self._labels(name), pa.string())
                columns[name] = labels.take(pa.array(self.nodes[name]))
            else:
                attribute = self.schema[name]
                columns[name] = attribute.decode(self.codes[name].astype(attribute.code_type))
            tell(done, len(self.evidence.columns))
        return pa.table(columns)

    def _labels(self, name: str) -> list[str]:
        """Return the label of every node of a column; those of single bins are their edges."""
        tree, domain = self.tree(name), self.schema[name].domain
        found = tree.labels()
        if isinstance(domain, Bins | Dates):
            single = dict(enumerate(value_labels(domain)))  # a missing value has none
            for node in np.flatnonzero(tree.level == 0).tolist():
                found[node] = single.get(int(tree.group[node]), found[node])
        return found

    def loss(self, name: str) -> float:
        """Return the loss of granularity of a column, from 0 to 1; rows left out lose all of it."""
        tree = self.tree(name)
        each = (tree.size - 1) / max(tree.levels.size - 1, 1)
        total = float(each[self.nodes[name]].sum()) + self.evidence.left_out
        return total / max(self.evidence.rows + self.evidence.left_out, 1)

    @property
    def quality(self) -> float:
        """1 less the mean loss of granularity of the generalised columns."""
        losses = [self.loss(name) for name in self.nodes]
        return 1 - float(np.mean(losses)) if losses else 1.0

    def changes(self) -> Changes:
        """Return what was changed, column by column."""
        lines = []
        for name, nodes in self.nodes.items():
            tree = self.tree(name)
            rows = max(len(nodes), 1)
            lines.append(
                ColumnChange(
                    name,
                    float((tree.size[nodes] == 1).sum()) / rows,
                    float((nodes == tree.root).sum()) / rows if tree.levels.size > 1 else 0.0,
                    float(tree.size[nodes].mean()) if len(nodes) else 0.0,
                    tree.levels.size,
                    self.loss(name),
                )
            )
        return Changes(tuple(lines), self.evidence.rows, self.evidence.left_out, self.quality)


def _nodes(schema: Schema, name: str, column: pa.ChunkedArray) -> Integers:
    """Return the nodes of a column; ReleaseError if one of them is none of the schema."""
    if column.null_count:
        raise ReleaseError(DAMAGED)
    found: Integers = column.to_numpy().astype(np.int64)
    return indices(found, len(nodes_of(schema[name]).size))


@dataclass(frozen=True)
class ColumnChange:
    """What happened to a column: the shares of rows that show the value itself, and nothing at all;
    the mean number of values that a row may have; how many there are; and the loss of granularity.
    """

    name: str
    unchanged: float
    nothing: float
    values: float
    possible: int
    loss: float


@dataclass(frozen=True, repr=False)
class Changes:
    """What generalisation changed, column by column; `quality` is 1 less the mean loss."""

    columns: tuple[ColumnChange, ...]
    rows: int
    left_out: int
    quality: float

    def sentences(self) -> list[str]:
        """Return a sentence for each column, and one for rows that were left out."""
        found = [
            f"{each.name}: {100 * each.unchanged:.0f} % of the rows show the value, "
            f"{100 * each.nothing:.0f} % nothing (*); on average a row may have {each.values:.3g} "
            f"of {each.possible:,} values."
            for each in self.columns
        ]
        whole = self.rows + self.left_out
        share = self.left_out / max(whole, 1)
        found.append(f"{self.left_out:,} of {whole:,} rows ({100 * share:.2f} %) were left out.")
        found.append(f"{self.quality:.3f} of the granularity is left (1: all, 0: none).")
        return found

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        header = ["column", "value shown", "nothing shown", "values a row may have", "loss"]
        rows = [
            [
                each.name,
                f"{100 * each.unchanged:.1f} %",
                f"{100 * each.nothing:.1f} %",
                f"{each.values:.3g} of {each.possible}",
                f"{each.loss:.3f}",
            ]
            for each in self.columns
        ]
        return header, rows

    def __repr__(self) -> str:
        header, rows = self._cells()
        return "\n".join([*text_table(header, rows, 1), *self.sentences()[-2:]])

    def _repr_html_(self) -> str:
        header, rows = self._cells()
        return html_table(header, rows, 1)


def remarks(schema: Schema, evidence: Evidence, folder: Path) -> tuple[str, ...]:
    """Return remarks for the owner: what was changed, and groups that give their values away."""
    found = GeneralisedRows.read(schema, evidence, folder)
    if not found.evidence.rows:
        return ()
    changes = found.changes()
    first = (
        f"The rows form {len(found.sizes):,} groups of {found.sizes.min():,} or more; "
        f"{changes.quality:.2f} of the granularity is left."
    )
    said = [first]
    for attribute in schema.sensitive:
        pairs = np.unique(np.stack([found.group, found.codes[attribute.name]]), axis=1)
        single = np.bincount(pairs[0]) == 1
        if single.any():
            rows = int(found.sizes[single].sum())
            said.append(
                f"In {int(single.sum()):,} groups with {rows:,} rows everybody has the same "
                f"{attribute.name}, which is told to everybody who finds the group. Ask for l."
            )
    return tuple(said)
