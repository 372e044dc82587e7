"""Arithmetic over aggregates: the tree of a SELECT item, and its linear and ratio forms.

A linear combination of sums over rows is itself one sum over rows, so that it has one exact error
law. A ratio of two of them is an average. `linear` and `ratio` find these forms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from scumble.public.estimation.selecting.interval_arithmetic import apply
from scumble.public.sql.aggregates import Scope, Term


@dataclass(frozen=True)
class Constant:
    """A number of the question."""

    value: float


@dataclass(frozen=True)
class Apply:
    """An operator or function of other nodes: + - * / negative, or a name of `FUNCTIONS`."""

    name: str
    parts: tuple[Node, ...]


Node = Constant | Term | Apply

# Functions of one number that may be applied to aggregates; some have a second, constant one.
FUNCTIONS = frozenset(
    "round floor ceil ceiling abs sqrt ln log exp coalesce ifnull nullif cast".split()
)
_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_KNOWN = "+, -, *, /, round, floor, ceil, abs, sqrt, ln, log, exp, coalesce, nullif and CAST"
_NUMBERS = {"DOUBLE", "FLOAT", "REAL", "DECIMAL", "INT", "BIGINT", "INT128"}


class UnsupportedError(Exception):
    """An operation on aggregates whose error is not known; `node` is where."""

    def __init__(self, node: exp.Expr, message: str = "") -> None:
        super().__init__(message)
        self.node = node
        self.message = message or (
            f"Of aggregates, only {_KNOWN} with constants are supported: the error of anything "
            "else is not known."
        )


def read_node(tree: exp.Expr, terms: Mapping[str, Node], functions: Mapping[int, str]) -> Node:
    """Return the node of a syntax tree in which the columns are the placeholders of `terms`, which
    are aggregates, or formulas that have a name.

    `functions` are the names of called functions by offset.
    """
    if isinstance(tree, exp.Paren):
        return read_node(tree.this, terms, functions)
    if isinstance(tree, exp.Column) and tree.name in terms:
        return terms[tree.name]
    if isinstance(tree, exp.Literal) and not tree.is_string:
        return Constant(float(tree.this))
    if isinstance(tree, exp.Neg):
        return _apply("negative", (read_node(tree.this, terms, functions),))
    if type(tree) in _OPERATORS:
        parts = (tree.this, tree.expression)
        return _apply(
            _OPERATORS[type(tree)], tuple(read_node(each, terms, functions) for each in parts)
        )
    if isinstance(tree, exp.Cast):
        if tree.to.this.name not in _NUMBERS:
            raise UnsupportedError(tree)
        whole = tree.to.this.name in ("INT", "BIGINT", "INT128")
        inner = read_node(tree.this, terms, functions)
        return Apply("rint", (inner,)) if whole else inner
    if isinstance(tree, exp.Anonymous):
        return _function(tree, terms, functions)
    raise UnsupportedError(tree)


def _function(tree: exp.Anonymous, terms: Mapping[str, Node], functions: Mapping[int, str]) -> Node:
    name = functions.get(tree.meta.get("start", -1), "").lower()
    parts = tuple(read_node(each, terms, functions) for each in tree.expressions)
    constant = all(isinstance(part, Constant) for part in parts[1:])
    many = {"round": (1, 2), "coalesce": (2,), "ifnull": (2,), "nullif": (2,)}.get(name, (1,))
    if name not in FUNCTIONS or len(parts) not in many or not constant:
        raise UnsupportedError(tree)
    name = {"ceiling": "ceil", "ifnull": "coalesce"}.get(name, name)
    return _apply(name, parts)


def _apply(name: str, parts: tuple[Node, ...]) -> Node:
    """Return the node, as a constant if all its parts are."""
    if all(isinstance(part, Constant) for part in parts):
        value = apply(name, [part.value for part in parts if isinstance(part, Constant)])
        return Constant(value)
    return Apply(name, parts)


def terms_of(node: Node) -> list[Term]:
    """Return the aggregates of a node, each once."""
    if isinstance(node, Term):
        return [node]
    if isinstance(node, Constant):
        return []
    return list(dict.fromkeys(term for part in node.parts for term in terms_of(part)))


@dataclass(frozen=True)
class Linear:
    """Σ weight · term + constant, over terms that are sums over rows."""

    weights: tuple[tuple[Term, float], ...]
    constant: float = 0.0

    @property
    def scopes(self) -> set[Scope | None]:
        """The scopes of the terms."""
        return {term.scope for term, _ in self.weights}

    def scaled(self, factor: float) -> Linear:
        return Linear(
            tuple((term, weight * factor) for term, weight in self.weights), self.constant * factor
        )

    def plus(self, other: Linear) -> Linear:
        weights = dict(self.weights)
        for term, weight in other.weights:
            weights[term] = weights.get(term, 0.0) + weight
        return Linear(
            tuple((term, weight) for term, weight in weights.items() if weight),
            self.constant + other.constant,
        )


def linear(node: Node) -> Linear | None:
    """Return the linear form of a node over rows of one scope, or None if it has none."""
    found = _linear(node)
    return None if found is None or len(found.scopes) > 1 else found


def _linear(node: Node) -> Linear | None:
    """Return the linear form of a node, whose terms may have several scopes."""
    if isinstance(node, Constant):
        return Linear((), node.value)
    if isinstance(node, Term):
        return Linear(((node, 1.0),)) if node.linear else None
    parts = [_linear(part) for part in node.parts]
    first, second = parts[0], parts[-1]
    if first is None or second is None:
        return None
    if node.name == "negative":
        return first.scaled(-1.0)
    if node.name in "+-":
        return first.plus(second.scaled(1.0 if node.name == "+" else -1.0))
    if node.name == "*" and not (first.weights and second.weights):
        return first.scaled(second.constant) if first.weights else second.scaled(first.constant)
    if node.name == "/" and not second.weights and second.constant:
        return first.scaled(1 / second.constant)
    return None


@dataclass(frozen=True)
class Ratio:
    """The ratio of two linear forms without constants."""

    total: Linear
    count: Linear


def ratio(node: Node) -> Ratio | None:
    """Return the ratio form of a node, or None if it has none. An average is the ratio of sums."""
    if isinstance(node, Term):
        return _average(node) if node.kind == "mean" else None
    if isinstance(node, Constant):
        return None
    if node.name == "negative":
        return _scaled(ratio(node.parts[0]), -1.0)
    if node.name == "/":
        top, bottom = _linear(node.parts[0]), linear(_without_guard(node.parts[1]))
        if top is not None and bottom is not None and top.weights and bottom.weights:
            return None if top.constant or bottom.constant else Ratio(top, bottom)
    if node.name in ("*", "/", "+", "-") and len(node.parts) == 2:
        return _with_constant(node)
    return None


def ratios(node: Node) -> tuple[Ratio, Ratio] | None:
    """Return the ratio forms of dividend and divisor, as of two averages; None if one has none."""
    if not isinstance(node, Apply) or node.name != "/":
        return None
    one, other = ratio(node.parts[0]), ratio(_without_guard(node.parts[1]))
    return None if one is None or other is None else (one, other)


def _with_constant(node: Apply) -> Ratio | None:
    """Return the ratio form of an operation on a ratio and a constant."""
    first, second = node.parts
    if isinstance(second, Constant):
        found = ratio(first)
        if node.name == "*":
            return _scaled(found, second.value)
        if node.name == "/":
            return _scaled(found, 1 / second.value) if second.value else None
        return _shifted(found, second.value if node.name == "+" else -second.value)
    if isinstance(first, Constant) and node.name != "/":
        found = ratio(second)
        if node.name == "*":
            return _scaled(found, first.value)
        return _shifted(_scaled(found, 1.0 if node.name == "+" else -1.0), first.value)
    return None


def _without_guard(node: Node) -> Node:
    """Return x for nullif(x, 0)."""
    if isinstance(node, Apply) and node.name == "nullif" and node.parts[1] == Constant(0.0):
        return node.parts[0]
    return node


def _scaled(found: Ratio | None, factor: float) -> Ratio | None:
    return None if found is None or not factor else Ratio(found.total.scaled(factor), found.count)


def _shifted(found: Ratio | None, offset: float) -> Ratio | None:
    if found is None:
        return None
    return Ratio(found.total.plus(found.count.scaled(offset)), found.count)


def _average(term: Term) -> Ratio:
    """Return SUM(x) / COUNT(x) for AVG(x)."""
    total = replace(term, kind="sum", filtered=False)
    count = replace(total, kind="count", argument=None)
    return Ratio(Linear(((total, 1.0),)), Linear(((count, 1.0),)))
