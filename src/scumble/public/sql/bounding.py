"""Least and largest values of an expression whose columns are known up to an interval.

A column that is published in bins, or by month or year, is only known to lie between two values.
`Bounding` writes SQL for the least and the largest value of a number (interval arithmetic), and for
conditions that hold surely and possibly. The result is SQL, so that DuckDB alone computes.

Only expressions of a known form can be bounded: + - * / //, comparisons, AND, OR, NOT, CASE,
casts and monotone functions. `NotBoundedError` is raised for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from sqlglot import exp

from scumble.model.query import Expression, quoted
from scumble.public.sql.expressions import check_functions, syntax_tree
from scumble.public.sql.tokens import TokenizedSql

Ends = tuple[str, str]  # SQL of the least and the largest value, or of surely and possibly
Rule = Callable[[exp.Expr, Mapping[str, Ends]], Ends]

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
    exp.And: "AND",
    exp.Or: "OR",
    exp.Like: "LIKE",
    exp.Is: "IS",
}
_COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_RISING = frozenset("floor ceil ceiling round trunc sqrt cbrt exp ln log log10 log2 year".split())
_ORDERED_TYPES = exp.DataType.NUMERIC_TYPES | exp.DataType.TEMPORAL_TYPES  # casts to them rise
_LONGEST = 20_000  # characters of the SQL of one bound


class NotBoundedError(Exception):
    """The expression has a form whose least and largest value are not known."""


class BoundedTree:
    """The syntax tree of an expression, in which the columns `coarse` are known up to intervals."""

    def __init__(self, expression: Expression, coarse: Sequence[str]) -> None:
        self.expression = expression
        self.coarse = frozenset(coarse)
        self._question = TokenizedSql(expression.sql)

    @cached_property
    def root(self) -> exp.Expr:
        tokens = self._question.tokens
        return syntax_tree(self._question, tokens, check_functions(self._question, tokens))

    def constants(self) -> Iterator[tuple[str, str]]:
        """Yield columns with the SQL of constants that they are compared with.

        Between two such constants, every plain comparison of the column is constant.
        """
        for node in self.root.walk():
            found = self._compared(node)
            if found is not None:
                column, others = found
                yield from ((column, self.text(other)) for other in others)
            if isinstance(node, exp.Div | exp.IntDiv):
                divisor = node.expression.unnest()
                if isinstance(divisor, exp.Column) and divisor.name in self.coarse:
                    yield divisor.name, "0"

    @property
    def constant_between(self) -> bool:
        """Whether the expression is constant between the constants that columns are compared to."""
        return self._constant_between(self.root)

    def number(self, columns: Mapping[str, Ends]) -> Ends:
        """Return SQL of the least and the largest value, given those of the coarse columns."""
        return self._short(self._number(self.root, columns))

    def truth(self, columns: Mapping[str, Ends]) -> Ends:
        """Return SQL of whether a condition holds surely, and possibly.

        In the order false < NULL < true the condition is between the two.
        """
        return self._short(self._truth(self.root, columns))

    def _short(self, ends: Ends) -> Ends:
        if max(map(len, ends)) > _LONGEST:
            raise NotBoundedError
        return ends

    # Numbers

    def _number(self, node: exp.Expr, columns: Mapping[str, Ends]) -> Ends:
        if not self._names(node):
            return (self.text(node),) * 2
        if isinstance(node, exp.Column):
            return columns[node.name]
        if isinstance(node, exp.Paren):
            return self._number(node.this, columns)
        if isinstance(node, exp.Neg):
            low, high = self._number(node.this, columns)
            return f"(-{high})", f"(-{low})"
        rules: dict[type[exp.Expr], Rule] = {
            exp.Add: self._sum,
            exp.Sub: self._sum,
            exp.Mul: self._product,
            exp.Pow: self._power,
            exp.Div: self._quotient,
            exp.IntDiv: self._quotient,
            exp.Cast: self._cast,
            exp.Case: self._case,
            exp.Anonymous: self._function,
        }
        if type(node) not in rules:
            raise NotBoundedError
        return rules[type(node)](node, columns)

    def _sum(self, node: exp.Expr, columns: Mapping[str, Ends]) -> Ends:
        (low, high), (least, most) = self._operands(node, columns)
        if isinstance(node, exp.Add):
            return f"({low} + {least})", f"({high} + {most})"
        return f"({low} - {most})", f"({high} - {least})"

    def _product(self, node: exp.Expr, columns: Mapping[str, Ends]) -> Ends:
        one, other = self._operands(node, columns)
        return _square(*one) if one == other else _extremes("*", one, other)

    def _power(self, node: exp.Expr, columns: Mapping[str, Ends]) -> Ends:
        if self.text(node.expression) != "2":
            raise NotBoundedError
        return _square(*self._number(node.this, columns))

    def _cast(self, node: exp.Expr, columns: Mapping[str, Ends]) -> Ends:
        kind = node.args["to"]
        if kind.this not in _ORDERED_TYPES:
            raise NotBoundedError
        low, high = self._number(node.this, columns)
        return f"CAST({low} AS {kind.sql('duckdb')})", f"CAST({high} AS {kind.sql('duckdb')})"

    def _operands(self, node: exp.Expr, columns: Mapping[str, Ends]) -> tuple[Ends, Ends]:
        return self._number(node.this, columns), self._number(node.expression, columns)

    def _quotient(self, node: exp.Expr, columns: Mapping[str, Ends]) -> Ends:
        one, other = self._operands(node, columns)
        low, high = _extremes(_OPERATORS[type(node)], one, other)
        if other[0] == other[1]:
            return low, high
        least, most = other  # a divisor that may be 0 has no bounds, unless it surely is 0
        known = f"({least} > 0 OR {most} < 0 OR {least} = {most})"
        return tuple(
            f"(CASE WHEN {known} THEN {end} WHEN {least} IS NOT NULL THEN {limit} END)"
            for end, limit in ((low, "CAST('-inf' AS DOUBLE)"), (high, "CAST('inf' AS DOUBLE)"))
        )  # type: ignore[return-value]

    def _case(self, node: exp.Expr, columns: Mapping[str, Ends]) -> Ends:
        """Bound a CASE whose conditions are constant between the constants compared with."""
        if node.this is not None and self._names(node.this):
            raise NotBoundedError
        branches = [(branch.this, branch.args["true"]) for branch in node.args["ifs"]]
        head = f"CASE {self.text(node.this)}" if node.this is not None else "CASE"
        return self._branches(head, branches, node.args.get("default"), columns)

    def _branches(
        self,
        head: str,
        branches: Sequence[tuple[exp.Expr, exp.Expr]],
        default: exp.Expr | None,
        columns: Mapping[str, Ends],
    ) -> Ends:
        some = {name: low for name, (low, _) in columns.items()}
        low = high = head
        for condition, value in branches:
            if not self._constant_between(condition):
                raise NotBoundedError
            holds, (least, most) = self.text(condition, some), self._number(value, columns)
            low, high = f"{low} WHEN {holds} THEN {least}", f"{high} WHEN {holds} THEN {most}"
        if default is not None:
            least, most = self._number(default, columns)
            low, high = f"{low} ELSE {least}", f"{high} ELSE {most}"
        return f"({low} END)", f"({high} END)"

    def _function(self, node: exp.Expr, columns: Mapping[str, Ends]) -> Ends:
        name, given = self._name(node), node.expressions
        if name == "if" and len(given) == 3:
            return self._branches("CASE", [(given[0], given[1])], given[2], columns)
        if name in ("coalesce", "ifnull", "least", "greatest"):
            ends = [self._number(each, columns) for each in given]
            low, high = (", ".join(each) for each in zip(*ends, strict=True))
            return f"{name}({low})", f"{name}({high})"
        if name == "abs" and len(given) == 1:
            low, high = self._number(given[0], columns)
            least = f"CASE WHEN {low} >= 0 THEN {low} WHEN {high} <= 0 THEN -{high}"
            return f"({least} WHEN {low} IS NOT NULL THEN 0 END)", f"greatest(-{low}, {high})"
        if name not in _RISING or not given or any(self._names(each) for each in given[1:]):
            raise NotBoundedError
        if name == "log" and len(given) > 1:
            raise NotBoundedError
        more = "".join(f", {self.text(each)}" for each in given[1:])
        low, high = self._number(given[0], columns)
        return f"{name}({low}{more})", f"{name}({high}{more})"

    # Conditions

    def _truth(self, node: exp.Expr, columns: Mapping[str, Ends]) -> Ends:
        if self._constant_between(node):
            return (self.text(node, {name: low for name, (low, _) in columns.items()}),) * 2
        if isinstance(node, exp.Paren):
            return self._truth(node.this, columns)
        if isinstance(node, exp.Not):
            return _negated(self._truth(node.this, columns))
        if isinstance(node, exp.And | exp.Or):
            one, other = self._truth(node.this, columns), self._truth(node.expression, columns)
            word = _OPERATORS[type(node)]
            return f"({one[0]} {word} {other[0]})", f"({one[1]} {word} {other[1]})"
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            low, _ = self._number(node.this, columns)  # as strict operators have it
            return (f"({low} IS NULL)",) * 2
        return self._comparison(node, columns)

    def _comparison(self, node: exp.Expr, columns: Mapping[str, Ends]) -> Ends:
        """Bound a comparison of numbers that vary between constants."""
        if isinstance(node, exp.GT | exp.GTE | exp.LT | exp.LTE):
            one, other = self._operands(node, columns)
            word = _OPERATORS[type(node)]
            if isinstance(node, exp.LT | exp.LTE):
                return f"({one[1]} {word} {other[0]})", f"({one[0]} {word} {other[1]})"
            return f"({one[0]} {word} {other[1]})", f"({one[1]} {word} {other[0]})"
        if isinstance(node, exp.EQ):
            return _equal(*self._operands(node, columns))
        if isinstance(node, exp.NEQ):
            return _negated(_equal(*self._operands(node, columns)))
        if isinstance(node, exp.Between):
            value = self._number(node.this, columns)
            least = self._number(node.args["low"], columns)
            most = self._number(node.args["high"], columns)
            return (
                f"({value[0]} >= {least[1]} AND {value[1]} <= {most[0]})",
                f"({value[1]} >= {least[0]} AND {value[0]} <= {most[1]})",
            )
        if _is_list(node):
            value = self._number(node.this, columns)
            each = [_equal(value, self._number(item, columns)) for item in node.expressions]
            one_of, other_of = (" OR ".join(ends) for ends in zip(*each, strict=True))
            return f"({one_of})", f"({other_of})"
        raise NotBoundedError

    # The tree

    def _compared(self, node: exp.Expr) -> tuple[str, list[exp.Expr]] | None:
        """Return the column and the constants of a plain comparison, or None."""
        if isinstance(node, _COMPARED):
            sides = [node.this, node.expression]
        elif isinstance(node, exp.Between):
            sides = [node.this, node.args["low"], node.args["high"]]
        elif _is_list(node):
            sides = [node.this, *node.expressions]
        elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            sides = [node.this]
        else:
            return None
        flipped = isinstance(node, _COMPARED) and not self._names(sides[0])
        column, *others = sides[::-1] if flipped else sides
        column = column.unnest()
        if not isinstance(column, exp.Column) or column.name not in self.coarse:
            return None
        varying = any(next(each.find_all(exp.Column, exp.Select), None) for each in others)
        return None if varying else (column.name, others)

    def _constant_between(self, node: exp.Expr) -> bool:
        if not self._names(node) or self._compared(node) is not None:
            return True
        if isinstance(node, exp.And | exp.Or | exp.Not | exp.Paren):
            return all(self._constant_between(child) for child in node.iter_expressions())
        return False

    def _names(self, node: exp.Expr) -> bool:
        """Return whether a coarse column is in the node."""
        return any(column.name in self.coarse for column in node.find_all(exp.Column))

    def _name(self, node: exp.Expr) -> str:
        """Return the name of a function; the parser was given another one."""
        start = node.meta.get("start", -1)
        found = (each.text.lower() for each in self._question.tokens if each.start == start)
        name = next(found, None)
        if name is None:
            raise NotBoundedError
        return name

    def text(self, node: exp.Expr, columns: Mapping[str, str] | None = None) -> str:
        """Return a node as SQL, with other SQL in place of some columns."""
        sql = self._text(node, columns or {})
        if len(sql) > _LONGEST:
            raise NotBoundedError
        return sql

    def _text(self, node: exp.Expr, columns: Mapping[str, str]) -> str:
        if isinstance(node, exp.Column):
            return columns.get(node.name, quoted(node.name))
        if isinstance(node, exp.Literal):
            return "'" + node.name.replace("'", "''") + "'" if node.is_string else node.name
        if isinstance(node, exp.Boolean | exp.Null):
            return node.sql("duckdb")
        write = _WRITERS.get(type(node))
        if write is not None:
            return write(node, lambda child: self._text(child, columns))
        if type(node) in _OPERATORS:
            sides = [self._text(side, columns) for side in (node.this, node.expression)]
            return f"({sides[0]} {_OPERATORS[type(node)]} {sides[1]})"
        if isinstance(node, exp.Anonymous):
            given = ", ".join(self._text(each, columns) for each in node.expressions)
            return f"{self._name(node)}({given})"
        raise NotBoundedError


# SQL of nodes, given the SQL of their parts.

Writer = Callable[[exp.Expr, Callable[[exp.Expr], str]], str]


def _write_between(node: exp.Expr, part: Callable[[exp.Expr], str]) -> str:
    return f"({part(node.this)} BETWEEN {part(node.args['low'])} AND {part(node.args['high'])})"


def _write_list(node: exp.Expr, part: Callable[[exp.Expr], str]) -> str:
    if not _is_list(node):
        raise NotBoundedError
    return f"({part(node.this)} IN ({', '.join(map(part, node.expressions))}))"


def _write_interval(node: exp.Expr, part: Callable[[exp.Expr], str]) -> str:
    unit = node.args.get("unit")
    if not isinstance(unit, exp.Var):
        raise NotBoundedError
    return f"INTERVAL ({part(node.this)}) {unit.name}"


def _write_case(node: exp.Expr, part: Callable[[exp.Expr], str]) -> str:
    head = f"CASE {part(node.this)}" if node.this is not None else "CASE"
    branches = (
        f" WHEN {part(each.this)} THEN {part(each.args['true'])}" for each in node.args["ifs"]
    )
    default = node.args.get("default")
    last = "" if default is None else f" ELSE {part(default)}"
    return f"({head}{''.join(branches)}{last} END)"


_WRITERS: dict[type[exp.Expr], Writer] = {
    exp.Paren: lambda node, part: f"({part(node.this)})",
    exp.Neg: lambda node, part: f"(-{part(node.this)})",
    exp.Not: lambda node, part: f"(NOT {part(node.this)})",
    exp.Between: _write_between,
    exp.In: _write_list,
    exp.Cast: lambda node, part: f"CAST({part(node.this)} AS {node.args['to'].sql('duckdb')})",
    exp.Interval: _write_interval,
    exp.Extract: lambda node, part: f"EXTRACT({node.this.name} FROM {part(node.expression)})",
    exp.Case: _write_case,
}


def _is_list(node: exp.Expr) -> bool:
    """Return whether a node is IN with a list."""
    return isinstance(node, exp.In) and bool(node.expressions) and not node.args.get("query")


def _negated(ends: Ends) -> Ends:
    surely, possibly = ends
    return f"(NOT {possibly})", f"(NOT {surely})"


def _extremes(operator: str, one: Ends, other: Ends) -> Ends:
    """Return the least and the largest result at the ends of two operands."""
    each = dict.fromkeys(f"{left} {operator} {right}" for left in one for right in other)
    if len(each) == 1:
        return (f"({next(iter(each))})",) * 2
    return f"least({', '.join(each)})", f"greatest({', '.join(each)})"


def _square(low: str, high: str) -> Ends:
    least = f"(CASE WHEN {low} >= 0 THEN {low} * {low} WHEN {high} <= 0 THEN {high} * {high} "
    return f"{least}WHEN {low} IS NOT NULL THEN 0 END)", f"greatest({low} * {low}, {high} * {high})"


def _equal(one: Ends, other: Ends) -> Ends:
    return (
        f"({one[0]} >= {other[1]} AND {one[1]} <= {other[0]})",
        f"({one[1]} >= {other[0]} AND {one[0]} <= {other[1]})",
    )
