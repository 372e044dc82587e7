"""Aggregates of a SELECT: COUNT, SUM, AVG, quantiles, variances and others, as `Term`s.

`find_calls` finds the calls of aggregates among tokens, with what belongs to them: FILTER (WHERE
...) and WITHIN GROUP (ORDER BY ...). `read_term` reads one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from pyarrow import types
from sqlglot import Token
from sqlglot import TokenType as T

from scumble.model.query import Expression, quoted
from scumble.model.schema.attribute import Attribute
from scumble.public.sql.conditions import Span, known, read_clauses, strip
from scumble.public.sql.expressions import (
    catalogue,
    condition_of,
    is_condition,
    read_expression,
)
from scumble.public.sql.tokens import AGGREGATES, NameResolver, TokenizedSql, is_word

Kind = Literal[
    "count", "sum", "mean", "quantile", "min", "max", "distinct", "variance", "covariance",
    "regression",
]  # fmt: skip


@dataclass(frozen=True)
class Scope:
    """The rows of a total: those that satisfy `clauses` (None: WHERE of the question) and have the
    values of the keys `within` that the group has.
    """

    within: tuple[Expression, ...] = ()
    clauses: tuple[Expression, ...] | None = None


@dataclass(frozen=True)
class Term:
    """One aggregate: what is aggregated over the rows that satisfy its clauses.

    `clauses` are the conditions of FILTER, and that the arguments are not NULL. `share` is the q of
    a quantile. `option` is "cont" or "disc" of a quantile, "pop" or "samp" of a variance, and what
    is asked of a regression; `root` says that its square root is asked for. `second` is the second
    argument of a covariance or regression.
    A total has a `scope`; other aggregates are over the rows of their group.
    """

    kind: Kind
    argument: Expression | None = None
    clauses: tuple[Expression, ...] = ()
    option: str = ""
    share: float = 0.5
    root: bool = False
    second: Expression | None = None
    filtered: bool = False  # by FILTER or COUNT_IF
    notes: tuple[str, ...] = field(default=(), compare=False)
    start: int = field(default=0, compare=False, repr=False)
    scope: Scope | None = None

    @property
    def linear(self) -> bool:
        """Whether it is a sum over rows."""
        return self.kind in ("count", "sum")


class Call(NamedTuple):
    """The call of an aggregate: its tokens, those of its arguments, of FILTER and of ORDER BY.

    A total has the tokens within the parentheses of OVER as `over`, or it is a `subselect`.
    """

    span: Span
    arguments: Span
    condition: Span | None = None
    order: Span | None = None
    over: Span | None = None
    subselect: bool = False


_SIMPLE: dict[str, tuple[Kind, str, bool]] = {
    "count": ("count", "", False),
    "count_if": ("count", "if", False),
    "countif": ("count", "if", False),
    "sum": ("sum", "", False),
    "avg": ("mean", "", False),
    "mean": ("mean", "", False),
    "median": ("quantile", "cont", False),
    "quantile": ("quantile", "disc", False),
    "quantile_cont": ("quantile", "cont", False),
    "quantile_disc": ("quantile", "disc", False),
    "percentile_cont": ("quantile", "cont", False),
    "percentile_disc": ("quantile", "disc", False),
    "min": ("min", "", False),
    "max": ("max", "", False),
    "var_pop": ("variance", "pop", False),
    "var_samp": ("variance", "samp", False),
    "variance": ("variance", "samp", False),
    "stddev": ("variance", "samp", True),
    "stddev_samp": ("variance", "samp", True),
    "stddev_pop": ("variance", "pop", True),
    "covar_pop": ("covariance", "pop", False),
    "covar_samp": ("covariance", "samp", False),
    "corr": ("regression", "corr", False),
    "regr_slope": ("regression", "slope", False),
    "regr_intercept": ("regression", "intercept", False),
    "regr_r2": ("regression", "r2", False),
}
_TWO = frozenset(
    "quantile quantile_cont quantile_disc covar_pop covar_samp corr "
    "regr_slope regr_intercept regr_r2".split()
)
_ALONE = (
    "A list of shares stands by itself in SELECT, as in QUANTILE_CONT(x, [0.25, 0.75]): each share "
    "is a column."
)
_MODE = (
    "MODE stands by itself: SELECT MODE(x) FROM t WHERE ... For groups, or beside other numbers, "
    "ask for COUNT(*) by GROUP BY x and sort it."
)


def find_calls(question: TokenizedSql, span: Span) -> Iterator[Call]:
    """Yield the outermost calls of aggregates; other aggregates of DuckDB raise `QueryError`."""
    at, end = span
    while at < end - 1:
        token, after = question.tokens[at], question.tokens[at + 1]
        if token.token_type is T.L_PAREN and after.token_type is T.SELECT:
            close = question.closing[at]
            if reads_view(question, at):
                yield Call((at, close + 1), (at + 1, close), subselect=True)
            at = close + 1
        elif after.token_type is T.L_PAREN and is_word(token) and _is_aggregate(question, token):
            call = _call(question, at)
            yield call
            at = call.span[1]
        else:
            at += 1


def reads_view(question: TokenizedSql, at: int) -> bool:
    """Return whether the sub-select that begins at a parenthesis reads the view itself."""
    tokens, place, end = question.tokens, at + 1, question.closing[at]
    while place < end and tokens[place].token_type is not T.FROM:
        place = question.closing.get(place, place) + 1
    place += 1
    while place + 2 < end and tokens[place + 1].token_type is T.DOT:
        place += 2
    word = tokens[min(place, end)]
    return word.token_type is T.L_PAREN or word.text.lower() in {question.table, *question.views}


def find_groupings(question: TokenizedSql, span: Span) -> Iterator[Call]:
    """Yield the calls of GROUPING, which tells totals apart from groups."""
    for at in range(span[0], span[1] - 1):
        token, after = question.tokens[at], question.tokens[at + 1]
        if token.text.lower() == "grouping" and after.token_type is T.L_PAREN and is_word(token):
            close = question.closing[at + 1]
            yield Call((at, close + 1), (at + 2, close))


def _is_aggregate(question: TokenizedSql, token: Token) -> bool:
    name = token.text.lower()
    if token.token_type is T.IDENTIFIER:
        return False
    if name in _SIMPLE:
        return True
    if name == "mode":
        raise question.error(_MODE, token)
    if name in catalogue().aggregates:
        raise question.error(f"{token.text} is not supported: {AGGREGATES}.", token)
    return False


def _call(question: TokenizedSql, at: int) -> Call:
    close = question.closing[at + 1]
    arguments, end = (at + 2, close), close + 1
    condition = order = None
    words = [token.text.upper() for token in question.tokens[end : end + 2]]
    if words == ["WITHIN", "GROUP"] and end + 2 in question.closing:
        inner = (end + 3, question.closing[end + 2])
        if question.tokens[inner[0]].token_type is not T.ORDER_BY:
            raise question.error("WITHIN GROUP needs ORDER BY.", question.tokens[end])
        order, end = (inner[0] + 1, inner[1]), inner[1] + 1
    kinds = [token.token_type for token in question.tokens[end : end + 2]]
    if kinds == [T.FILTER, T.L_PAREN]:
        inner = (end + 2, question.closing[end + 1])
        start = question.tokens[inner[0]]
        if start.token_type is T.WHERE:
            inner = (inner[0] + 1, inner[1])
        if inner[0] >= inner[1]:
            raise question.error("A condition is missing in FILTER.", start)
        condition, end = inner, inner[1] + 1
    over = None
    if question.tokens[end : end + 1] and question.tokens[end].token_type is T.OVER:
        if end + 1 not in question.closing:
            raise question.error("OVER needs parentheses: OVER ().", question.tokens[end])
        over, end = (end + 2, question.closing[end + 1]), question.closing[end + 1] + 1
    return Call((at, end), arguments, condition, order, over)


def find_shares(question: TokenizedSql, call: Call) -> list[Token]:
    """Return the list of shares of a call, as of QUANTILE_CONT(x, [0.25, 0.75]); else none."""
    tokens = question.tokens[slice(*call.arguments)]
    if call.subselect or not tokens or tokens[-1].token_type is not T.R_BRACKET:
        return []
    start = max(at for at, token in enumerate(tokens) if token.token_type is T.L_BRACKET)
    return [token for token in tokens[start:] if token.token_type is T.NUMBER]


def find_mode(question: TokenizedSql, span: Span) -> Span | None:
    """Return the argument of MODE(x) if these tokens are that, else None."""
    start, end = span
    word = question.tokens[start]
    if word.text.lower() != "mode" or word.token_type is T.IDENTIFIER or end - start < 4:
        return None
    if question.closing.get(start + 1) == end - 1:
        return start + 2, end - 1
    return None


def split_commas(question: TokenizedSql, span: Span) -> list[Span]:
    """Return the parts between the commas that are not inside of parentheses."""
    start, end = span
    parts: list[Span] = []
    at = start
    listed = False  # inside of a list, in which there are numbers alone
    while at < end:
        kind = question.tokens[at].token_type
        listed = kind is T.L_BRACKET or (listed and kind is not T.R_BRACKET)
        if kind is T.COMMA and not listed:
            parts.append((start, at))
            start = at + 1
        at = question.closing.get(at, at) + 1
    return [*parts, (start, end)]


def read_term(
    question: TokenizedSql, names: NameResolver, call: Call, share: Token | None = None
) -> Term:
    """Return the aggregate of a call; `share` is the chosen one of a list."""
    return _TermReader(question, names, call, share).read()


class _TermReader:
    """Reads one call. `clauses` and `notes` are collected on the way."""

    def __init__(
        self, question: TokenizedSql, names: NameResolver, call: Call, share: Token | None
    ) -> None:
        self.question, self.names, self.call, self.share = question, names, call, share
        self.token = question.tokens[call.span[0]]
        self.clauses: list[Expression] = []
        self.notes: list[str] = []

    def read(self) -> Term:
        name = self.token.text.lower()
        kind, option, root = _SIMPLE[name]
        if self.call.condition is not None:
            self._condition(self.call.condition)
        if self.call.order is not None and not name.startswith("percentile"):
            raise self.question.error("WITHIN GROUP is for PERCENTILE_CONT and _DISC.", self.token)
        if kind == "count":
            return self._count(option)
        parts = self._parts(name)
        share = 0.5
        if kind == "quantile":
            parts, share, option = self._quantile(name, parts, option)
        if kind == "sum" and self._is_count(parts[0]):
            return self._counted()
        read = self._mean if kind == "mean" else self._argument
        arguments = [read(part) for part in parts]
        return Term(
            kind,
            arguments[0],
            self._unique(),
            option,
            share,
            root,
            arguments[1] if len(arguments) > 1 else None,
            self.call.condition is not None,
            tuple(self.notes),
            self.token.start,
        )

    def _parts(self, name: str) -> list[Span]:
        start, end = self.call.arguments
        first = self.question.tokens[start].token_type
        if start == end or (end == start + 1 and first is T.STAR):
            raise self.question.error(f"{self.token.text} needs an expression.", self.token)
        if first in (T.DISTINCT, T.ALL):
            raise self.question.error(
                f"{self.token.text}(DISTINCT ...) is not supported: only COUNT(DISTINCT x) is.",
                self.question.tokens[start],
            )
        parts = split_commas(self.question, (start, end))
        wanted = 2 if name in _TWO else 1
        if len(parts) != wanted:
            many = f"{wanted} argument{'s' if wanted > 1 else ''}"
            raise self.question.error(f"{self.token.text} takes {many}.", self.token)
        return parts

    def _count(self, option: str) -> Term:
        start, end = self.call.arguments
        first = self.question.tokens[start].token_type
        if option == "if":
            if start == end:
                raise self.question.error(f"{self.token.text} needs a condition.", self.token)
            self._condition((start, end))
        elif first is T.DISTINCT:
            argument = self._argument((start + 1, end))
            return Term("distinct", argument, self._unique(), start=self.token.start)
        elif start != end and not (end == start + 1 and first is T.STAR):
            if len(split_commas(self.question, (start, end))) > 1:
                raise self.question.error(f"{self.token.text} takes 1 argument.", self.token)
            self._argument((start, end))
        return self._counted(option == "if" or self.call.condition is not None)

    def _counted(self, filtered: bool = True) -> Term:
        """Return the number of rows that satisfy the clauses."""
        notes, start = tuple(self.notes), self.token.start
        return Term("count", clauses=self._unique(), filtered=filtered, notes=notes, start=start)

    def _is_count(self, span: Span) -> bool:
        """Return whether the sum of an argument counts the rows that satisfy a condition, which is
        then one of the clauses.
        """
        inner = strip(self.question, span)
        condition = condition_of(self.question, inner)
        if condition is None and self._is_condition(inner):
            condition = inner
        if condition is not None:
            self._condition(condition)
        return condition is not None

    def _is_condition(self, span: Span) -> bool:
        attribute = self._column(span)
        if attribute is not None:
            return bool(types.is_boolean(attribute.arrow_type))
        tokens = self.question.tokens[slice(*span)]
        read = read_expression(self.question, self.names, tokens)
        return is_condition(read, self.names.schema)

    def _column(self, span: Span) -> Attribute | None:
        """Return the attribute that an argument without parentheses around it names."""
        first = self.question.tokens[span[0]]
        plain = span[1] - span[0] == 1 and is_word(first)
        if plain and first.text.lower() in self.names.attributes:
            return self.names.attribute(first)
        return None

    def _mean(self, span: Span) -> Expression:
        """Return the argument of AVG, which is 1 where a condition is true."""
        argument = self._argument(span)
        if not self._is_condition(strip(self.question, span)):
            return argument
        return replace(argument, sql=f"CASE WHEN ({argument.sql}) THEN 1 ELSE 0 END")

    def _quantile(self, name: str, parts: list[Span], option: str) -> tuple[list[Span], float, str]:
        """Return the argument, the share, and "cont" or "disc"."""
        if name == "median":
            return parts, 0.5, option
        if name.startswith("percentile"):
            if self.call.order is None:
                raise self.question.error(
                    f"{self.token.text} needs WITHIN GROUP (ORDER BY x).", self.token
                )
            start, end = self.call.order
            falling = self.question.tokens[end - 1].token_type
            if falling in (T.ASC, T.DESC):
                end -= 1
            share = self._share(parts[0])
            return [(start, end)], 1 - share if falling is T.DESC else share, option
        return parts[:1], self._share(parts[1]), option

    def _share(self, span: Span) -> float:
        tokens = self.question.tokens[slice(*strip(self.question, span))]
        if tokens[0].token_type is T.L_BRACKET:
            if self.share is None:
                raise self.question.error(_ALONE, tokens[0])
            tokens = [self.share]
        kinds = [token.token_type for token in tokens]
        number = kinds in ([T.NUMBER], [T.DOT, T.NUMBER])  # .9 is two tokens
        text = "".join(token.text for token in tokens) if number else ""
        try:
            share = float(text)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise self.question.error("The share is a number from 0 to 1.", tokens[0])
        return share

    def _condition(self, span: Span) -> None:
        for clause, notes in read_clauses(self.question, self.names, span):
            self.clauses.append(clause)
            self.notes += notes

    def _argument(self, span: Span) -> Expression:
        """Return an argument. As in SQL, rows where it is NULL are excluded, by one more clause."""
        start, end = strip(self.question, span)
        tokens = self.question.tokens[start:end]
        attribute = self._column((start, end))
        if attribute is not None:
            found = Expression(quoted(attribute.name), (attribute.name,), tokens[0].start)
            optional = attribute.missing
        else:
            found = read_expression(self.question, self.names, tokens)
            optional = True
        if optional:
            self.clauses.append(known(found))
        return found

    def _unique(self) -> tuple[Expression, ...]:
        return tuple(dict.fromkeys(self.clauses))
