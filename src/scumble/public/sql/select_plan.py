"""SelectPlan: a SELECT as arithmetic over aggregates, with HAVING, ORDER BY and LIMIT.

A linear combination of sums over rows becomes one SUM of one expression (`linear_query`), so that
every kind of evidence gives its exact error law. A ratio whose denominator counts the rows that the
numerator is about becomes one AVG (`ratio_query`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scumble.model.query import Expression, Query, quoted
from scumble.public.estimate import GroupingColumn
from scumble.public.sql.aggregates import Scope, Term
from scumble.public.sql.arithmetic import Linear, Node, Ratio, terms_of


@dataclass(frozen=True)
class Key:
    """A column by which rows are grouped: an attribute, or an expression over attributes."""

    name: str
    expression: Expression
    attribute: str | None = None


@dataclass(frozen=True)
class Item:
    """A selected number and its name, which is its alias or else its text."""

    name: str
    node: Node
    alias: str = ""

    @property
    def is_count(self) -> bool:
        """Whether the number is a count of rows, as it stands."""
        return isinstance(self.node, Term) and self.node.kind == "count"


@dataclass(frozen=True)
class Join:
    """A public side table whose column `key` is compared with an expression over attributes."""

    table: str
    key: str


@dataclass(frozen=True)
class Arrangement:
    """HAVING, ORDER BY, LIMIT and OFFSET, as SQL over placeholders (see `placeholder`).

    `terms` are the aggregates that they name, and `groupings` the keys of each GROUPING.
    `by_estimates` says that the groups that are shown depend on the estimates, and `most_frequent`
    that the largest one is asked for by MODE. `ranked` is the SQL of the estimate by which groups
    are sorted first, if they are; `falling` says that the largest come first.
    """

    having: str | None = None
    order: str | None = None
    limit: int | None = None
    offset: int = 0
    terms: tuple[Term, ...] = ()
    by_estimates: bool = False
    most_frequent: bool = False
    groupings: tuple[tuple[int, ...], ...] = ()
    ranked: str = ""
    falling: bool = False


UNARRANGED = Arrangement()


@dataclass(frozen=True)
class SelectPlan:
    """A SELECT whose items are answered from estimates. `sets` are grouping sets of key indices."""

    keys: tuple[Key, ...]
    items: tuple[Item, ...]
    clauses: tuple[Expression, ...]
    sets: tuple[tuple[int, ...], ...]
    arrangement: Arrangement
    joins: tuple[Join, ...] = ()
    text: str = ""
    notes: tuple[str, ...] = ()
    groupings: tuple[GroupingColumn, ...] = ()

    @property
    def terms(self) -> list[Term]:
        """All aggregates, each once."""
        nodes = [term for item in self.items for term in terms_of(item.node)]
        return list(dict.fromkeys([*nodes, *self.arrangement.terms]))

    @property
    def expressions(self) -> list[Expression]:
        """Everything that is evaluated on the domain: keys, clauses and arguments."""
        found = [key.expression for key in self.keys] + list(self.clauses)
        for term in self.terms:
            if term.scope is not None:
                found += term.scope.clauses or ()
            found += [*term.clauses, *(e for e in (term.argument, term.second) if e is not None)]
        return found

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(sorted({name for each in self.expressions for name in each.attributes}))


def placeholder(kind: str, index: int) -> str:
    """Return the column of the table of estimates for a "key", an "item", a "term", or for the
    GROUPING of keys ("key grouping").
    """
    return f"scumble {kind} {index}"


def clauses_of(plan: SelectPlan, scope: Scope | None) -> tuple[Expression, ...]:
    """Return the conditions of the rows of a total, or (without a scope) of a group."""
    return plan.clauses if scope is None or scope.clauses is None else scope.clauses


def linear_query(plan: SelectPlan, form: Linear) -> tuple[Query, float]:
    """Return the question whose answer, times the second result, is a linear form of one scope."""
    [scope] = form.scopes
    clauses = clauses_of(plan, scope)
    if len(form.weights) == 1:
        [(term, weight)] = form.weights
        query = Query(
            "count" if term.kind == "count" else "sum",
            term.argument,
            _unique([*clauses, *term.clauses]),
            text=plan.text,
            notes=_notes(plan, form),
        )
        return query, weight
    shared = [c for c in form.weights[0][0].clauses if all(c in t.clauses for t, _ in form.weights)]
    return _summed(plan, form, (*clauses, *shared), "sum", {}), 1.0


def sum_query(
    plan: SelectPlan, form: Linear, conditions: Mapping[Term, Sequence[Expression]]
) -> Query:
    """Return the question for a linear form whose terms count where their `conditions` hold."""
    own = [conditions[term] for term, _ in form.weights]
    shared = [clause for clause in own[0] if all(clause in each for each in own)]
    return _summed(plan, form, shared, "sum", conditions)


def ratio_query(
    plan: SelectPlan, form: Ratio, group: Sequence[Expression] = ()
) -> tuple[Query, float] | None:
    """Return the question for an average whose answer, times the second result, is a ratio.

    None if the denominator is not a count, or if the numerator is about other rows as well. Under
    a total, an amount counts where its row is in the group, whose conditions are `group`.
    """
    if len(form.count.weights) != 1:
        return None
    [(count, weight)] = form.count.weights
    shared = (*clauses_of(plan, count.scope), *count.clauses)
    own = dict[Term, list[Expression]]()
    for term, _ in form.total.weights:
        if term.scope not in (None, count.scope):
            return None
        within = [*clauses_of(plan, term.scope), *term.clauses]
        if count.kind != "count" or not set(shared) <= set(within):
            return None
        own[term] = [*within, *(group if term.scope != count.scope else ())]
    return _summed(plan, form.total, shared, "mean", own), 1 / weight


def _summed(
    plan: SelectPlan,
    form: Linear,
    shared: Sequence[Expression],
    aggregate: str,
    conditions: Mapping[Term, Sequence[Expression]],
) -> Query:
    """Return SUM or AVG of one expression, over the rows that satisfy the clauses `shared`.

    A term counts where its `conditions` hold, without any where its own clauses do.
    """
    parts, attributes = [], set[str]()
    for term, weight in form.weights:
        amount = "1" if term.argument is None else f"({term.argument.sql})"
        if weight != 1:
            amount = f"{weight!r}::DOUBLE * {amount}"
        own = [c for c in conditions.get(term, term.clauses) if c not in shared]
        if own:
            condition = " AND ".join(f"({clause.sql})" for clause in own)
            amount = f"CASE WHEN {condition} THEN {amount} ELSE 0 END"
        parts.append(f"({amount})" if len(form.weights) > 1 else amount)
        for each in (*own, *([term.argument] if term.argument else [])):
            attributes.update(each.attributes)
    start = form.weights[0][0].start
    argument = Expression(" + ".join(parts), tuple(sorted(attributes)), start)
    return Query(
        "mean" if aggregate == "mean" else "sum",
        argument,
        _unique(shared),
        text=plan.text,
        notes=_notes(plan, form),
    )


def _notes(plan: SelectPlan, form: Linear) -> tuple[str, ...]:
    notes = [*plan.notes, *(note for term, _ in form.weights for note in term.notes)]
    return tuple(dict.fromkeys(notes))


def _unique(clauses: Sequence[Expression]) -> tuple[Expression, ...]:
    return tuple(dict.fromkeys(clauses))


def value_clause(expression: Expression, value: object, sql_type: str) -> Expression:
    """Return the condition that an expression has a value; None stands for NULL."""
    if value is None:
        sql = f"({expression.sql}) IS NULL"
    else:
        literal = "'" + str(value).replace("'", "''") + "'"
        sql = f"({expression.sql}) = CAST({literal} AS {sql_type})"
    return Expression(sql, expression.attributes, expression.start)


__all__ = [
    "Arrangement",
    "Item",
    "Join",
    "Key",
    "SelectPlan",
    "clauses_of",
    "linear_query",
    "placeholder",
    "quoted",
    "ratio_query",
    "value_clause",
]
