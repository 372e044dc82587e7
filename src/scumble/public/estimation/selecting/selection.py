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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from scumble.model.errors import QueryError
from scumble.model.long_work import part
from scumble.model.notebook import format_label
from scumble.model.query import Expression, Query, quoted
from scumble.model.schema.schema import Schema
from scumble.public.estimate import (
    ALL,
    LEVEL,
    ONLY_BOUNDS,
    Estimate,
    Estimates,
    Exact,
    GroupingColumn,
    Law,
    Unknown,
    scaled,
)
from scumble.public.estimate_table import OTHERS, EstimateTable, SelectedEstimates
from scumble.public.estimation.interval_laws import AverageLaw
from scumble.public.estimation.selecting.combined_laws import QUOTIENT, Combined, Quotient, combined
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
from scumble.public.estimation.selecting.regressions import IN_A_DATABASE, regressions
from scumble.public.estimation.selecting.selected_values import SELECTED, selected_values
from scumble.public.estimation.selecting.shares import (
    counted,
    is_share_of_counts,
    needed_counts,
    shares_of_counts,
    totals_of_counts,
)
from scumble.public.estimation.selecting.variances import needed, variances
from scumble.public.sandbox import Sandbox
from scumble.public.sql.aggregates import Scope, Term
from scumble.public.sql.arithmetic import (
    Apply,
    Constant,
    Linear,
    Node,
    Ratio,
    linear,
    ratio,
    ratios,
)
from scumble.public.sql.select_plan import (
    UNARRANGED,
    SelectPlan,
    clauses_of,
    linear_query,
    placeholder,
    ratio_query,
    sum_query,
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
        self.answerer = answerer
        self._known: dict[tuple[Query, tuple[int, ...]], dict[KeyValues, Estimate]] = {}
        self._scopes: dict[Scope | None, Groups] = {None: groups}

    @property
    def fixed(self) -> bool:
        """Whether what is asked must not depend on answers."""
        return self.answerer.combine is not None

    @cached_property
    def keys(self) -> list[KeyValues]:
        """The groups in which a row can satisfy WHERE."""
        if not self.groups.chosen:
            return [()]
        base = self.base
        if self.answerer.possible is not None:
            some = self.answerer.possible(self.groups.queries(base))
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

    def ask(self, query: Query, groups: Groups | None = None) -> dict[KeyValues, Estimate]:
        """Return the answer to a question for each group that is possible."""
        groups = groups or self.groups
        known = (query, groups.chosen)
        if known not in self._known:
            asked = self.answerer.ask(groups.queries(query))
            self._known[known] = groups.merged(asked)
        return self._known[known]

    def ask_all(self, queries: Sequence[Query], groups: Groups | None = None) -> None:
        """Ask several questions together, with few passes over the published data."""
        groups = groups or self.groups
        chosen = groups.chosen
        new = [query for query in dict.fromkeys(queries) if (query, chosen) not in self._known]
        asked = [each for query in new for each in groups.queries(query)]
        answers, size = self.answerer.ask(asked), len(groups.combinations)
        for place, query in enumerate(new):
            own = answers[place * size : (place + 1) * size]
            self._known[query, chosen] = groups.merged(own)

    def ask_about(self, key: KeyValues, queries: Sequence[Query]) -> list[Estimate]:
        """Return the answers to questions that depend on answers, about the rows of one group."""
        clauses = self.groups.conditions(key, replace(self.groups, chosen=()))
        asked = [replace(query, clauses=(*query.clauses, *clauses)) for query in queries]
        return [answer[()] for answer in self.answerer.ask(asked)]

    def total_groups(self, scope: Scope | None) -> Groups:
        """Return the groups of a total: those of the keys within which it is one."""
        if scope is not None and scope not in self._scopes:
            keys = self.plan.keys
            chosen = [i for i in self.groups.chosen if keys[i].expression in scope.within]
            self._scopes[scope] = replace(self.groups, chosen=tuple(chosen))
        return self._scopes[scope]

    def combine(
        self, counts: CountsBy, key: KeyValues, weights: Mapping[float, float]
    ) -> Estimate | None:
        """Return Σ weight · count by value in a group, of a database; None if it has no counts."""
        assert self.answerer.combine is not None  # noqa: S101  (`fixed` says so)
        one, attributes = self.groups.counts_of(counts, key)
        parts = [(weight, one, (*attributes, value)) for value, weight in weights.items()]
        return self.answerer.combine(parts)

    def needed(self) -> list[Needed]:
        """Return all that `fixed` selections ask for, one question for each combination."""
        nodes: list[Node] = [item.node for item in self.plan.items]
        nodes += self.plan.arrangement.terms
        found: list[Needed] = []
        for need, groups in (each for node in nodes for each in _needs(self, node)):
            if isinstance(need, CountsBy):
                found += [replace(need, query=each) for each in groups.queries(need.query)]
            else:
                found += groups.queries(need)
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
        assert isinstance(node, Apply)  # noqa: S101  (a constant is a linear form)
        averages = None if self.fixed else ratios(node)
        if averages is not None:
            return self._of_averages(node, *averages)
        return self._apart(node)

    def _apart(self, node: Apply) -> dict[KeyValues, Estimate]:
        """Return a formula by the intervals of its parts."""
        leaves = {leaf: self.estimates(leaf) for part in node.parts for leaf in _leaves(part)}
        return {
            key: combined(node, {leaf: found[key] for leaf, found in leaves.items()})
            for key in self.keys
        }

    def _linear(self, form: Linear) -> dict[KeyValues, Estimate]:
        if not form.weights:
            constant = Estimate(form.constant, Exact(), "a constant")
            return dict.fromkeys(self.keys, constant)
        [scope] = form.scopes
        if self.fixed and scope is not None and counted(self.plan, form):
            return totals_of_counts(self, form)
        groups = self.total_groups(scope)
        query, factor = linear_query(self.plan, form)
        found = self.ask(query, groups)
        empty = nothing(query, NO_CELL) if query.aggregate == "sum" else none_counted(query)
        return {
            key: scaled(found.get(self.groups.within(key, groups), empty), factor, form.constant)
            for key in self.keys
        }

    def _ratio(self, form: Ratio) -> dict[KeyValues, Estimate]:
        [scope] = form.count.scopes
        groups, inside = self.total_groups(scope), form.total.scopes == {scope}
        if self.fixed and not inside:
            of_counts = is_share_of_counts(self.plan, form)
            return shares_of_counts(self, form) if of_counts else self._quotient(form)
        asked = dict[KeyValues, tuple[Query, float]]()
        for key in self.keys:
            group = () if inside else self.groups.conditions(key, groups)
            average = ratio_query(self.plan, form, group)
            if average is None:
                return self._quotient(form)
            asked[key] = average
        self.ask_all([query for query, _ in asked.values()], groups)
        found = {}
        for key, (query, factor) in asked.items():
            answers, empty = self.ask(query, groups), nothing(query, NO_CELL)
            found[key] = scaled(answers.get(self.groups.within(key, groups), empty), factor)
        return found

    def _quotient(self, form: Ratio) -> dict[KeyValues, Estimate]:
        """Return a quotient of two sums; in a database, by the intervals of its parts."""
        total, count = _node(form.total), _node(form.count)
        found = self._apart(Apply("/", (total, count)))
        if self.fixed:
            return found
        counts = self._linear(form.count)

        def law(key: KeyValues, value: float) -> Law:
            def differences(r: float, _level: float | None) -> list[Estimate]:
                return self._sums(key, [form.total.plus(form.count.scaled(-r))])

            return Quotient(value, counts[key], counts[key].value, differences)

        return _with_laws(found, law)

    def _of_averages(self, node: Apply, one: Ratio, other: Ratio) -> dict[KeyValues, Estimate]:
        """Return a quotient A/C : B/D of two averages, which are over different rows.

        With the true m = B/D and w = C/D, A - r m C - r w (B - m D) is 0 for the true quotient r.
        It is linear in both, so that it is a mixture of its forms at the limits of m and w. Of
        these errors it has their product alone.
        """
        found, means = self._apart(node), self._ratio(other)
        shares, counts = self._ratio(Ratio(one.count, other.count)), self._linear(one.count)

        def law(key: KeyValues, value: float) -> Law:
            mean, share = means[key], shares[key]

            def differences(r: float, level: float | None) -> list[Estimate]:
                ends = [
                    (each.value,) if level is None else each.interval(level)
                    for each in (mean, share)
                ]
                if not all(map(math.isfinite, (*ends[0], *ends[1]))):
                    return [Estimate(0.0, Unknown(), "")]
                forms = [
                    one.total.plus(one.count.scaled(-r * m))
                    .plus(other.total.scaled(-r * w))
                    .plus(other.count.scaled(r * w * m))
                    for m, w in product(*ends)
                ]
                return self._sums(key, list(dict.fromkeys(forms)))

            return Quotient(value, mean, mean.value * counts[key].value, differences)

        return _with_laws(found, law)

    def _sums(self, key: KeyValues, forms: Sequence[Linear]) -> list[Estimate]:
        """Return the estimates of linear forms in a group, whose terms may have several scopes."""
        asked = list[Query]()
        for form in forms:
            conditions = dict[Term, Sequence[Expression]]()
            for term, _ in form.weights:
                groups = self.total_groups(term.scope)
                within = self.groups.within(key, groups)
                own = groups.conditions(within, replace(groups, chosen=()))
                conditions[term] = [*clauses_of(self.plan, term.scope), *term.clauses, *own]
            asked.append(sum_query(self.plan, form, conditions))
        return [answer[()] for answer in self.answerer.ask(asked)]

    def _other(self, term: Term) -> dict[KeyValues, Estimate]:
        """Return the estimates of an aggregate that is neither a sum nor an average."""
        if term.kind == "quantile":
            return quantiles(self, term)
        if term.kind in ("variance", "covariance"):
            return variances(self, term)
        if term.kind == "regression":
            return regressions(self, term)
        return exact_values(self, term)


def _with_laws(
    found: dict[KeyValues, Estimate], law: Callable[[KeyValues, float], Law]
) -> dict[KeyValues, Estimate]:
    """Return quotients with a law of their own, but those that are exact or have no value."""
    for key, each in found.items():
        if isinstance(each.law, Combined) and not math.isnan(each.value):
            found[key] = replace(each, law=law(key, each.value), method=QUOTIENT)
    return found


def _needs(selection: Selection, node: Node) -> list[tuple[Needed, Groups]]:
    """Return the questions whose answers `Selection.estimates` needs for a number, with the groups
    that they are asked for.
    """
    plan, own = selection.plan, selection.groups
    form, quotient = linear(node), ratio(node)
    if form is not None:
        if not form.weights:
            return []
        [scope] = form.scopes
        if scope is not None and counted(plan, form):
            return needed_counts(selection, form)
        return [(linear_query(plan, form)[0], selection.total_groups(scope))]
    if quotient is not None:
        return _needs_of_ratio(selection, quotient)
    if not isinstance(node, Term):
        return [need for leaf in _leaves(node) for need in _needs(selection, leaf)]
    if node.kind == "quantile":
        return [(Inversion(selection, node).counts, own)]
    if node.kind in ("variance", "covariance"):
        return [(query, own) for query in needed(selection, node)]
    if node.kind == "regression":
        raise QueryError(IN_A_DATABASE)
    raise refused(node)


def _needs_of_ratio(selection: Selection, form: Ratio) -> list[tuple[Needed, Groups]]:
    plan, [scope] = selection.plan, form.count.scopes
    parts = (form.total, form.count)
    if form.total.scopes == {scope}:
        average = ratio_query(plan, form)
        if average is not None:
            return [(average[0], selection.total_groups(scope))]
    elif is_share_of_counts(plan, form):
        return [need for part in parts for need in needed_counts(selection, part)]
    leaves = [leaf for part in parts for leaf in _leaves(_node(part))]
    return [need for leaf in leaves for need in _needs(selection, leaf)]


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


Row = tuple[KeyValues, tuple[Estimate, ...]]


class EstimateRows:
    """Collects the rows of all grouping sets; applies HAVING, ORDER BY and LIMIT."""

    def __init__(self, plan: SelectPlan, schema: Schema, sandbox: Sandbox) -> None:
        self.plan, self.schema, self.sandbox = plan, schema, sandbox
        self.rows: list[Row] = []
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
            places = self._places()
            if arrangement.by_estimates and len(places) < len(self.rows):
                self._shrink()
            rows = [self.rows[place] for place in places]
        among = len(self.rows) if arrangement.by_estimates else len(rows)
        about = self.plan.notes
        if arrangement.most_frequent:
            about = (*about, most_frequent_note(self.rows, rows))
        elif 0 < len(rows) < among:
            ranked = self._ranked()
            rivals = (
                OTHERS if ranked is None else top_note(ranked, rows, falling=arrangement.falling)
            )
            about = (*about, rivals)
        if any(e.selected_value is not None for _, estimates in rows for e in estimates):
            about = (*about, SELECTED)
        types = [
            (key.name, self.types.get(index, pa.null())) for index, key in enumerate(self.plan.keys)
        ]
        names, groupings = [item.name for item in self.plan.items], self.plan.groupings
        if len(names) > 1:
            return EstimateTable(types, names, rows, among, about, groupings)
        single = [(key, estimates[0]) for key, estimates in rows]
        alias = self.plan.items[0].alias
        if not types and len(single) == 1:
            return replace(single[0][1], alias=alias)
        aliases = [*("" for _ in types), alias]
        if among > len(rows):
            return SelectedEstimates(types, single, among, about, aliases, groupings)
        return Estimates(types, single, about, aliases, groupings)

    def _shrink(self) -> None:
        """Give the numbers by which groups are chosen their shrunk values: those of each grouping
        set are shrunk together.
        """
        arrangement = self.plan.arrangement
        first = arrangement.order if arrangement.most_frequent else arrangement.ranked
        choosing = f"{arrangement.having or ''} {first}"
        named = {
            term
            for index, term in enumerate(arrangement.terms)
            if quoted(placeholder("term", index)) in choosing
        }
        sets: dict[tuple[bool, ...], list[int]] = {}
        for place, (key, _) in enumerate(self.rows):
            sets.setdefault(tuple(part is ALL for part in key), []).append(place)
        for index, item in enumerate(self.plan.items):
            if quoted(placeholder("item", index)) not in choosing and item.node not in named:
                continue
            for places in sets.values():
                shrunk = selected_values([self.rows[place][1][index] for place in places])
                for place, number in zip(places, shrunk, strict=True):
                    key, row = self.rows[place]
                    chosen = replace(row[index], selected_value=number)
                    self.rows[place] = key, (*row[:index], chosen, *row[index + 1 :])

    def _ranked(self) -> list[tuple[KeyValues, Estimate]] | None:
        """Return the groups with the estimate of which the first ones are shown; None if they are
        chosen in another way.
        """
        arrangement = self.plan.arrangement
        if arrangement.having is not None or arrangement.offset or arrangement.limit is None:
            return None
        columns = {"item": [estimates for _, estimates in self.rows], "term": self.terms}
        for kind, numbers in columns.items():
            for index in range(len(numbers[0])):
                if arrangement.ranked == quoted(placeholder(kind, index)):
                    pairs = zip(self.rows, numbers, strict=True)
                    return [(key, estimates[index]) for (key, _), estimates in pairs]
        return None

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


_LISTED = 5  # groups that are named
_EXAMINED = 200  # averages whose intervals are computed to find these


def most_frequent_note(rows: Sequence[Row], shown: Sequence[Row]) -> str:
    """Return the note on the value that MODE chose: which others may be the most frequent too."""
    if not shown:
        return "no value can occur"
    others = list_rivals([(key, counts[0]) for key, counts in rows], shown, falling=True)
    chosen = f"{format_label(shown[0][0][0])} has the largest estimated count"
    if not others:
        return f"{chosen}, and no other value can be the most frequent (95 %)"
    return f"{chosen}, but these may be more frequent (95 %): {others}"


def top_note(
    ranked: Sequence[tuple[KeyValues, Estimate]], shown: Sequence[Row], *, falling: bool
) -> str:
    """Return the note on the first groups of a list: which others may belong to them."""
    others = list_rivals(ranked, shown, falling=falling)
    end = "largest" if falling else "smallest"
    which = f"the {end}" if len(shown) == 1 else f"among the {len(shown)} {end}"
    if not others:
        return f"no other group can be {which} (95 %)"
    return f"these groups may be {which} too (95 %): {others}"


def list_rivals(
    ranked: Sequence[tuple[KeyValues, Estimate]], shown: Sequence[Row], *, falling: bool
) -> str:
    """Return the groups that are not shown and may belong to as many largest (or smallest) ones as
    are: a few by name, those with the most extreme estimates first. Empty if there are none.

    With G groups, each number is in its interval at 1 - α/G, all of them together with probability
    1 - α. Then the k-th largest number is at least the k-th largest of the lower limits. Intervals
    of averages are slow: of many, those with less extreme estimates count as possible.
    """
    level, sign = 1 - (1 - LEVEL) / len(ranked), 1 if falling else -1
    values = [math.inf if math.isnan(each.value) else -sign * each.value for _, each in ranked]
    ordered = [ranked[place] for place in np.argsort(values, kind="stable")]
    slow = any(isinstance(each.law, AverageLaw) for _, each in ranked)
    examined = ordered[:_EXAMINED] if slow else ordered
    lows, highs = [], []
    for _, estimate in examined:
        ends = sorted(sign * limit for limit in estimate.interval(level))
        low, high = (-math.inf, math.inf) if any(map(math.isnan, ends)) else ends
        lows.append(low)
        highs.append(high)
    lows += [-math.inf] * len(shown)
    least = sorted(lows, reverse=True)[len(shown) - 1]
    highs += [math.inf] * (len(ordered) - len(examined))
    known = {key for key, _ in shown}
    pairs = zip(ordered, highs, strict=True)
    others = [key for (key, _), high in pairs if key not in known and high >= least]
    listed = ", ".join(map(_label, others[:_LISTED]))
    up_to = "up to " if len(examined) < len(ordered) else ""
    more = f" and {up_to}{len(others) - _LISTED:,} more" if len(others) > _LISTED else ""
    return f"{listed}{more}"


def _label(key: KeyValues) -> str:
    labels = list(map(format_label, key))
    return labels[0] if len(labels) == 1 else f"({', '.join(labels)})"


def _numbers(estimates: Sequence[Estimate]) -> pa.Array:
    """Return the numbers by which groups are arranged: values; where only a limit on one side is
    known, that limit; null where nothing is.
    """
    values = [each.value for each in estimates]
    for place, each in enumerate(estimates):
        if each.reason == ONLY_BOUNDS:
            values[place] = next(filter(math.isfinite, each.interval()), math.nan)
    return pa.array([None if math.isnan(each) else float(each) for each in values], pa.float64())
