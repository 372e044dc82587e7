"""Answers from generalised rows: even spread within boxes, and what is certain.

A row stands for a box of possible rows. It adds to a count surely if all cells of its box meet the
condition, perhaps if some do, and by the share of the cells that do under an even spread. The least
and the largest answer over all tables that could have been published so are the bounds, and the
interval is the bounds: nothing is assumed, and every table is covered. Rows that were left out may
be anything; the value counts them like the published ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from scumble.families.generalise.design import Generalised, Nodes, nodes_of
from scumble.model.errors import MissingViewError, QueryError, ReleaseError, large
from scumble.model.evidence.evidence import Evidence
from scumble.model.long_work import tell, told
from scumble.model.notebook import html_table, text_table
from scumble.model.query import Expression, Query
from scumble.model.schema.domains import Bins, Dates
from scumble.model.schema.hierarchies import value_labels
from scumble.model.schema.schema import Schema
from scumble.model.stored import DAMAGED, indices, known_codes
from scumble.public.estimate import Estimate, Exact, Unknown
from scumble.public.estimation.bounds import Bounded, Limit, spread_between
from scumble.public.sandbox import Sandbox

Key = tuple[Any, ...]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

EVEN = "even spread within generalised values; interval of all that they allow"
EXACT = "exact: the question cuts no generalised value"
LEFT_OUT = "rows were left out of the release: the interval adds whatever they may be"
NO_ROWS = "no published row can satisfy the condition"
_MOST_LINES = 10**7
_HELD = "generalised rows"  # in `Sandbox.derived`


def answer(
    evidence: Generalised, schema: Schema, query: Query, engine: Sandbox
) -> Iterator[tuple[Key, Estimate]]:
    """Return every possible group of the answer to `query` with its estimate."""
    held = engine.derived.get(_HELD)
    if held is None:
        held = engine.derived[_HELD] = PublishedRows.read(evidence, schema, engine)
    return RowQuestion(held, schema, query, engine).estimates()


def answer_together(
    evidence: Generalised, schema: Schema, queries: Sequence[Query], engine: Sandbox
) -> dict[int, Any]:
    """Return nothing: `answer` reads every question by itself, from the rows in memory."""
    del evidence, schema, queries, engine
    return {}


@dataclass(frozen=True, eq=False)
class PublishedRows:
    """The distinct published rows: the node of every column, and how many rows there are of each.

    The last line, if rows were left out, has the root in every column and their number; `known` is
    False for it.
    """

    nodes: Mapping[str, Nodes]
    columns: Mapping[str, Integers]
    count: Integers
    known: Flags

    @classmethod
    def read(cls, evidence: Generalised, schema: Schema, engine: Sandbox) -> PublishedRows:
        if engine.view is None:
            raise ReleaseError("The release is damaged: it has no rows.")
        table = pq.read_table(engine.view)
        nodes = {
            name: nodes_of(schema[name], generalised=name in evidence.generalised)
            for name in evidence.columns
        }
        rows = GeneralisedRows.of(schema, evidence, table)
        columns = {name: {**rows.nodes, **rows.codes}[name] for name in evidence.columns}
        first, count = _count_distinct(list(columns.values()), table.num_rows)
        columns = {name: column[first] for name, column in columns.items()}
        known = np.ones(len(count), bool)
        if evidence.left_out:
            columns = {n: np.append(column, nodes[n].root) for n, column in columns.items()}
            count, known = np.append(count, evidence.left_out), np.append(known, False)
        return cls(nodes, columns, count, known)

    def by(self, names: Sequence[str]) -> PublishedRows:
        """Return the distinct combinations of some columns."""
        chosen = [self.columns[name] for name in names]
        first, back = _group_rows([*chosen, self.known.astype(np.int64)], len(self.count))
        count = np.bincount(back, self.count, len(first)).astype(np.int64)
        columns = {name: self.columns[name][first] for name in names}
        return PublishedRows(self.nodes, columns, count, self.known[first])


def _group_rows(columns: Sequence[Integers], rows: int) -> tuple[Integers, Integers]:
    """Return the first row of each distinct combination, and the combination of each row."""
    group = np.zeros(rows, np.int64)
    for column in columns:
        _, group = np.unique(group * (int(column.max(initial=0)) + 1) + column, return_inverse=True)
    _, first = np.unique(group, return_index=True)
    return first, group


def _count_distinct(columns: Sequence[Integers], rows: int) -> tuple[Integers, Integers]:
    first, group = _group_rows(columns, rows)
    return first, np.bincount(group, minlength=len(first))


@dataclass(frozen=True, eq=False)
class Lines:
    """Rows by box, each for one group of the answer: `share` of each belongs there evenly spread.

    `key` is the group; `sure` says that the row is in the group and meets the condition whatever
    its values are, `possible` that it may. `mean`, `least` and `most` are of the summed expression
    over the cells that meet it.
    """

    key: Integers
    count: Integers
    known: Flags
    share: Floats
    sure: Flags
    possible: Flags
    mean: Floats
    least: Floats
    most: Floats


class RowQuestion:
    """One question to generalised rows."""

    def __init__(self, held: PublishedRows, schema: Schema, query: Query, engine: Sandbox) -> None:
        self.schema, self.query = schema, query
        self.parts = parts(query.clauses, query.argument, held.nodes, engine)
        needed = dict.fromkeys([*query.groups, *(n for part in self.parts for n in part.names)])
        self.rows = held.by(list(needed))
        published = int(held.count[held.known].sum())
        # Published rows are multiplied by this to stand for all rows.
        self.scale = float(held.count.sum()) / published if published else 1.0

    def estimates(self) -> Iterator[tuple[Key, Estimate]]:
        """Yield every group that published rows may be in."""
        lines = self._build_lines()
        if not self.query.groups:
            yield (), self._estimate(lines, slice(None))
            return
        order = np.argsort(lines.key, kind="stable")
        keys, starts = np.unique(lines.key[order], return_index=True)
        ends = np.append(starts, len(order))[1:]
        groups = self.schema.cell_values(self.query.groups, keys.tolist())
        for values, start, end in zip(told(groups), starts, ends, strict=True):
            some = order[start:end]
            if (lines.possible[some] & lines.known[some]).any():
                yield values, self._estimate(lines, some)

    def _build_lines(self) -> Lines:
        """Return the rows with what the clauses say of them, once for each group they may be in."""
        rows, key, share, certain = self._split_by_key()
        columns, count, known = rows.columns, rows.count, rows.known
        sure, possible = certain, np.ones(len(key), bool)
        mean, least, most = (np.zeros(len(key)) for _ in range(3))
        for part in self.parts:
            met, cells = part.at(columns, len(key), "met"), part.at(columns, len(key), "cells")
            share = share * (met / cells)
            sure, possible = sure & (met == cells), possible & (met > 0)
            if part.total is not None:
                mean = part.at(columns, len(key), "total") / np.maximum(met, 1)
                least, most = (
                    part.at(columns, len(key), "least"),
                    part.at(columns, len(key), "most"),
                )
        return Lines(key, count, known, share, sure, possible, mean, least, most)

    def _split_by_key(self) -> tuple[PublishedRows, Integers, Floats, Flags]:
        """Return the rows, repeated for every group that they may be in; the group of each; the
        share of the row that is there under an even spread; and whether it is in no other.

        A grouped column becomes the single value of the group.
        """
        rows = np.arange(len(self.rows.count))
        key = np.zeros(len(rows), np.int64)
        share, certain = np.ones(len(rows)), np.ones(len(rows), bool)
        columns = dict(self.rows.columns)
        for name in self.query.groups:
            nodes = self.rows.nodes[name]
            size = nodes.size[columns[name]]
            if int(size.sum()) > _MOST_LINES:
                raise QueryError(
                    f"The answer would need more than {large(_MOST_LINES)} steps; group by fewer "
                    "columns, or by a level of their hierarchies."
                )
            codes = nodes.codes_of(columns[name])
            again = np.repeat(np.arange(len(size)), size)
            rows, key = rows[again], key[again] * nodes.levels.size + codes
            share, certain = (share / size)[again], (certain & (size == 1))[again]
            columns = {other: column[again] for other, column in columns.items()}
            columns[name] = nodes.numbers[0][codes]
        count, known = self.rows.count[rows], self.rows.known[rows]
        return PublishedRows(self.rows.nodes, columns, count, known), key, share, certain

    def _estimate(self, lines: Lines, some: Any) -> Estimate:
        chosen = Lines(*(getattr(lines, name)[some] for name in lines.__dataclass_fields__))
        notes = self.query.notes
        if self.query.aggregate == "mean":
            return _estimate_average(chosen, notes)
        return _estimate_total(chosen, notes, self.scale, counted=self.query.aggregate == "count")


def _estimate_total(
    lines: Lines, notes: tuple[str, ...], scale: float, *, counted: bool
) -> Estimate:
    """Return a count or a sum: its value under even spread, between its certain bounds."""
    mean, least, most = lines.mean, lines.least, lines.most
    if counted:
        mean, least, most = (np.ones(len(mean)) for _ in range(3))
    low = _sum(lines.count, np.where(lines.sure, least, np.minimum(least, 0)), lines.possible)
    high = _sum(lines.count, np.where(lines.sure, most, np.maximum(most, 0)), lines.possible)
    there = lines.known & lines.possible
    even = _sum(lines.count, lines.share * mean, there) * scale
    # As in boxes, a model of typical tables: the rows of all cut groups err together.
    deviation = np.sqrt(lines.share * (1 - lines.share)) * np.abs(mean)
    spread = _sum(lines.count, deviation, there) ** 2 / 3
    return _bound_estimate(even, low, high, spread, notes, missing=not lines.known.all())


def _sum(count: Integers, weight: Floats, where: Flags) -> float:
    return float(count[where] @ weight[where])


def _bound_estimate(
    even: float, low: float, high: float, spread: float, notes: tuple[str, ...], *, missing: bool
) -> Estimate:
    if low == high:
        return Estimate(low, Exact(), EXACT, notes)
    if missing:
        notes = (*notes, LEFT_OUT)
    law = Bounded(Exact(), Limit(low, Exact()), Limit(high, Exact()), low, high, lambda: spread)
    return Estimate(min(max(even, low), high), law, EVEN, notes)


def _estimate_average(lines: Lines, notes: tuple[str, ...]) -> Estimate:
    """Return an average: rows that are not sure may be in it or not, with any of their amounts."""
    there = lines.possible & lines.known
    rows = _sum(lines.count, lines.share, there)
    if not rows:
        return Estimate(float("nan"), Unknown(), "average of no rows", (*notes, NO_ROWS))
    even = _sum(lines.count, lines.share * lines.mean, there) / rows
    low = _minimise_average(lines, lines.least)
    high = -_minimise_average(lines, -lines.most)
    spread = spread_between(even - low, high - even)
    return _bound_estimate(even, low, high, spread, notes, missing=not lines.known.all())


def _minimise_average(lines: Lines, amount: Floats) -> float:
    """Return the least average over all tables: rows that are not sure join it from the smallest
    amount on, as long as they lower it.
    """
    sure = lines.sure & lines.possible
    count, total = float(lines.count[sure].sum()), _sum(lines.count, amount, sure)
    open_ = np.flatnonzero(lines.possible & ~sure)
    order = open_[np.argsort(amount[open_], kind="stable")]
    counts = count + np.concatenate([[0.0], np.cumsum(lines.count[order])])
    totals = total + np.concatenate([[0.0], np.cumsum(lines.count[order] * amount[order])])
    if not count and len(order):  # one row of the least amount is the whole average
        return float(amount[order[0]])
    return float((totals / np.maximum(counts, 1)).min())


# --- boxes ----------------------------------------------------------------------------------------
#
# Expressions over the nodes of hierarchies: what is true of some, or of all values of a node.
#
# A row of generalised values stands for a box: the product of the values of its nodes. Clauses that
# share no column are judged by themselves. For each set of columns that belong together, everything
# is evaluated on the values first, and then summed up by nodes, along one column after the other.

_MOST = 2 * 10**7  # combinations of nodes of columns that belong together


@dataclass(frozen=True, eq=False)
class ColumnGroup:
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
) -> list[ColumnGroup]:
    """Return the parts of a question; one of them has the summed expression, if there is one."""
    expressions = [*clauses, *([] if argument is None else [argument])]
    groups = []
    for names in together(expressions):
        own = [clause for clause in clauses if _belongs(clause, names)]
        summed = argument if argument is not None and _belongs(argument, names) else None
        groups.append(_build_group(sorted(names), own, summed, nodes, engine))
    return groups


def together(expressions: Sequence[Expression]) -> list[frozenset[str]]:
    """Return the sets of columns that some expressions join; the empty set for constants."""
    sets: list[frozenset[str]] = []
    for expression in expressions:
        own = frozenset(expression.attributes)
        near = [other for other in sets if other & own or not (other or own)]
        sets = [other for other in sets if other not in near] + [own.union(*near)]
    return sets


def _belongs(expression: Expression, names: frozenset[str]) -> bool:
    own = set(expression.attributes)
    return own <= names and bool(own) == bool(names)


def _build_group(
    names: Sequence[str],
    clauses: Sequence[Expression],
    argument: Expression | None,
    nodes: Mapping[str, Nodes],
    engine: Sandbox,
) -> ColumnGroup:
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
    for value in values[: len(clauses)]:
        sure &= _check_flags(value, clauses)
    met = _join_along(sure.reshape(shape).astype(np.int64), axes, np.add)
    cells = _multiply_sizes(axes)
    if argument is None:
        return ColumnGroup(tuple(names), met, cells)
    amount = values[-1].astype(np.float64).reshape(shape)
    inside = sure.reshape(shape)
    return ColumnGroup(
        tuple(names),
        met,
        cells,
        _join_along(np.where(inside, amount, 0.0), axes, np.add),
        _join_along(np.where(inside, amount, np.inf), axes, np.minimum),
        _join_along(np.where(inside, amount, -np.inf), axes, np.maximum),
    )


def _check_flags(value: npt.NDArray[Any], clauses: Sequence[Expression]) -> npt.NDArray[np.bool_]:
    if value.dtype != bool:
        raise QueryError(f"WHERE needs conditions, not numbers: {clauses[0].sql}.")
    return value


def _multiply_sizes(axes: Sequence[Nodes]) -> Integers:
    sizes = np.ones((), np.int64)
    for nodes in axes:
        sizes = np.multiply.outer(sizes, nodes.size)
    return np.asarray(sizes)


def _join_along(values: npt.NDArray[Any], axes: Sequence[Nodes], join: Callable[..., Any]) -> Any:
    """Return values joined within every node, along every axis."""
    joined = values
    for axis, nodes in enumerate(axes):
        ordered = np.take(joined, nodes.order, axis=axis)
        levels = [join.reduceat(ordered, starts, axis=axis) for starts in nodes.starts]  # type: ignore[attr-defined]
        stacked = np.concatenate(levels, axis=axis)
        joined = np.take(stacked, _locate_nodes(nodes), axis=axis)
    return joined


def _locate_nodes(nodes: Nodes) -> Integers:
    """Return where each node stands among the groups of all levels, in the order of `starts`."""
    positions = np.empty(len(nodes.size), np.int64)
    offset = 0
    for level, starts in enumerate(nodes.starts):
        along = nodes.levels.groups[level][nodes.order][starts]
        positions[nodes.numbers[level][along]] = offset + np.arange(len(starts))
        offset += len(starts)
    return positions


# --- rows -----------------------------------------------------------------------------------------
#
# Generalised rows for people: with labels, and what was changed in every column.


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
        """Return the rows; MissingViewError if the release has no generalised ones."""
        if not isinstance(evidence, Generalised):
            raise MissingViewError(
                "Only a release by generalise has rows with groups of values; this one has none."
                f" What it publishes is the file {evidence.files[0]} in its folder."
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
        nodes = {name: _read_nodes(schema, name, table[column]) for name, column in shown.items()}
        codes: dict[str, Integers] = {}
        for done, name in enumerate(others, 1):
            codes[name] = known_codes(schema[name], table[name]).astype(np.int64)
            tell(done, len(others))
        return cls(schema, evidence, nodes, codes)

    def tree(self, name: str) -> Nodes:
        """Return the nodes of a generalised column."""
        return nodes_of(self.schema[name])

    @cached_property
    def group(self) -> Integers:
        """The group of each row: rows with equal nodes. Groups are numbered from 0."""
        return self.group_by(())

    def group_by(self, more: tuple[str, ...]) -> Integers:
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
                labels = pa.array(self._label_nodes(name), pa.string())
                columns[name] = labels.take(pa.array(self.nodes[name]))
            else:
                attribute = self.schema[name]
                columns[name] = attribute.decode(self.codes[name].astype(attribute.code_type))
            tell(done, len(self.evidence.columns))
        return pa.table(columns)

    def _label_nodes(self, name: str) -> list[str]:
        """Return the label of every node of a column; those of single bins are their edges."""
        tree, domain = self.tree(name), self.schema[name].domain
        labels = tree.labels()
        if isinstance(domain, Bins | Dates):
            single = dict(enumerate(value_labels(domain)))  # a missing value has none
            for node in np.flatnonzero(tree.level == 0).tolist():
                labels[node] = single.get(int(tree.group[node]), labels[node])
        return labels

    def loss(self, name: str) -> float:
        """Return the loss of granularity of a column, from 0 to 1; rows left out lose all of it."""
        tree = self.tree(name)
        losses = (tree.size - 1) / max(tree.levels.size - 1, 1)
        total = float(losses[self.nodes[name]].sum()) + self.evidence.left_out
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


def _read_nodes(schema: Schema, name: str, column: pa.ChunkedArray) -> Integers:
    """Return the nodes of a column; ReleaseError if the schema does not have one of them."""
    if column.null_count:
        raise ReleaseError(DAMAGED)
    nodes: Integers = column.to_numpy().astype(np.int64)
    return indices(nodes, len(nodes_of(schema[name]).size))


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
        lines = [
            f"{change.name}: {100 * change.unchanged:.0f} % of the rows show the value, "
            f"{100 * change.nothing:.0f} % nothing (*); on average a row may have "
            f"{change.values:.3g} of {change.possible:,} values."
            for change in self.columns
        ]
        whole = self.rows + self.left_out
        share = self.left_out / max(whole, 1)
        lines.append(f"{self.left_out:,} of {whole:,} rows ({100 * share:.2f} %) were left out.")
        lines.append(f"{self.quality:.3f} of the granularity is left (1: all, 0: none).")
        return lines

    def _format_cells(self) -> tuple[list[str], list[list[str]]]:
        header = ["column", "value shown", "nothing shown", "values a row may have", "loss"]
        rows = [
            [
                change.name,
                f"{100 * change.unchanged:.1f} %",
                f"{100 * change.nothing:.1f} %",
                f"{change.values:.3g} of {change.possible}",
                f"{change.loss:.3f}",
            ]
            for change in self.columns
        ]
        return header, rows

    def __repr__(self) -> str:
        header, rows = self._format_cells()
        return "\n".join([*text_table(header, rows, 1), *self.sentences()[-2:]])

    def _repr_html_(self) -> str:
        header, rows = self._format_cells()
        return html_table(header, rows, 1)


def remarks(schema: Schema, evidence: Evidence, folder: Path) -> tuple[str, ...]:
    """Return remarks for the owner: what was changed, and groups that give their values away."""
    published = GeneralisedRows.read(schema, evidence, folder)
    if not published.evidence.rows:
        return ()
    changes = published.changes()
    first = (
        f"The rows form {len(published.sizes):,} groups of {published.sizes.min():,} or more; "
        f"{changes.quality:.2f} of the granularity is left."
    )
    said = [first]
    for attribute in schema.sensitive:
        pairs = np.unique(np.stack([published.group, published.codes[attribute.name]]), axis=1)
        single = np.bincount(pairs[0]) == 1
        if single.any():
            rows = int(published.sizes[single].sum())
            said.append(
                f"In {int(single.sum()):,} groups with {rows:,} rows everybody has the same "
                f"{attribute.name}, which is told to everybody who finds the group. Ask for l."
            )
    return tuple(said)
