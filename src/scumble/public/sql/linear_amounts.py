"""The linear form of an expression in one column: how often it adds it, and what else it adds.

A sum of amounts was measured by cells of other columns. It answers SUM and AVG of an expression
that is `rest + factor · amount` in every cell, where neither depends on the amount.

Sums of products of amounts answer those of a polynomial of degree 2 in several columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from scumble.model.query import Expression
from scumble.public.sql.bounding import BoundedTree, NotBoundedError

_FLOATS = frozenset({"DOUBLE", "FLOAT"})


class LinearForm(NamedTuple):
    """An expression as SQL over the other columns: `rest` + `factor` times the amount where there
    is one, and `absent` where it is missing.
    """

    rest: str
    factor: str
    absent: str

    @property
    def known(self) -> tuple[str, str]:
        """That it is not NULL, where there is an amount and where it is missing."""
        return f"(({self.rest}) + ({self.factor})) IS NOT NULL", f"({self.absent}) IS NOT NULL"

    def apply(self, *sides: str) -> LinearForm:
        """Return what an operation with a number makes of all three, given the SQL before and
        after them.
        """
        before, after = sides
        rest, factor, absent = (f"{before}({each}){after}" for each in self)
        return LinearForm(rest, factor, absent)


class LinearTree(BoundedTree):
    """The syntax tree of an expression; `NotBoundedError` if it is not linear in the column."""

    def __init__(self, expression: Expression, column: str) -> None:
        super().__init__(expression, [column])

    @property
    def form(self) -> LinearForm:
        """The expression as a number."""
        return self._form(self.root)

    @property
    def condition(self) -> tuple[str, str]:
        """The expression as a condition: where there is an amount, and where it is missing."""
        return self._condition(self.root)

    def _form(self, node: exp.Expr) -> LinearForm:
        if not self._names(node):
            text = self.text(node)
            return LinearForm(text, f"0 * ({text})", text)
        if isinstance(node, exp.Column):
            return LinearForm("0", "1", "NULL")
        if isinstance(node, exp.Paren):
            return self._form(node.this)
        if isinstance(node, exp.Neg):
            return self._form(node.this).apply("-", "")
        if isinstance(node, exp.Cast) and node.to.this.name in _FLOATS:
            return self._form(node.this)
        if isinstance(node, exp.Add | exp.Sub):
            sign = "+" if isinstance(node, exp.Add) else "-"
            both = zip(self._form(node.this), self._form(node.expression), strict=True)
            return LinearForm(*(f"(({one}) {sign} ({other}))" for one, other in both))
        if isinstance(node, exp.Mul | exp.Div):
            return self._scaled(node)
        if isinstance(node, exp.Case) and node.this is None:
            branches = [(each.this, each.args["true"]) for each in node.args["ifs"]]
            return self._branched(branches, node.args.get("default"))
        if isinstance(node, exp.Anonymous):
            return self._called(self._name(node), node.expressions)
        raise NotBoundedError

    def _scaled(self, node: exp.Expr) -> LinearForm:
        sign = "*" if isinstance(node, exp.Mul) else "/"
        if not self._names(node.expression):
            return self._form(node.this).apply("(", f" {sign} {self.text(node.expression)})")
        if sign == "*" and not self._names(node.this):
            return self._form(node.expression).apply(f"({self.text(node.this)} * ", ")")
        raise NotBoundedError

    def _branched(
        self, branches: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None
    ) -> LinearForm:
        otherwise = LinearForm("NULL", "NULL", "NULL") if default is None else self._form(default)
        found = [(self._condition(one), self._form(value)) for one, value in branches]
        return self._chosen(found, otherwise)

    def _chosen(
        self, branches: Sequence[tuple[tuple[str, str], LinearForm]], otherwise: LinearForm
    ) -> LinearForm:
        parts = []
        for place, last in enumerate(otherwise):
            whens = " ".join(
                f"WHEN {holds[place == 2]} THEN {form[place]}" for holds, form in branches
            )
            parts.append(f"(CASE {whens} ELSE {last} END)")
        return LinearForm(*parts)

    def _called(self, name: str, given: Sequence[exp.Expr]) -> LinearForm:
        if name == "if" and len(given) == 3:
            return self._branched([(given[0], given[1])], given[2])
        if name in ("coalesce", "ifnull") and given:
            *first, last = map(self._form, given)
            return self._chosen([(form.known, form) for form in first], last)
        raise NotBoundedError

    def _condition(self, node: exp.Expr) -> tuple[str, str]:
        if not self._names(node):
            text = self.text(node)
            return text, text
        if isinstance(node, exp.Paren):
            return self._condition(node.this)
        if isinstance(node, exp.Not):
            one, other = self._condition(node.this)
            return f"(NOT {one})", f"(NOT {other})"
        if isinstance(node, exp.And | exp.Or):
            word = "AND" if isinstance(node, exp.And) else "OR"
            both = zip(self._condition(node.this), self._condition(node.expression), strict=True)
            one, other = (f"({first} {word} {second})" for first, second in both)
            return one, other
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            one, other = self._form(node.this).known
            return f"(NOT ({one}))", f"(NOT ({other}))"
        raise NotBoundedError


class Polynomial(dict[tuple[str, ...], str]):
    """SQL of the factor of each product of columns, whose names are in rising order; () is the
    product of none.
    """

    @property
    def known(self) -> tuple[str, str]:
        """That it is not NULL, where all amounts are there and where one is missing."""
        return f"({' + '.join(f'({each})' for each in self.values())}) IS NOT NULL", "false"

    def apply(self, *sides: str) -> Polynomial:
        """Return what an operation with a number makes of all factors, given the SQL before and
        after them.
        """
        before, after = sides
        return Polynomial({key: f"{before}({sql}){after}" for key, sql in self.items()})


class PolynomialTree(LinearTree):
    """The syntax tree of an expression; `NotBoundedError` if it is no polynomial of degree 2 in
    some columns.
    """

    def __init__(self, expression: Expression, columns: Sequence[str]) -> None:
        BoundedTree.__init__(self, expression, columns)

    @property
    def polynomial(self) -> Polynomial:
        """The expression as a number."""
        return self._polynomial(self.root)

    def _condition(self, node: exp.Expr) -> tuple[str, str]:
        if isinstance(node, exp.Is) and self._names(node) and isinstance(node.expression, exp.Null):
            one, other = self._polynomial(node.this).known
            return f"(NOT ({one}))", f"(NOT ({other}))"
        return super()._condition(node)

    def _polynomial(self, node: exp.Expr) -> Polynomial:
        if not self._names(node):
            return Polynomial({(): self.text(node)})
        if isinstance(node, exp.Column):
            return Polynomial({(node.name,): "1"})
        floats = isinstance(node, exp.Cast) and node.to.this.name in _FLOATS
        if isinstance(node, exp.Paren) or floats:
            return self._polynomial(node.this)
        if isinstance(node, exp.Neg):
            return self._polynomial(node.this).apply("-", "")
        if isinstance(node, exp.Add | exp.Sub):
            first, second = self._polynomial(node.this), self._polynomial(node.expression)
            return _added(first, second if isinstance(node, exp.Add) else second.apply("-", ""))
        if isinstance(node, exp.Div) and not self._names(node.expression):
            return self._polynomial(node.this).apply("(", f" / {self.text(node.expression)})")
        if isinstance(node, exp.Mul):
            return _multiplied(self._polynomial(node.this), self._polynomial(node.expression))
        raise NotBoundedError


def _added(first: Polynomial, second: Polynomial) -> Polynomial:
    found = Polynomial(first)
    for key, sql in second.items():
        ordered = tuple(sorted(key))
        found[ordered] = f"(({found[ordered]}) + ({sql}))" if ordered in found else sql
    return found


def _multiplied(first: Polynomial, second: Polynomial) -> Polynomial:
    found = Polynomial()
    for one, sql in first.items():
        parts = second.apply(f"({sql}) * ", "")
        found = _added(found, Polynomial({(*one, *key): each for key, each in parts.items()}))
    if max(map(len, found)) > 2:
        raise NotBoundedError
    return found


def free_of(expression: Expression, sql: str, column: str) -> Expression:
    """Return SQL over the columns of an expression but one."""
    names = tuple(name for name in expression.attributes if name != column)
    return Expression(sql, names, expression.start)
