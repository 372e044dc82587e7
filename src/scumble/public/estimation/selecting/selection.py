"""Answers to a `SelectPlan`, from answers to COUNT, SUM and AVG.

1. For each grouping set, `Groups` are the values of the keys: domain values of attributes, and
   values of expressions on the public domain. Each value of an expression is one more clause.
2. `Selection.estimates` asks one question for a linear combination or an average, and combines the
   estimates of anything else (`combined_laws`).
3. HAVING, ORDER BY and LIMIT are applied to the estimates by DuckDB.

A release is asked as the answer is computed. A database must know everything that it will be asked
before it charges anything: `Selection.needed` lists it, from the plan alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from scumble.model.errors import QueryError
from scumble.model.long_work import part
from scumble.model.query import Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimate import ALL, Estimate, Estimates, Exact, GroupingColumn, scaled
from scumble.public.estimate_table import EstimateTable, SelectedEstimates
from scumble.public.estimation.selecting.combined_laws import combined
from scumble.public.estimation.selecting.exact_values import exact_values, refused
from scumble.public.estimation.selecting.groups import (
    NO_CELL,
    Answerer,
    Ask,
    CountsBy,
    Groups,
    KeyValues,
    Needed,
    none_counted,
    nothing,
)
from scumble.public.estimation.selecting.quantiles import Inversion, quantiles
from scumble.public.estimation.selecting.variances import needed, variances
from scumble.public.sandbox import Sandbox
from scumble.public.sql.aggregates import Term
from scumble.public.sql.arithmetic import Apply, Constant, Linear, Node, Ratio, linear, ratio
from scumble.public.sql.select_plan import (
    UNARRANGED,
    SelectPlan,
    linear_query,
    placeholder,
    ratio_query,
)


def select(
    plan: SelectPlan, schema: Schema, sandbox: Sandbox, ask: Ask
) -> Estimate | Estimates | EstimateTable:
    """Return the answer to a plan. `ask` answers COUNT, SUM and AVG questions by attributes."""
    check_plan(plan, sandbox)
    table = EstimateRows(plan, schema, sandbox)
    for number, chosen in enumerate(plan.sets):
        groups = Groups(plan, schema, sandbox, chosen)
        with part(number, len(plan.sets)):
            table.add(groups, Selection(plan, groups, sandbox, Answerer(ask)))
    return table.answer()


def check_plan(plan: SelectPlan, sandbox: Sandbox) -> None:
    """Raise `QueryError` if types do not fit, or if the key of a joined table is not unique."""
    for join in plan.joins:
        key, table = quoted(join.key), quoted(join.table)
        found = sandbox.rows(f"SELECT count({key}) - count(DISTINCT {key}) FROM {table}")
        if found.column(0)[0].as_py():
            raise QueryError(
                f"The column '{join.key}' of the side table '{join.table}' has equal values: a "
                "join needs a key that is unique."
            )
    for term in plan.terms:
        kind = "sum" if term.kind not in ("count", "distinct", "min", "max", "quantile") else None
        clauses = (*plan.clauses, *term.clauses)
        for argument in (term.argument, term.second) if kind else (None,):
            if argument is not None or not kind:
                sandbox.check(Query("sum" if kind else "count", argument, clauses, text=plan.text))


class Selection:
    """The estimates of one grouping set; every question is asked once."""

    def __init__(
        self, plan: SelectPlan, groups: Groups, sandbox: Sandbox, answerer: Answerer
    ) -> None:
        self.plan, self.groups, self.sandbox = plan, groups, sandbox
        self._answerer = answerer
        self._known: dict[Query, dict[KeyValues, Estimate]] = {}

    @property
    def fixed(self) -> bool:
        """Whether what is asked must not depend on answers."""
        return self._answerer.combine is not None

    @cached_property
    def keys(self) -> list[KeyValues]:
        """The groups in which a row can satisfy WHERE."""
        if not self.groups.chosen:
            return [()]
        base = self.base
        if self._answerer.possible is not None:
            some = self._answerer.possible(self.groups.queries(base))
            one = Estimate(1.0, Exact(), "")
            present = self.groups.merged([dict.fromkeys(each, one) for each in some])
            return self.groups.order(list(present))
        found = self.ask(base)
        impossible = [
            key for key, each in found.items() if self.groups.expressions and _is_nothing(each)
        ]
        return self.groups.order([key for key in found if key not in impossible])

    @cached_property
    def base(self) -> Query:
        """The count of the rows that satisfy WHERE."""
        return Query("count", None, self.plan.clauses, text=self.plan.text, notes=self.plan.notes)

    def ask(self, query: Query) -> dict[KeyValues, Estimate]:
        """Return the answer to a question for each group that is possible."""
        if query not in self._known:
            asked = self._answerer.ask(self.groups.queries(query))
            self._known[query] = self.groups.merged(asked)
        return self._known[query]

    def ask_all(self, queries: Sequence[Query]) -> None:
        """Ask several questions together, with few passes over the published data."""
        new = [query for query in dict.fromkeys(queries) if query not in self._known]
        asked = [each for query in new for each in self.groups.queries(query)]
        answers, size = self._answerer.ask(asked), len(self.groups.combinations)
        for place, query in enumerate(new):
            own = answers[place * size : (place + 1) * size]
            self._known[query] = self.groups.merged(own)

    def combine(
        self, counts: CountsBy, key: KeyValues, weights: Mapping[float, float]
    ) -> Estimate | None:
        """Return Σ weight · count by value in a group, of a database; None if it has no counts."""
        assert self._answerer.combine is not None  # noqa: S101  (`fixed` says so)
        clauses, attributes = self.groups.parted(key)
        query = counts.query
        one = replace(query, clauses=(*query.clauses, *clauses), groups=self.groups.attributes)
        return self._answerer.combine(replace(counts, query=one), attributes, weights)

    def needed(self) -> list[Needed]:
        """Return all that `fixed` selections ask for, one question for each combination."""
        nodes: list[Node] = [item.node for item in self.plan.items]
        nodes += self.plan.arrangement.terms
        wanted = [need for node in nodes for need in _needs(self, node)]
        found: list[Needed] = []
        for need in dict.fromkeys(wanted):
            if isinstance(need, CountsBy):
                found += [replace(need, query=each) for each in self.groups.queries(need.query)]
            else:
                found += self.groups.queries(need)
        return list(dict.fromkeys(found))

    def estimates(self, node: Node) -> dict[KeyValues, Estimate]:
        """Return the estimate of a number for each group."""
        form = linear(node)
        if form is not None:
            return self._linear(form)
        quotient = ratio(node)
        if quotient is not None:
            return self._ratio(quotient)
        if isinstance(node, Term):
            return self._other(node)
        leaves = {leaf: self.estimates(leaf) for leaf in _leaves(node)}
        return {
            key: combined(node, {leaf: found[key] for leaf, found in leaves.items()})
            for key in self.keys
        }

    def _linear(self, form: Linear) -> dict[KeyValues, Estimate]:
        if not form.weights:
            constant = Estimate(form.constant, Exact(), "a constant")
            return dict.fromkeys(self.keys, constant)
        query, factor = linear_query(self.plan, form)
        found = self.ask(query)
        empty = nothing(query, NO_CELL) if query.aggregate == "sum" else none_counted(query)
        return {key: scaled(found.get(key, empty), factor, form.constant) for key in self.keys}

    def _ratio(self, form: Ratio) -> dict[KeyValues, Estimate]:
        average = ratio_query(self.plan, form)
        if average is not None:
            query, factor = average
            found, empty = self.ask(query), nothing(query, NO_CELL)
            return {key: scaled(found.get(key, empty), factor) for key in self.keys}
        parts = (_node(form.total), _node(form.count))
        totals, counts = self._linear(form.total), self._linear(form.count)
        node = Apply("/", parts)
        return {
            key: combined(node, {parts[0]: totals[key], parts[1]: counts[key]}) for key in self.keys
        }

    def _other(self, term: Term) -> dict[KeyValues, Estimate]:
        """Return the estimates of an aggregate that is neither a sum nor an average."""
        if term.kind == "quantile":
            return quantiles(self, term)
        if term.kind in ("variance", "covariance", "corr"):
            return variances(self, term)
        return exact_values(self, term)


def _needs(selection: Selection, node: Node) -> list[Needed]:
    """Return the questions whose answers `Selection.estimates` needs for a number."""
    form, quotient = linear(node), ratio(node)
    if form is not None:
        return [linear_query(selection.plan, form)[0]] if form.weights else []
    if quotient is not None:
        average = ratio_query(selection.plan, quotient)
        if average is not None:
            return [average[0]]
        parts = [part for part in (quotient.total, quotient.count) if part.weights]
        return [linear_query(selection.plan, part)[0] for part in parts]
    if not isinstance(node, Term):
        return [need for leaf in _leaves(node) for need in _needs(selection, leaf)]
    if node.kind == "quantile":
        return [Inversion(selection, node).counts]
    if node.kind in ("variance", "covariance", "corr"):
        return list(needed(selection, node))
    raise refused(node)


def _leaves(node: Node) -> list[Node]:
    """Return the largest parts of a node that have an error law of their own."""
    if isinstance(node, Constant):
        return []
    if isinstance(node, Term) or linear(node) is not None or ratio(node) is not None:
        return [node]
    return list(dict.fromkeys(leaf for part in node.parts for leaf in _leaves(part)))


def _node(form: Linear) -> Node:
    """Return a node for a linear form."""
    found: Node | None = None
    for term, weight in form.weights:
        part: Node = term if weight == 1 else Apply("*", (Constant(weight), term))
        found = part if found is None else Apply("+", (found, part))
    return found or Constant(0.0)


def _is_nothing(estimate: Estimate) -> bool:
    return isinstance(estimate.law, Exact) and not estimate.value


class EstimateRows:
    """Collects the rows of all grouping sets; applies HAVING, ORDER BY and LIMIT."""

    def __init__(self, plan: SelectPlan, schema: Schema, sandbox: Sandbox) -> None:
        self.plan, self.schema, self.sandbox = plan, schema, sandbox
        self.rows: list[tuple[KeyValues, tuple[Estimate, ...]]] = []
        self.terms: list[tuple[Estimate, ...]] = []
        self.types: dict[int, pa.DataType] = {}

    def add(self, groups: Groups, selection: Selection) -> None:
        """Add the rows of one grouping set."""
        self.types |= groups.types()
        nodes = [*(item.node for item in self.plan.items), *self.plan.arrangement.terms]
        found = []
        for number, node in enumerate(nodes):
            with part(number, len(nodes)):
                found.append(selection.estimates(node))
        items, terms = found[: len(self.plan.items)], found[len(self.plan.items) :]
        for key in selection.keys:
            values = dict(zip(groups.chosen, key, strict=True))
            whole = tuple(values.get(index, ALL) for index in range(len(self.plan.keys)))
            self.rows.append((whole, tuple(each[key] for each in items)))
            self.terms.append(tuple(each[key] for each in terms))

    def answer(self) -> Estimate | Estimates | EstimateTable:
        """Return one estimate, `Estimates`, or an `EstimateTable` of several numbers."""
        arrangement = self.plan.arrangement
        rows = self.rows
        if arrangement != UNARRANGED:
            rows = [rows[place] for place in self._places()]
        among = len(self.rows) if arrangement.by_estimates else len(rows)
        types = [
            (key.name, self.types.get(index, pa.null())) for index, key in enumerate(self.plan.keys)
        ]
        names, groupings = [item.name for item in self.plan.items], self.plan.groupings
        if len(names) > 1:
            return EstimateTable(types, names, rows, among, self.plan.notes, groupings)
        single = [(key, estimates[0]) for key, estimates in rows]
        alias = self.plan.items[0].alias
        if not types and len(single) == 1:
            return replace(single[0][1], alias=alias)
        aliases = [*("" for _ in types), alias]
        if among > len(rows):
            return SelectedEstimates(types, single, among, self.plan.notes, aliases, groupings)
        return Estimates(types, single, self.plan.notes, aliases, groupings)

    def _places(self) -> list[int]:
        """Return the places of the rows that are shown, in their order."""
        arrangement = self.plan.arrangement
        columns: dict[str, Any] = {"scumble row": pa.array(range(len(self.rows)), pa.int64())}
        for index in range(len(self.plan.keys)):
            values = [None if key[index] is ALL else key[index] for key, _ in self.rows]
            columns[placeholder("key", index)] = pa.array(values, self.types.get(index, pa.null()))
        for index, keys in enumerate(arrangement.groupings):
            totals = [GroupingColumn("", keys).at(key) for key, _ in self.rows]
            columns[placeholder("key grouping", index)] = pa.array(totals, pa.int32())
        for index in range(len(self.plan.items)):
            columns[placeholder("item", index)] = _numbers([row[index] for _, row in self.rows])
        for index in range(len(arrangement.terms)):
            columns[placeholder("term", index)] = _numbers([row[index] for row in self.terms])
        order = ", ".join(part for part in (arrangement.order, '"scumble row"') if part)
        sql = f"WHERE ({arrangement.having or 'true'}) ORDER BY {order}"
        if arrangement.limit is not None:
            sql += f" LIMIT {arrangement.limit}"
        if arrangement.offset:
            sql += f" OFFSET {arrangement.offset}"
        found = self.sandbox.arranged(pa.table(columns), "scumble row", sql)
        places: list[int] = found.to_pylist()
        return places


def _numbers(estimates: Sequence[Estimate]) -> pa.Array:
    values = [None if math.isnan(each.value) else float(each.value) for each in estimates]
    return pa.array(values, pa.float64())
