"""A parsed question as plain data: an aggregate, a condition, and the grouping attributes."""

from __future__ import annotations

import glob
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

Aggregate = Literal["count", "sum", "mean"]
Operator = Literal["=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN", "IS"]
LiteralKind = Literal["text", "number", "truth"]


class ComparedLiteral(NamedTuple):
    """A literal of a comparison. `text` is unquoted and has no sign.

    `negative` says whether a minus stands before a number, `dated` whether DATE stands before a
    text.
    """

    kind: LiteralKind
    text: str
    negative: bool = False
    dated: bool = False


class Comparison(NamedTuple):
    """`column operator literals`: = <> < <= > >=, [NOT] IN, [NOT] BETWEEN, IS [NOT] NULL.

    `negated` says whether NOT stands before IN or BETWEEN, or after IS.
    """

    column: str
    operator: Operator
    literals: tuple[ComparedLiteral, ...]
    negated: bool = False


@dataclass(frozen=True)
class Expression:
    """A deterministic scalar expression in DuckDB's SQL, over attributes of a schema.

    The SQL contains attributes under their exact names, in double quotes. Put it into parentheses
    to embed it in another expression.
    """

    sql: str
    attributes: tuple[str, ...]  # the attributes in the expression, sorted
    start: int = field(default=0, compare=False, repr=False)  # its offset in the question
    # numbers whose product it is; empty if it is not known to be a product
    factors: tuple[Expression, ...] = field(default=(), compare=False, repr=False)
    # the comparison that it is, if it was read as one
    comparison: Comparison | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Query:
    """COUNT, SUM or AVG over the rows that satisfy every clause; one answer for each group."""

    aggregate: Aggregate
    argument: Expression | None = None  # the summand; None for a count
    clauses: tuple[Expression, ...] = ()  # a conjunction; without clauses, all rows
    groups: tuple[str, ...] = ()
    text: str = ""
    notes: tuple[str, ...] = ()  # remarks about the meaning of the question
    # the names that AS gives to the groups and to the number, "" for those without; () for none
    aliases: tuple[str, ...] = field(default=(), compare=False)

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The clauses, followed by the argument if there is one."""
        return self.clauses if self.argument is None else (*self.clauses, self.argument)

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attributes in the question, sorted."""
        named = {name for part in self.expressions for name in part.attributes}
        return tuple(sorted(named.union(self.groups)))


@dataclass(frozen=True)
class ListQuery(Query):
    """A question about whole lists, which no expression over columns of single values says.

    It is read and answered by the reader of a release of lists.
    """


def file_literal(path: Path) -> str:
    """Return the path of one file as a text of SQL, which DuckDB does not take for a pattern."""
    return "'" + glob.escape(str(path)).replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier.

    >>> quoted('education-num')
    '"education-num"'
    """
    return '"' + name.replace('"', '""') + '"'


def query_command(folder: Path | str, sql: str) -> str:
    """Return the shell command that asks a question, with SQL in double quotes if possible."""
    plain = not set('"$`\\!') & set(sql)
    words = f'"{sql}"' if plain else shlex.quote(sql)
    return f"scumble ask {shlex.quote(str(folder))} {words}"


def place(text: str, start: int) -> tuple[int, int]:
    """Return the line and column, counted from 1, of an offset into a text.

    >>> place("SELECT *", 7)
    (1, 8)
    """
    lines = (text[:start] + "^").splitlines()
    return len(lines), len(lines[-1])
